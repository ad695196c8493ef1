"""Pipelines that begin with providers of TF-Slim, rewritten, against the queues that the providers made."""

import ast
import collections

import numpy as np
import pytest
import script_runs
import tensorflow as tf

from seqrecorder.legacy.migrate.rewrite.script import rewrite

RECORDS = (5, 4, 2)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Pictures with boxes and labels, in three files; returns their pattern."""
    place = tmp_path_factory.mktemp("pictures")
    pixels = np.arange(36, dtype=np.uint8).reshape(3, 4, 3)
    number = 0
    for at, count in enumerate(RECORDS):
        with tf.io.TFRecordWriter(str(place / f"part{at}.tfrecord")) as file:
            for _ in range(count):
                number += 1
                floats = {side: [number + at / 10 for at in range(number % 3)] for side in ("ymin", "xmin", "ymax")}
                features = {
                    "image/encoded": tf.train.Feature(
                        bytes_list=tf.train.BytesList(value=[tf.io.encode_png(pixels + number).numpy()])
                    ),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
                    **{
                        f"box/{side}": tf.train.Feature(
                            float_list=tf.train.FloatList(value=floats.get(side, floats["ymin"]))
                        )
                        for side in ("ymin", "xmin", "ymax", "xmax")
                    },
                }
                file.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    return str(place / "part*.tfrecord")


HEAD = """\
import tensorflow as tf
slim = tf.contrib.slim
def get_split(pattern, reader=None):
    if reader is None:
        reader = tf.TFRecordReader
    keys_to_features = {
        "image/encoded": tf.FixedLenFeature((), tf.string, default_value=""),
        "image/format": tf.FixedLenFeature((), tf.string, default_value="png"),
        "label": tf.FixedLenFeature([], tf.int64, default_value=tf.zeros([], dtype=tf.int64)),
        "box/ymin": tf.VarLenFeature(tf.float32),
        "box/xmin": tf.VarLenFeature(tf.float32),
        "box/ymax": tf.VarLenFeature(tf.float32),
        "box/xmax": tf.VarLenFeature(tf.float32),
        "absent": tf.FixedLenFeature((), tf.string, default_value=""),
    }
    items_to_handlers = {
        "image": slim.tfexample_decoder.Image(shape=[3, 4, 3]),
        "label": slim.tfexample_decoder.Tensor("label"),
        "boxes": slim.tfexample_decoder.BoundingBox(["ymin", "xmin", "ymax", "xmax"], "box/"),
        "mask": slim.tfexample_decoder.Image("absent", "image/format"),
    }
    decoder = slim.tfexample_decoder.TFExampleDecoder(keys_to_features, items_to_handlers)
    return slim.dataset.Dataset(
        data_sources=pattern, reader=reader, decoder=decoder, num_samples=11, items_to_descriptions={}, num_classes=2)
"""

PIPELINES = {
    "in order": """
def batches(files):
    dataset = get_split(files)
    provider = slim.dataset_data_provider.DatasetDataProvider(dataset, shuffle=False, num_epochs=2)
    image, label = provider.get(["image", "label"])
    image = tf.to_float(image) / 255
    return tf.train.batch([image, label], 4)
""",
    "boxes are padded": """
def batches(files):
    with tf.name_scope("provider"):
        provider = slim.dataset_data_provider.DatasetDataProvider(
            get_split(files), shuffle=False, num_epochs=1, common_queue_capacity=20, common_queue_min=10)
    [boxes, label] = provider.get(["boxes", "label"])
    return tf.train.batch([boxes, label], 3, dynamic_pad=True, allow_smaller_final_batch=True)
""",
    "a list of all": """
def batches(files):
    provider = slim.dataset_data_provider.DatasetDataProvider(get_split(files), shuffle=False, num_epochs=1)
    names = ["label", "image"]
    values = provider.get(names)
    found = dict(zip(names, values))
    return tf.train.batch({"label": found["label"] * 2, "image": found["image"]}, 2)
""",
    "one item": """
def batches(files):
    dataset = get_split(files)
    provider = slim.dataset_data_provider.DatasetDataProvider(dataset, shuffle=False, num_epochs=1)
    [label] = provider.get(["label"])
    return tf.train.batch([label], 2)
""",
    "the key": """
def batches(files):
    provider = slim.dataset_data_provider.DatasetDataProvider(get_split(files), shuffle=False, num_epochs=1)
    key, _, label, _ = provider.get(["record_key", "image", "label", "image"])
    return tf.train.batch([key, label], 2)
""",
    "no batch": """
def batches(files):
    provider = slim.dataset_data_provider.DatasetDataProvider(get_split(files), shuffle=False, num_epochs=1)
    image, label = provider.get(["image", "label"])
    return tf.reduce_sum(tf.to_int32(image)), label + 1
""",
    "made by a function": """
def example(files):
    provider = slim.dataset_data_provider.DatasetDataProvider(get_split(files), shuffle=False, num_epochs=1)
    image, label = provider.get(["image", "label"])
    return image, label
def batches(files):
    image, label = example(files)
    return tf.train.batch([tf.to_float(image), label], 4)
