"""One script: what is rewritten, what is left, and that nothing else changes."""

import classic
import numpy as np
import pytest
import tensorflow as tf
from old_scripts import BATCH, HEAD, READ, UNCLEAR, changed, script

from seqrecorder.legacy.migrate.findings import MARK
from seqrecorder.legacy.migrate.rewrite.script import rewrite

DATASET = """\
        dataset = tf.data.Dataset.from_tensor_slices(filenames).repeat(num_epochs)
        dataset = dataset.flat_map(tf.data.TFRecordDataset)

        def parse_record(serialized):
            return parse(serialized)  # one record

        dataset = dataset.map(parse_record, num_parallel_calls=tf.data.AUTOTUNE)
        dataset = dataset.padded_batch(batch_size, drop_remainder=True)
"""
CAME = {
    "graph": f"""\
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
{DATASET}\
        dataset = dataset.prefetch(tf.data.AUTOTUNE)
        batch = tf.data.make_one_shot_iterator(dataset).get_next()
""",
    "eager": f"""\
    context, sequence = tf.io.parse_single_sequence_example(
        context_features={{"length": tf.io.FixedLenFeature([], dtype=tf.int64)}},
            "tokens": tf.io.FixedLenSequenceFeature([], dtype=tf.int64),
            "labels": tf.io.FixedLenSequenceFeature([], dtype=tf.int64),
{DATASET}
        def finish(batch):
            return {{"tokens": batch["tokens"], "length": batch["length"]}}, batch["labels"]

        return dataset.map(finish).prefetch(tf.data.AUTOTUNE)
""",
}


@pytest.mark.parametrize("target", CAME)
def test_both_targets(target):
    """In a graph a function goes on to return tensors; else it returns the dataset, and names are TensorFlow 2's."""
    old = classic.HEAD + classic.SEQUENCES
    found = rewrite(old, target)
    assert (found.status, found.findings, found.functions) == ("converted", (), ("input_fn",))
    went, came = changed(old, found.text)
    assert "".join(came) == CAME[target]
    assert len(went) == {"graph": 10, "eager": 14}[target]


@pytest.mark.parametrize("target", ["graph", "eager"])
def test_rewriting_is_idempotent(target):
    """A script that was rewritten has nothing left to rewrite, and one that was flagged keeps its comments."""
    once = rewrite(classic.HEAD + classic.SEQUENCES + classic.IMAGES, target)
    assert rewrite(once.text, target) == rewrite(once.text, target).__class__("nothing", once.text)
    for unclear in (UNCLEAR["limit-epochs"], BETWEEN):
        flagged = rewrite(unclear, target)
        assert flagged.text.count(MARK) == 1
        again = rewrite(flagged.text, target)
        assert (again.status, again.text) == ("flagged", flagged.text)


def test_comments_of_an_earlier_run_go_when_they_are_done():
    """A script that was flagged, and mended since, has no stale comments; what is left is told with its own lines."""
    told = rewrite(UNCLEAR["shared-queue"])
    assert told.text.count(MARK) == 1
    mended = rewrite(told.text.replace(", shared_name='s'", ""))
    assert (mended.status, mended.text) == ("converted", rewrite(script(READ + BATCH)).text)
    worse = f"'''\n{MARK}[x] of a text\n'''\n" + told.text.replace("files, shared", "*files, shared")
    again = rewrite(worse)
    assert again.text.count(MARK) == 2
    assert [(finding.line, finding.code) for finding in again.findings] == [(9, "arguments")]
    assert rewrite(again.text).text == again.text


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_other_lines_keep_every_byte(end):
    """Ends of lines, trailing spaces, form feeds, tabs and a missing last end stay as they are."""
    odd = "x = 1   \n\x0c\ndef other():\n\treturn '''a\n   b'''  # c\t\n"
    old = (odd + script(READ + "    return tf.train.batch([record], 3)") + "\n" + odd[:-1]).replace("\n", end)
    found = rewrite(old)
    assert found.status == "converted"
    assert found.text.count(odd[:-1].replace("\n", end)) == 2
    assert not found.text.endswith("\n")
    assert ("\r" in found.text) == (end == "\r\n")
    assert end == "\n" or "\n" not in found.text.replace("\r\n", "")


def test_strings_in_moved_statements_keep_their_lines():
    """The lines of a string are not indented anew, because their white space belongs to it."""
    body = READ + '    text = tf.strings.join([record, """a\n  b"""])\n    return tf.train.batch([text], 3)\n'
    assert '        return tf.strings.join([record, """a\n  b"""])\n' in rewrite(script(body)).text


