"""Pieces of scripts with the queues of TensorFlow 1, and what became of them."""

import difflib

HEAD = "import tensorflow as tf\n"


READ = """    queue = tf.train.string_input_producer(files)
    reader = tf.TFRecordReader()
    _, record = reader.read(queue)
"""


def script(body, before="", parameters="files"):
    return f"{HEAD}{before}\n\ndef batches({parameters}):\n{body}"


def changed(old, new):
    """Return the lines that went and the lines that came."""
    lines = list(difflib.ndiff(old.splitlines(keepends=True), new.splitlines(keepends=True)))
    return [x[2:] for x in lines if x.startswith("- ")], [x[2:] for x in lines if x.startswith("+ ")]


BATCH = "    return tf.train.batch([record], 3)\n"


PARSE = "    x = tf.parse_single_example(record, {'x': tf.FixedLenFeature([], tf.int64)})['x']\n"


UNCLEAR = {
    "limit-epochs": script(READ + "    return tf.train.batch([tf.train.limit_epochs(record, 2)], 3)\n"),
    "batch-join": script(READ + "    return tf.train.batch_join([[record], [record]], 3)\n"),
    "keep-input": script(READ + "    return tf.train.maybe_batch([record], keep, 3, enqueue_many=True)\n"),
    "escapes": script(READ + PARSE + "    b = tf.train.batch([x], 3)\n    return b, x\n"),
    "rebinds": script(
        READ + "    scale = tf.to_float(1) * scale\n    y = tf.size(record) * scale\n    scale = y\n"
        "    return tf.train.batch([scale], 3)\n",
        parameters="files, scale",
    ),
    "graph-state": script(READ + PARSE + "    tf.summary.scalar('x', x)\n    return tf.train.batch([x], 3)\n"),
    "shared-queue": script(READ.replace("(files)", "(files, shared_name='s')") + BATCH),
    "several-sources": script(READ + READ + BATCH),
    "queue-used": script(READ + "    tf.summary.scalar('size', queue.size())\n" + BATCH),
    "graph-seed": script(READ.replace("(files)", "(files, seed=1)") + BATCH, before="tf.set_random_seed(3)\n"),
    "arguments": script(READ.replace("(files)", "(files, **options)") + BATCH),
    "in-a-loop": script("    while files.pop():\n" + READ.replace("    ", "        ") + "    " + BATCH),
    "one-line": script(f"    if files: {READ.strip()}\n{BATCH}".replace("\n    ", "; ")),
    "structure": script(READ + "    x = make(record)\n    return tf.train.batch(x, 3)\n"),
    "read-result": script(READ.replace("_, record", "pair") + "    return tf.train.batch(list(pair), 3)\n"),
    "reader-options": script(READ.replace("Reader()", "Reader(options=options)") + BATCH),
    "match-filenames": script(READ.replace("(files)", "(tf.train.match_filenames_once(pattern=files))") + BATCH),
    "padding": script(READ + "    return tf.train.batch([record], 3, dynamic_pad=pad)\n"),
    "batch-elsewhere": script(READ + "    return [tf.train.batch([record], size) for size in (3, 4)]\n"),
    "tensors-from-elsewhere": script("    return tf.train.batch([files], 3)\n"),
    "queue-from-elsewhere": HEAD + "def read(queue):\n    _, x = tf.TFRecordReader().read(queue)\n    return x\n",
    "several-batches": script(READ + "    x = tf.train.batch([record], 3)\n    return tf.train.batch([x], 2)\n"),
    "explicit-queue": script(READ + "    q = tf.FIFOQueue(3, tf.string)\n    return q.enqueue([record])\n"),
    "flow": script(READ + "    if record is None:\n        return 1\n" + BATCH),
    "order": script(
        READ + "    scale = 1\n    y = tf.size(record) * scale\n    scale = 2\n    return tf.train.batch([y], scale)\n"
    ),
    "sparse": script(
        READ + "    x = parse(record)\n    return tf.train.batch([x['a']], 3, dynamic_pad=True)\n",
        before="\n\ndef parse(x):\n    return tf.parse_single_example(x, {'a': tf.VarLenFeature(tf.int64)})\n",
    ),
    "tables": script(
        READ + "    x = words.lookup(record)\n    return in_batches(x)\n",
        before="words = tf.lookup.StaticHashTable(x, 0)\n\n\ndef in_batches(x):\n    return tf.train.batch([x], 3)\n",
    ),
    "queue-given": script(
        "    queue = tf.train.string_input_producer(files)\n    return tf.train.batch(model.read(queue), 3)\n"
    ),
    "reader-class": script("    return slim.Dataset(files, tf.TFRecordReader)\n"),
    "defined-twice": script("    def read(self, queue):\n        pass\n").replace("def batches(files)", "class Other")
    + "\n\nclass Reader:\n    def read(self, queue):\n        _, x = tf.TFRecordReader().read(queue)\n"
    "        return x\n\n"
    "    def batches(self, files):\n        queue = tf.train.string_input_producer(files)\n"
    "        x = self.read(queue)\n        return tf.train.batch([x], 3)\n",
    "reader-used": script(READ + "    count = reader.num_records_produced()\n" + BATCH),
    "import": script(READ + BATCH).replace(HEAD, "if True: import tensorflow as tf; import os\n"),
}