""",
    "shuffled": """
def batches(files, epochs=2):
    provider = slim.dataset_data_provider.DatasetDataProvider(get_split(files), 2, num_epochs=epochs, seed=3)
    image, label = provider.get(["image", "label"])
    return tf.train.shuffle_batch([image, label], 2, 40, 20, num_threads=2, allow_smaller_final_batch=True)
""",
    "several readers": """
def batches(files):
    provider = slim.dataset_data_provider.DatasetDataProvider(get_split(files), 3, None, False, 2)
    image, label = provider.get(["image", "label"])
    return tf.train.batch([image, label], 1)
""",
    "a decoder that gives all, whatever it is asked for": """
class Decoder(slim.data_decoder.DataDecoder):
    def decode(self, data, items):
        number = tf.parse_single_example(data, {"label": tf.FixedLenFeature([], tf.int64)})["label"]
        return [number, [number, -number]]
    def list_items(self):
        return ["number", "both"]
def batches(files):
    dataset = slim.dataset.Dataset(files, tf.TFRecordReader, Decoder(), None, None)
    provider = slim.dataset_data_provider.DatasetDataProvider(dataset, shuffle=False, num_epochs=1)
    both, number = provider.get(["both", "number"])
    return tf.train.batch([both, number], 2)
""",
}
BY_CHANCE = ("shuffled", "several readers")


def _rows(found):
    """Return how often each example is there, whatever batch it is in."""
    rows = (row for batch in found for row in zip(*batch, strict=True))
    return collections.Counter(tuple(np.asarray(part).tobytes() for part in row) for row in rows)


@pytest.mark.parametrize("target", ["graph", "eager"])
@pytest.mark.parametrize("name", PIPELINES)
def test_providers(records, name, target):
    """A rewritten pipeline gives the batches of the provider's queues, or, where chance orders them, their examples.

    Masks, which no record has, are not asked for, and not decoded.
    """
    old = HEAD + PIPELINES[name]
    done = rewrite(old, target)
    assert done.status == "converted", done.findings
    assert any(function.endswith("batches") for function in done.functions)
    assert "DatasetDataProvider" not in done.text
    assert "tf.contrib" not in done.text
    expected, _, structure = script_runs.run_in_graph(old, "batches", records, old=True)
    if target == "graph":
        found, _, new = script_runs.run_in_graph(done.text, "batches", records, old=False)
        assert new == structure
    else:
        found, _ = script_runs.run_eagerly(done.text, "batches", records)
    if name in BY_CHANCE:
        assert _rows(found) == _rows(expected)
        assert [len(batch[0]) for batch in found] == [len(batch[0]) for batch in expected]
    else:
        assert len(found) == len(expected) > 1
        for one, other in zip(found, expected, strict=True):
            for part, same in zip(one, other, strict=True):
                np.testing.assert_array_equal(part, same)


_MADE = "    provider = slim.dataset_data_provider.DatasetDataProvider(dataset, shuffle=False, num_epochs=1)\n"
_BATCHED = "    return tf.train.batch([image, label], 4)\n"
_GOT = '    image, label = provider.get(["image", "label"])\n'
KEPT = {
    "asked twice": ("datasetdataprovider", _MADE + _GOT + '    label, = provider.get(["label"])\n' + _BATCHED),
    "asked for more": ("datasetdataprovider", _MADE + _GOT + "    count = provider.num_samples()\n" + _BATCHED),
    "asked for all": (
        "datasetdataprovider",
        _MADE + "    image, label = provider.get(provider.list_items())\n" + _BATCHED,
    ),
    "asked in an arm": (
        "datasetdataprovider",
        _MADE + "    if dataset.num_classes:\n    " + _GOT + "    else:\n        image, label = 1, 2\n" + _BATCHED,
    ),
    "one of two": (
        "datasetdataprovider",
        f"    if dataset.num_classes:\n    {_MADE}    else:\n    {_MADE.replace('False', 'True')}" + _GOT + _BATCHED,
    ),
    "given away": ("datasetdataprovider", _MADE + _GOT + "    print(provider)\n" + _BATCHED),
    "returned": ("datasetdataprovider", _MADE + "    return provider\n"),
    "kept in an object": (
        "datasetdataprovider",
        _MADE.replace("provider =", "dataset.provider =") + "    return dataset\n",
    ),
    "both what it is made of and what it is asked for change": (
        "datasetdataprovider",
        '    names = ["image", "label"]\n' + _MADE + "    dataset.data_sources = 1\n    names[0] = 'mask'\n"
        "    image, label = provider.get(names)\n" + _BATCHED,
    ),
    "options that are hidden": (
        "arguments",
        '    more = {"shuffle": False}\n' + _MADE.replace("num_epochs=1", "**more").replace("shuffle=False, ", "")
        + _GOT + _BATCHED,
    ),
    "one of several that are not written out": (
        "targets",
        '    names = ["label"]\n' + _MADE + "    [label] = provider.get(names)\n"
        "    return tf.train.batch([label], 2)\n",
    ),
    "used beside the batch": ("escapes", _MADE + _GOT + "    return tf.train.batch([image, label], 4), label\n"),
    "kept on the way": (
        "targets",
        _MADE + _GOT.replace("label =", "dataset.label =") + "    return tf.train.batch([image], 4)\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_what_is_not_clear_is_kept(name):
    """A provider that is asked several times, kept or changed stays as it is, and why is said."""
    code, body = KEPT[name]
    done = rewrite(HEAD + "def batches(dataset):\n" + body)
    assert done.status == "flagged"
    assert code in [finding.code for finding in done.findings]


DRAWING = """
class Decoder(slim.data_decoder.DataDecoder):
    def __init__(self, shift=0):
        self.shift = tf.random_uniform([]) if shift is None else shift
    def decode(self, data, items):
        return [tf.decode_raw(data, tf.uint8), self.shift]
    def list_items(self):
        return ["image", "label"]