def test_statements_that_do_not_hang_on_the_record_stay():
    """Only what depends on the record moves into the mapped function, with the features that only it needs."""
    body = READ + (
        "    size = 3\n    print('building')\n    spec = {'x': tf.FixedLenFeature([], tf.int64)}\n"
        "    parsed = tf.parse_single_example(record, spec)\n    offset = size + 1\n"
        "    if size > 2:\n        value = parsed['x'] + offset\n    else:\n        value = parsed['x']\n"
        "    return tf.train.batch([value, parsed['x']], size)\n"
    )
    assert (
        rewrite(script(body)).text.partition("TFRecordDataset)\n")[2]
        == """\
    size = 3
    print('building')
    offset = size + 1

    def parse(record):
        spec = {'x': tf.FixedLenFeature([], tf.int64)}
        parsed = tf.parse_single_example(record, spec)
        if size > 2:
            value = parsed['x'] + offset
        else:
            value = parsed['x']
        return value, parsed['x']

    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.batch(size, drop_remainder=True)
    dataset = dataset.prefetch(tf.data.AUTOTUNE)
    return list(tf.data.make_one_shot_iterator(dataset).get_next())
"""
    )


BETWEEN = script(
    "    first, second = files, files\n    if first:\n        # Shuffled.\n"
    "        queue = tf.RandomShuffleQueue(9, 1, [tf.string, tf.string])\n"
    "        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue([first, second])]))\n"
    "        first, second = queue.dequeue()\n    return first, second\n"
)


@pytest.mark.parametrize("code", sorted(UNCLEAR))
def test_what_is_not_clear_is_left_as_it_is(code):
    """Nothing of the script changes but for a comment above what is not clear, which says why."""
    old = UNCLEAR[code]
    found = rewrite(old)
    assert found.status == "flagged"
    assert code in {finding.code for finding in found.findings}
    went, came = changed(old, found.text)
    assert not went
    assert all(line.lstrip().startswith(MARK) for line in came)
    assert len(came) == len(found.findings)


@pytest.mark.parametrize(
    ("made", "used"),
    [
        ("tf.placeholder(tf.string, [None])", "tf.train.string_input_producer(held)"),
        ("tf.placeholder(tf.int32, [])", "tf.train.batch([record], held)"),
        ("tf.train.get_or_create_global_step()", "tf.strings.join([record, tf.as_string(held)])"),
        ("tf.get_variable('x', [])", "tf.strings.join([record, tf.as_string(twice)])"),
    ],
)
def test_what_a_dataset_cannot_hold_stays(made, used):
    """Files, sizes and work that hang on a placeholder or a variable, also by other names, are left to a person."""
    head = f"held = {made}\ntwice = held\n"
    producing, batching = READ, BATCH
    if "producer" in used:
        producing = READ.replace("tf.train.string_input_producer(files)", used)
    elif "batch" in used:
        batching = f"    return {used}\n"
    else:
        producing += f"    record = {used}\n"
    [finding] = rewrite(script(producing + batching, before=head)).findings
    assert finding.code == "graph-state"
    assert "hangs on a placeholder or a variable" in finding.reason


@pytest.mark.parametrize(
    ("setting", "method"),
    [
        ("self.held = tf.Variable(0.5)", "x = tf.cast(x, tf.float32) - self.held"),
        ("start = tf.placeholder(tf.int64, [])\n        self.start = start; self.held = -self.start", "x += self.held"),
        ("self.held = tf.placeholder(tf.int64, [])", "x = self.add(x)"),
        ("self.held = 3", "x = read_one(queue)"),
        ("self.held = 3", "tf.image_summary('x', x)\n        x += self.held"),
        ("self.held = 3", "x = summed(x)"),
    ],
)
def test_what_methods_and_functions_hold_of_a_graph_stays(setting, method):
    """Variables and placeholders that attributes hold, and what functions of the script make of a graph, are seen."""
    old = (
        HEAD + "def summed(x):\n    tf.summary.scalar('x', x)\n    return x\n\n"
        "def read_one(queue):\n    _, record = tf.TFRecordReader().read(queue)\n"
        "    return record, tf.placeholder(tf.int32, [])\n\n"
        "class Data:\n    def __init__(self, files):\n"
        f"        {setting}\n\n    def add(self, x):\n        return x + self.held\n\n    def batches(self, files):\n"
        "        queue = tf.train.string_input_producer(files)\n"
    )
    if "read_one" not in method:
        old += "        _, record = tf.TFRecordReader().read(queue)\n"
        old += "        x = tf.parse_single_example(record, {'x': tf.FixedLenFeature([], tf.int64)})['x']\n"
    found = rewrite(f"{old}        {method}\n        return tf.train.batch([x], 3)\n")
    assert (found.status, {finding.code for finding in found.findings}) == ("flagged", {"graph-state"})


@pytest.mark.parametrize("keeping", ["self.x = tf.size(record)", "kept['x'] = record", "global x; x = record"])
def test_what_is_kept_of_a_record_stays(keeping):
    """A function that is mapped would keep what nobody can use: attributes, items and globals are left to a person."""
    body = READ + "".join(f"    {part}\n" for part in keeping.split("; ")) + "    return tf.train.batch([record], 3)\n"
    [finding] = rewrite(script(body, parameters="self, files, kept")).findings
    assert finding.code == "escapes"
    assert "something of single records is kept in it" in finding.reason


def test_comments_that_go_are_noted():
    """Comments above statements stay; those on lines that go are in the report."""
    old = script(
        READ.replace("    reader", "    # A reader.\n    reader").replace("(files)", "(files)  # twice") + BATCH
    )
    found = rewrite(old)
    assert found.notes == ("gone with its line: # twice",)
    assert "    # A reader.\n" in found.text


def test_constants_are_taken_for_what_they_are():
    """Numbers are as good as True and False."""
    new = rewrite(script(READ.replace("(files)", "(files, shuffle=0, num_epochs=1)") + BATCH)).text
    assert "    dataset = tf.data.Dataset.from_tensor_slices(files).repeat(1)\n    dataset = dataset.flat_map" in new


def test_a_list_of_one_tensor_is_not_shuffled_as_a_list():
    """A queue gives the tensor of a list of one, and the list of more: which is put in has to be told."""
    body = READ + (
        "    tensors = [record{}]\n    mixed = tf.RandomShuffleQueue(9, 2, [tf.string])\n"
        "    tf.train.add_queue_runner(tf.train.QueueRunner(mixed, [mixed.enqueue(tensors)]))\n"
        "    tensors = mixed.dequeue()\n    return tf.train.batch({}, 3)\n"
    )
    assert rewrite(script(body.format(", record", "tensors"))).status == "converted"
    found = rewrite(script(body.format("", "[tensors]")))
    assert "explicit-queue" in {finding.code for finding in found.findings}


def test_tables_are_there_before_the_records():
    """A graph initialises its tables after the iterator over what is looked up in them: that is left to a person."""
    tables = "words = tf.lookup.StaticHashTable(pairs, 0)\n\n\ndef known(record):\n    return words.lookup(record)\n"
    looked_up = script(READ + "    x = known(record)\n    return tf.train.batch([x], 3)\n", before=tables)
    assert [finding.code for finding in rewrite(looked_up).findings] == ["tables"]
    assert rewrite(looked_up, "eager").status == "converted"
    assert rewrite(script(READ + BATCH, before=tables)).status == "converted"


def test_python_after_tensorflow_1_is_left():
    """Names that an expression or a pattern binds are not followed, and no script of queues has them."""
    for line in ("if (n := len(files)): pass", "match files:\n        case [first]: pass"):
        done = rewrite(script(READ + f"    {line}\n" + BATCH))
        assert [(each.line, each.code) for each in done.findings] == [
            (
                done.text.splitlines().index(next(each for each in done.text.splitlines() if MARK in each)) + 1,
                "later-python",
            )
        ]


@pytest.mark.parametrize("line", ["import sugartensor as tf", "from layers import *", "import slim", "tf = None"])
def test_names_of_a_package_that_is_not_tensorflow_are_flagged(line):
    """A `tf` that no import says is TensorFlow is not followed, and what is written with it is not passed over."""
    done = rewrite(script(READ + BATCH).replace("import tensorflow as tf", line))
    assert (done.status, {finding.code for finding in done.findings}) == ("flagged", {"not-tensorflow"})
    assert rewrite("import layers as tf\n\ntrain = tf.Trainer()\ntrain.batch(tf.batch)\n").status == "nothing"


FILLED = """    codes = tf.decode_raw(record, tf.uint8)
    filled = tf.{kind}(9, [tf.uint8, tf.int32], shapes={shapes})
    tf.train.add_queue_runner(tf.train.QueueRunner(filled, [filled.enqueue([codes, {put}])]))
    first, second = filled.dequeue_many(3)
    return first, {used}
"""


def test_queues_that_are_gone_by_stay():
    """A queue makes tensors of numbers, and what goes by it is not shuffled with what goes through: both stay."""
    given = {"kind": "FIFOQueue", "shapes": "[[], []]", "put": "tf.size(codes)"}
    assert rewrite(script(READ + FILLED.format(**given, used="second"))).status == "converted"
    for code, change in (("explicit-queue", {"put": "1", "used": "second"}), ("escapes", {"used": "codes"})):
        [finding] = rewrite(script(READ + FILLED.format(**{**given, **change}))).findings
        assert finding.code == code


def test_sizes_of_a_queue_are_noted():
    """A PaddingFIFOQueue refused records of other sizes than its shapes had; a padded batch pads them."""
    given = {"kind": "PaddingFIFOQueue", "put": "tf.size(codes)", "used": "second"}
    [note] = rewrite(script(READ + FILLED.format(**given, shapes="[[5], []]"))).notes
    assert note.startswith("the sizes that the queue's shapes fix are not checked")
    assert not rewrite(script(READ + FILLED.format(**given, shapes="[[None], []]"))).notes