def batches(files):
    dataset = slim.dataset.Dataset(files, tf.TFRecordReader, Decoder(None), None, None)
"""


@pytest.mark.parametrize("target", ["graph", "eager"])
def test_decoders_of_what_is_drawn(target):
    """What a decoder takes that was drawn for each record stays; what it draws itself is drawn for each record."""
    body = _MADE + _GOT + _BATCHED
    before = DRAWING.replace("tf.random_uniform([]) if shift is None else ", "")
    shift = "    shift = tf.random_uniform([])\n    dataset ="
    for old in (DRAWING, before.replace("    dataset =", shift).replace("Decoder(None)", "Decoder(shift)")):
        done = rewrite(HEAD + old + body, target)
        assert [finding.code for finding in done.findings] == ["order"]
    own = before.replace("self.shift]", "tf.random_uniform([])]")
    assert rewrite(HEAD + own + body, target).status == "converted"


def test_what_stands_between():
    """A provider is made where it is asked, or asked where it is made: what changes between the two is as it was."""
    body = '    names = ["image", "label"]\n' + _MADE + "    {}\n    image, label = provider.get(names)\n" + _BATCHED
    made = rewrite(HEAD + "def batches(dataset):\n" + body.format('names[1] = "mask"'))
    asked = rewrite(HEAD + "def batches(dataset):\n" + body.format("dataset.data_sources = 'others'"))
    assert made.status == asked.status == "converted"
    assert made.text.index('names[1] = "mask"') < made.text.index("read_items")
    assert asked.text.index("dataset.data_sources") > asked.text.index("read_items")


def test_options():
    """Options are those of the provider, but for what no dataset has; not to shuffle is said, and needs no buffer."""

    def written(given):
        text = HEAD + "def batches(dataset):\n" + _MADE.replace("shuffle=False, num_epochs=1", given) + _GOT + _BATCHED
        calls = [ast.unparse(n) for n in ast.walk(ast.parse(rewrite(text).text)) if isinstance(n, ast.Call)]
        return next(call for call in calls if call.startswith("sr.")).partition("read_items")[2]

    items = "(dataset, ['image', 'label']"
    assert written("4, None, False, seed=3") == f"{items}, num_readers=4, reader_kwargs=None, shuffle=False)"
    assert written("shuffle=None, scope='s'") == f"{items}, shuffle=None)"
    many = "common_queue_capacity=512, common_queue_min=32, seed=3, record_key='key'"
    assert written(many) == f"{items}, record_key='key', seed=3, buffer_size=512)"


def test_descriptions():
    """A script that only describes datasets takes TF-Slim's names from this package; its functions are no pipelines."""
    done = rewrite(HEAD, "eager")
    assert (done.status, done.functions, done.changed) == ("converted", (), ())
    assert "slim = sr.legacy.contrib.slim\n" in done.text
    assert "reader = tf.compat.v1.TFRecordReader\n" in done.text


def test_descriptions_work_with_providers_that_stay(records):
    """A data set of a rewritten script is one for providers of scripts that are not, as `legacy run` runs them."""
    pipeline = PIPELINES["in order"]
    expected, _, _ = script_runs.run_in_graph(HEAD + pipeline, "batches", records, old=True)
    found, _, _ = script_runs.run_in_graph(
        rewrite(HEAD).text + "import tensorflow as tf\n" + pipeline, "batches", records, old=True
    )
    assert len(found) == len(expected) > 1
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one[1], other[1])


@pytest.mark.parametrize(
    "other",
    [
        HEAD.replace("slim = tf.contrib.slim", "import slim"),  # of which nothing is known
        HEAD.replace("def get_split", "slim = object()\ndef get_split"),
        HEAD.replace("    if reader is None", "    print(tf.TFRecordReader)\n    if reader is None"),
        HEAD.replace("    decoder =", "    print(reader)\n    decoder ="),
        HEAD.replace("reader=reader", "reader=lambda: reader()"),
        HEAD + "def model(x):\n    return slim.conv2d(x, 3, [2, 2])\n",
    ],
)
def test_classes_of_readers_that_are_given_to_others(other):
    """A class of readers stays where it is not certain that a dataset of TF-Slim alone is given it."""
    done = rewrite(other)
    assert done.status == "flagged"
    assert {finding.code for finding in done.findings} == {"reader-class"}