LEFT = {
    "left-over": READ.replace("    reader", "    reader = tf.TFRecordReader()\n    reader") + BATCH,
    "explicit-queue": READ
    + "    if files:\n        if files:\n            queued = tf.FIFOQueue(9, [tf.string], shapes=[[]])\n"
    "        threads = 1\n    else:\n        queued = tf.RandomShuffleQueue(9, 3, [tf.string], shapes=[[]])\n"
    "    tf.train.add_queue_runner(tf.train.QueueRunner(queued, [queued.enqueue([record])]))\n"
    "    records = queued.dequeue_many(3)\n    return records\n",
}


@pytest.mark.parametrize("code", LEFT)
def test_nothing_is_left_of_queues_and_no_block_is_empty(code):
    """What would leave a reader that nothing reads from, or a block without statements, is left to a person."""
    found = rewrite(script(LEFT[code]))
    assert (found.status, {finding.code for finding in found.findings}) == ("flagged", {code})


def test_parts_that_cannot_be_told_apart_stay_with_who_calls_them():
    """Where one function that does a part is not clear, those that call others of them stay too."""
    parts = "\n\ndef source(files):\n" + READ + "    return record, tf.size(record)\n"
    parts += "\n\ndef batch(x, y):\n    return tf.train.batch([x, y], 3)\n"
    body = "    x, y = source(files)\n    a = batch(x, 1)\n    return batch(1, y), a\n"
    found = rewrite(script(body, before=parts))
    assert found.status == "flagged"
    assert "part-used" in {finding.code for finding in found.findings}


def test_a_seed_of_the_graph_is_noted():
    """The order that a graph's seed gave the queues is another one now, where there is chance."""
    seeded = "tf.set_random_seed(3)\n"
    [note] = rewrite(script(READ + BATCH, before=seeded)).notes
    assert "the seed of the graph gives another order" in note
    assert not rewrite(script(READ.replace("(files)", "(files, shuffle=False)") + BATCH, before=seeded)).notes


def test_chance_is_drawn_for_each_record():
    """A random tensor that no record changes is drawn inside of the mapped function, as the queue drew it."""
    body = READ + "    noise = tf.random_uniform([3])\n    return tf.train.batch([record, noise], 3)\n"
    assert "    def parse(record):\n        noise = tf.random_uniform([3])\n" in rewrite(script(body)).text
    under = "    if files:\n        noise = tf.random_uniform([3])\n"
    found = rewrite(script(READ + under + "    return tf.train.batch([record, noise], 3)\n"))
    assert "    def parse(record):\n        if files:\n            noise = tf.random_uniform([3])\n" in found.text
    drawn = "def noisy(x):\n    return drawn(x)\n\n\ndef drawn(x):\n    return x + tf.random_normal([])\n\n\n"
    called = script(READ + "    noise = noisy(1.0)\n    return tf.train.batch([record, noise], 3)\n", before=drawn)
    assert "    def parse(record):\n        noise = noisy(1.0)\n" in rewrite(called).text
    body = READ + "    noise = tf.random_uniform([3])\n    b = tf.train.batch([noise], 3)\n    return b, noise\n"
    assert [finding.code for finding in rewrite(script(body)).findings] == ["escapes"]


def test_one_unclear_pipeline_leaves_the_whole_script():
    """A script is not rewritten by half: where one of its pipelines is not clear, the other stays too."""
    found = rewrite(classic.HEAD + classic.SEQUENCES + UNCLEAR["limit-epochs"].removeprefix(HEAD))
    assert found.status == "flagged"
    assert "string_input_producer(filenames" in found.text


def test_helpers_are_rewritten_with_their_callers():
    """A function that reads from the queue gets the record instead; used elsewhere too, it stays."""
    found = rewrite(classic.HEAD + classic.IMAGES)
    assert "def read_and_decode(serialized_example):\n    features = " in found.text
    assert [note for note in found.notes if "which was a queue: callers in other files have to follow" in note]
    found = rewrite(classic.HEAD + classic.IMAGES + "\n\nreaders = [read_and_decode]\n")
    assert [finding.code for finding in found.findings] == ["helper-used"]
    called = "label = read_and_decode("
    by_name = (classic.HEAD + classic.IMAGES).replace(called, called + "filename_queue=")
    assert rewrite(by_name).text == rewrite(classic.HEAD + classic.IMAGES).text


def test_names_in_use_are_left_alone():
    """What is written takes names that the function does not use: no variable of the script is hidden."""
    used = "    dataset, parse, serialized_example = 1, 2, 3\n"
    old = classic.HEAD + classic.IMAGES.replace("    if not num_epochs:\n", used + "    if not num_epochs:\n")
    call = "image, label = read_and_decode(filename_queue)\n"
    text = rewrite(old.replace(call, call + "        image = -image\n")).text
    assert "        pipeline = tf.data.Dataset" in text
    assert "        def parse_record(record):\n            image, label = read_and_decode(record)\n" in text
    assert (
        "        pipeline = pipeline.map(read_and_decode, num_parallel_calls=tf.data.AUTOTUNE)\n" in rewrite(old).text
    )


def test_aliases_are_seen_through():
    """TensorFlow's functions are known under every name that a script gives them."""
    old = (
        "import tensorflow.compat.v1 as tensors\nfrom tensorflow import train\n"
        "produce = tensors.train.string_input_producer\n"
        "def f(files):\n    q = produce(files)\n    _, r = tensors.TFRecordReader().read(q)\n"
        "    return train.batch([r], 2)\n"
    )
    found = rewrite(old)
    assert found.status == "converted"
    assert found.text.startswith("import tensorflow.compat.v1 as tensors\nfrom tensorflow.compat.v1 import train\n")
    assert "    return tensors.data.make_one_shot_iterator(dataset).get_next()\n" in found.text


@pytest.mark.parametrize("other", ["def make(x):", "make = len\nif make:"])
def test_names_that_may_be_something_else_are_no_aliases(other):
    """Where a name is also a parameter, a function or another value, its first meaning is left to a person."""
    [finding] = rewrite(f"{HEAD}make = tf.train.batch\n{other}\n    make(3)\n").findings
    assert (finding.line, finding.code) == (2, "batch-elsewhere")
    [finding] = rewrite(f"{HEAD}make = tf.train.batch\n\ndef g(x):\n    make([x], 3)\n").findings
    assert (finding.line, finding.code) == (5, "batch-elsewhere")


def test_leftovers_are_marked():
    """Names of contrib, and under the eager target the loops that took batches, get a comment."""
    body = (
        script(READ + BATCH) + "\n\ndef main():\n    tf.contrib.layers.x()\n    with tf.Session() as s:\n        pass\n"
    )
    assert [finding.code for finding in rewrite(body).findings] == ["contrib"]
    imported = body.replace(HEAD, HEAD + "from tensorflow.contrib import rnn\n")
    assert (4, "contrib") in {(finding.line, finding.code) for finding in rewrite(imported).findings}
    found = rewrite(body, target="eager")
    assert [finding.code for finding in found.findings] == ["contrib", "consumer"]
    assert (
        f"    {MARK}[consumer] the input function returns a tf.data.Dataset now: iterate over it\n    with tf"
        in found.text
    )


def test_scripts_with_layers_say_what_those_need():
    """Under tensorflow.compat.v1 they import, and fail only once a model is made."""
    body = script(READ + BATCH) + "\n\ndef model(x):\n    return tf.layers.dense(x, 2)\n"
    assert "pip install tf_keras" in rewrite(body).notes[-1]
    assert not any("tf_keras" in note for note in rewrite(body, "eager").notes)


def test_calls_of_what_returns_datasets_now_are_marked():
    """Under the eager target functions and methods return datasets: each call of them in the script gets a comment."""
    calls = "\n\ndef model():\n    a = batches(['x'])\n    return a + self.batches(['y'])\n"
    old = script(READ + BATCH) + calls
    found = rewrite(old, target="eager")
    said = (MARK, "[consumer] batches returns a tf.data.Dataset now: iterate over it")
    assert [(finding.code, finding.reason) for finding in found.findings] == [("consumer", said[1][11:])] * 2
    assert found.text.count("".join(said)) == 2
    assert found.changed == ("batches",)
    assert rewrite(old).findings == ()


def test_summaries_of_batches_leave_a_comment():
    """A function that returns a dataset writes no summaries of its batches: a comment keeps them for the loop."""
    body = (
        READ + "    x = tf.train.batch([record], 3)\n    tf.summary.text('x',\n        x)\n    return x, tf.size(x)\n"
    )
    found = rewrite(script(body), target="eager")
    told = "write it where the batches are used: tf.summary.text('x', x)"
    assert f"    {MARK}[summary] {told}\n\n    def finish(x):\n        return x, tf.size(x)\n" in found.text
    assert [(finding.line, finding.code, finding.reason) for finding in found.findings] == [(9, "summary", told)]
    assert "    tf.summary.text('x',\n        x)\n" in rewrite(script(body)).text


def test_what_is_older_than_tensorflow_1_is_renamed():
    """Names of TensorFlow 0.x become those of 1.0, and `concat` and `split` take the axis last, or are marked."""
    body = (
        READ + "    x = tf.concat(0, [tf.pack([record]), [record]])\n    x, _ = tf.split(0, 2, x)\n"
        "    y = tf.concat(0,\n        [x])\n"
        "    return tf.train.batch([y], 3)\n"
    )
    found = rewrite(script(body))
    assert "    x = tf.concat([tf.stack([record]), [record]], 0)\n" in found.text
    assert "x, _ = tf.split(x, 2, 0)\n" in found.text
    assert [(finding.code, finding.reason) for finding in found.findings] == [
        ("old-api", "tf.concat takes the axis last, since TensorFlow 1.0"),
    ]


def test_arguments_that_tensorflow_1_0_renamed_are_renamed():
    """Summaries are given by today's names what they were given by those of TensorFlow 0.x."""
    old = "\n\ndef show(x):\n    tf.image_summary(tag='x', tensor=x, max_images=tf.mul(1, 2))\n"
    old += "    tf.scalar_summary(tags='y', values=x)\n    tf.histogram_summary(tag='z', values=x)\n"
    new = rewrite(script(READ + BATCH) + old).text
    assert "    tf.summary.image(name='x', tensor=x, max_outputs=tf.multiply(1, 2))\n" in new
    assert "    tf.summary.scalar(name='y', tensor=x)\n    tf.summary.histogram(name='z', values=x)\n" in new


def test_scripts_without_queues_are_not_read_at_all():
    """A text that names nothing of it is nothing, even where it is no Python; names alone are nothing either."""
    alias = f"{HEAD}batch = tf.train.batch\n"
    assert rewrite(alias) == rewrite(alias).__class__("nothing", alias)
    assert rewrite("print 'x").status == "nothing"
    assert rewrite("batch = 'tf.train.batch'\n").status == "nothing"


PYTHON_2 = script(READ + "    print 'reading', files\n" + BATCH)


def test_python_2_is_made_python_3():
    """What only Python 2 reads is rewritten, as Python 3; a script that is only flagged stays Python 2."""
    found = rewrite(PYTHON_2)
    assert found.status == "converted"
    assert "    print('reading', files)\n" in found.text
    assert [note.partition(",")[0] for note in found.notes] == ["it was Python 2"]
    left = PYTHON_2 + "    for i in xrange(3 / 2):\n        x = {}.has_key(i), i / 2.0, float(i) / 2\n"
    assert [(finding.line, finding.code, finding.reason.split()[0]) for finding in rewrite(left).findings] == [
        (15, "python2", "/"),
        (15, "python2", "xrange"),
        (17, "python2", "has_key"),
    ]
    named = left.replace("xrange(3 / 2)", "xrange(3)").replace(HEAD, HEAD + "from six.moves import xrange\n")
    assert [finding.reason.split()[0] for finding in rewrite(named).findings] == ["has_key"]
    found = rewrite(PYTHON_2.replace("train.batch", "train.maybe_batch"))
    assert found.status == "flagged"
    assert "    print 'reading', files\n" in found.text


def test_without_fissix_python_2_is_refused(monkeypatch):
    """Without the extra, a script in Python 2 is refused with the command that installs it."""
    monkeypatch.setitem(__import__("sys").modules, "fissix", None)
    found = rewrite(PYTHON_2)
    assert (found.status, found.text) == ("refused", PYTHON_2)
    assert "pip install 'seqrecorder[migrate]'" in found.findings[0].reason


def test_what_no_python_reads_is_refused():
    """A text that is neither Python 3 nor Python 2 stays as it is."""
    found = rewrite("import tensorflow as tf\ndef tf.train.batch(:\n")
    assert found.status == "refused"
    assert found.findings[0].code == "syntax"


def test_readers_that_are_joined():
    """Examples of several readers, in a list or from a loop, become one function, and as many files at a time."""
    helper = """def read_one(queue, size):
    reader = tf.TFRecordReader()
    _, record = reader.read_up_to(queue, size)
    return record, tf.strings.length(record)


"""
    producer = "    queue = tf.train.string_input_producer(files)\n"
    batch = "    return tf.train.shuffle_batch_join(examples, 3, 100, 10, enqueue_many=True)\n"
    listed = script(
        producer + "    examples = [read_one(queue, 8) for _ in range(readers)]\n" + batch,
        before=f"\n\n{helper.rstrip()}\n",
        parameters="files, readers",
    )
    text = rewrite(listed).text
    assert (
        """\
    dataset = dataset.interleave(
        lambda file: tf.data.TFRecordDataset(file).batch(8),
        cycle_length=readers,
        num_parallel_calls=tf.data.AUTOTUNE,
    )

    def parse(record):
        return read_one(record, 8)

    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
"""
        in text
    )
    looped = script(
        producer
        + "    examples = []\n    for _ in range(4):\n        # One reader.\n"
        + READ.replace("    queue = tf.train.string_input_producer(files)\n", "").replace("    ", "        ")
        + "        size = tf.size(record)\n        examples.append([record, size])\n"
        + "    return tf.train.batch_join(examples, 3)\n"
    )
    assert (
        rewrite(looped).text.partition("# a new order each epoch\n")[2]
        == """\
    dataset = dataset.interleave(
        tf.data.TFRecordDataset,
        cycle_length=4,
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    # One reader.

    def parse(record):
        size = tf.size(record)
        return record, size

    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.batch(3, drop_remainder=True)
    dataset = dataset.prefetch(tf.data.AUTOTUNE)
    return list(tf.data.make_one_shot_iterator(dataset).get_next())
"""
    )


def test_examples_that_are_not_kept():
    """What keep_input dropped is filtered."""
    body = READ + "    keep = tf.size(record) > 0\n    return tf.train.maybe_batch([record, keep], keep, 3)\n"
    assert (
        rewrite(script(body)).text.partition("TFRecordDataset)\n")[2]
        == """\

    def parse(record):
        keep = tf.size(record) > 0
        return tf.cast(keep, tf.bool), (record, keep)

    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.filter(lambda keep, tensors: keep)
    dataset = dataset.map(lambda keep, tensors: tensors)
    dataset = dataset.batch(3, drop_remainder=True)
    dataset = dataset.prefetch(tf.data.AUTOTUNE)
    return list(tf.data.make_one_shot_iterator(dataset).get_next())
"""
    )


def test_branches_with_pipelines_of_their_own():
    """Each branch of a condition becomes its pipeline; a queue that is made in either branch is read after them."""
    apart = (
        "    if files:\n" + (READ + BATCH).replace("    ", "        ")
        + "    else:\n" + (READ + BATCH).replace("    ", "        ").replace("files", "files, num_epochs=1")
    )  # fmt: skip
    first, _, second = apart.rpartition("tf.TFRecordReader()")
    apart = f"{first}tf.TextLineReader(){second}"
    text = rewrite(script(apart), "eager").text
    assert text.index("flat_map(tf.data.TFRecordDataset)") < text.index("flat_map(tf.data.TextLineDataset)")
    assert text.count(".prefetch(tf.data.AUTOTUNE)\n") == 2
    assert text.count(".repeat(1)") == 1
    made = "        queue = tf.train.string_input_producer(files, num_epochs={})\n"
    either = f"    if files:\n{made.format(1)}    else:\n{made.format(2)}" + READ.partition("\n")[2] + BATCH
    text = rewrite(script(either)).text
    assert text.count("        dataset = dataset.shuffle(") == 2
    assert text.count("    dataset = dataset.flat_map(tf.data.TFRecordDataset)\n") == 1
    assert text.index(".repeat(2)") < text.index("flat_map")


SHUFFLED = "    mixed = tf.RandomShuffleQueue(capacity, 2, [tf.string], seed=seed)\n"
IF_SHUFFLED = "    if shuffled:\n    " + SHUFFLED + "    else:\n        mixed = tf.FIFOQueue(capacity, [tf.string])\n"


@pytest.mark.parametrize("making", [SHUFFLED, IF_SHUFFLED])
def test_queues_may_be_made_before_the_read(making):
    """A queue between the read and the batch may be made before both, if what it takes does not change until then."""
    start = "    shuffled = capacity = seed = len(files)\n"
    filling = (
        "    filling = mixed.enqueue([record])\n    tf.train.add_queue_runner(tf.train.QueueRunner(mixed, [filling]))\n"
    )
    rest = filling + "    record = mixed.dequeue()\n" + BATCH
    texts = [rewrite(script(start + body + rest)).text for body in (READ + making, making + READ)]
    assert texts[0] == texts[1]
    assert (
        texts[0].index("flat_map") < texts[0].index("dataset.shuffle(capacity, seed=seed)") < texts[0].index("batch(")
    )
    for name in ("capacity", "seed", *["shuffled"] * (making is IF_SHUFFLED)):
        changed = rewrite(script(start + making + f"    {name} = 3\n" + READ + rest))
        assert changed.status == "flagged", name


def test_readers_of_objects():
    """A reader that an object keeps for one method is one; of a reader that may be used otherwise that is not said."""
    old = """\
import tensorflow as tf


class Source:
    def __init__(self, files):
        self.files = files
        self.reader = tf.TextLineReader(skip_header_lines=1)

    def batches(self):
        queue = tf.train.string_input_producer(self.files)
        key, record = self.reader.read(queue)
        return tf.train.batch([key, record], 4)
"""
    done = rewrite(old, "eager")
    assert done.status == "converted"
    assert "self.reader" not in done.text
    alone = rewrite(old.replace("        self.files = files\n", "").replace("self.files", "files"))
    assert "    def __init__(self, files):\n        pass\n" in alone.text
    other = "\n    def other(self):\n        return self.reader.num_records_produced()\n"
    assert rewrite(old + other).status == "flagged"
    assert rewrite(old.replace("lines=1", "lines=files")).status == "flagged"


def test_eager_records_one_at_a_time():
    """Without a batch, the function returns the dataset of records, and what is beside them after it."""
    body = READ + "    size = tf.size(record)\n    count = len(files)\n    return record, size, count\n"
    assert (
        rewrite(script(body), "eager").text.partition("TFRecordDataset)\n")[2]
        == """\
    count = len(files)

    def parse(record):
        size = tf.size(record)
        return record, size

    return dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE), count
"""
    )


def test_buckets(tmp_path):
    """The buckets of contrib become those of tf.data, with lengths, and small batches where they were allowed."""
    path = tmp_path / "records"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for length in (1, 4, 2, 6, 4, 1, 7):
            message = tf.train.SequenceExample()
            steps = message.feature_lists.feature_list["ids"].feature
            for step in range(length):
                steps.add().int64_list.value.append(step + 1)
            writer.write(message.SerializeToString())
    text = rewrite(classic.HEAD + classic.BUCKETS).text
    assert "lengths, (ids_batch, copies) = tf.data.make_one_shot_iterator(dataset).get_next()" in text
    namespace = {}
    exec(text.replace("tf.disable_v2_behavior()", ""), namespace)  # noqa: S102 - the claim is that it runs
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tensors = namespace["bucketed"]([str(path)], 2)
        batches = [session.run(tensors) for _ in range(4)]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(tensors)
    assert sorted(lengths.tolist() for lengths, _ in batches) == [[1], [1, 2], [4, 4], [6, 7]]
    for lengths, ids in batches:
        np.testing.assert_array_equal((ids > 0).sum(axis=1), lengths)
        assert ids.shape[1] == lengths.max()


WIDE = """\
import tensorflow as tf


def batches(filenames, given):
    queue = tf.train.string_input_producer(filenames, num_epochs=1, shuffle=False)
    _, serialized = tf.TFRecordReader().read(queue)
    found = tf.parse_single_example(serialized, {"a": tf.FixedLenFeature([], 'int64')})
    one = tf.cond(found["a"] > 1, lambda: tf.constant(1), lambda: tf.constant(2))
    two = tf.cond(found["a"] > 1, lambda: given, lambda: given)
    return tf.train.batch([tf.decode_csv(one, [[0]]), two], 4)
"""


def test_new_lines_are_no_longer_than_old_ones():
    """What became longer than the longest line of the script is folded, arguments of arguments too."""
    new = rewrite(WIDE, "eager").text
    width = max(map(len, WIDE.splitlines()))
    assert max(map(len, new.splitlines())) <= width
    assert "found = tf.io.parse_single_example(\n            serialized,\n" in new
    wider = WIDE.replace("import tensorflow as tf", f"# {'-' * 200}\nimport tensorflow as tf")
    assert "tf.io.parse_single_example(serialized, {" in rewrite(wider, "eager").text


def test_conditions_are_those_of_tensorflow_2_where_a_branch_gives_a_tensor():
    """`tf.cond` of TensorFlow 1 took a single tensor out of a list, so it stays where a branch might give one."""
    new = rewrite(WIDE, "eager").text
    assert "one = tf.cond(" in new
    assert "two = tf.compat.v1.cond(" in new


@pytest.mark.parametrize("target", ["graph", "eager"])
def test_what_goes_by_a_queue_is_of_another_record(target):
    """A queue in the middle goes only where all of a record goes through it."""
    read = READ.replace("_, record", "key, record") + "    size = tf.size(key)\n"
    between = (
        "    waiting = tf.FIFOQueue(9, [tf.string], [[]])\n"
        "    filling = waiting.enqueue([record])\n"
        "    tf.train.add_queue_runner(tf.train.QueueRunner(waiting, [filling]))\n"
        "    record = waiting.dequeue()\n"
    )
    through = rewrite(script(read + between + BATCH), target)
    assert through.status == "converted"
    by = rewrite(script(read + between + "    return tf.train.batch([record, size], 3)\n"), target)
    assert [finding.code for finding in by.findings] == ["explicit-queue"]


OPTIONS = "    options = tf.python_io.TFRecordOptions(tf.python_io.TFRecordCompressionType.GZIP)\n"


def test_options_of_readers_may_have_a_name():
    """Where that is all that the name is for; what may be changed, or given by others, is left to a person."""
    read = READ.replace("Reader()", "Reader(options=options)") + BATCH
    assert 'tf.data.TFRecordDataset(file, "GZIP")' in rewrite(script(OPTIONS + read)).text
    changed = OPTIONS + "    options.compression_type = files\n" + read
    assert [finding.code for finding in rewrite(script(changed)).findings] == ["reader-options"]
    either = f"    if files:\n    {OPTIONS}    else:\n        options = None\n{read}"
    assert [finding.code for finding in rewrite(script(either)).findings] == ["reader-options"]


def test_a_function_that_runs_in_python_is_the_one_of_its_name_then():
    """What runs with each record may change what it likes, as it did; but not be another function afterwards."""
    run = READ + "    x = tf.py_func(draw, [record], tf.float32)\n    x.set_shape([])\n"
    before = "import numpy as np\nCOUNT = []\n\n\ndef draw(x):\n    COUNT.append(x)\n    return np.random.rand()\n"
    batch = "    return tf.train.batch([x], 3)\n"
    assert rewrite(script(run + batch, before)).status == "converted"
    later = "    global draw\n" + run + "    draw = files\n" + batch
    assert rewrite(script(later, before)).status == "flagged"
