"""Scripts of the kinds that tutorials for TensorFlow 1 had, written for these tests."""

HEAD = '''"""Input functions of the old kind."""

import math
import os

import tensorflow as tf

NUM_COLUMNS = 3  # of a CSV file
'''

SEQUENCES = '''

def parse(serialized):
    """Take a SequenceExample apart."""
    context, sequence = tf.parse_single_sequence_example(
        serialized=serialized,
        context_features={"length": tf.FixedLenFeature([], dtype=tf.int64)},
        sequence_features={
            "tokens": tf.FixedLenSequenceFeature([], dtype=tf.int64),
            "labels": tf.FixedLenSequenceFeature([], dtype=tf.int64),
        })
    merged = dict(context)
    merged.update(sequence)
    return merged


def make_input_fn(filenames, batch_size, num_epochs=None):
    def input_fn():
        # The files are read in their order.
        queue = tf.train.string_input_producer(filenames, num_epochs=num_epochs, shuffle=False)
        reader = tf.TFRecordReader()
        _, serialized = reader.read(queue)
        example = parse(serialized)  # one record
        # Pad to the longest of the batch.
        batch = tf.train.batch(
            tensors=example,
            batch_size=batch_size,
            capacity=100 + batch_size * 10,
            dynamic_pad=True)
        return {"tokens": batch["tokens"], "length": batch["length"]}, batch["labels"]

    return input_fn
'''

IMAGES = """

def read_and_decode(filename_queue):
    reader = tf.TFRecordReader()
    _, serialized_example = reader.read(filename_queue)
    features = tf.parse_single_example(
        serialized_example,
        features={
            'image_raw': tf.FixedLenFeature([], tf.string),
            'height': tf.FixedLenFeature([], tf.int64),
            'label': tf.FixedLenFeature([], tf.int64),
        })
    # Bytes to pixels.
    image = tf.decode_raw(features['image_raw'], tf.uint8)
    image.set_shape([12])
    image = tf.cast(image, tf.float32) * (1. / 255) - 0.5
    label = tf.cast(features['label'], tf.int32)
    return image, label


def image_batches(filename, batch_size, num_epochs):
    if not num_epochs:
        num_epochs = None
    with tf.name_scope('input'):
        filename_queue = tf.train.string_input_producer([filename], num_epochs=num_epochs)
        image, label = read_and_decode(filename_queue)

        images, sparse_labels = tf.train.shuffle_batch(
            [image, label], batch_size=batch_size, num_threads=2,
            capacity=100 + 3 * batch_size,
            min_after_dequeue=10)
        return images, sparse_labels
"""

FILLED_BY_HAND = '''

def padded_batches(file_list, batch_size, num_threads=1):
    """Batches through a queue that is filled by hand."""
    file_queue = tf.train.string_input_producer(file_list, num_epochs=2, shuffle=False)
    reader = tf.TFRecordReader()
    _, serialized = reader.read(file_queue)

    features = {'inputs': tf.FixedLenSequenceFeature(shape=[2], dtype=tf.float32),
                'words': tf.FixedLenSequenceFeature(shape=[], dtype=tf.string)}
    _, sequence = tf.parse_single_sequence_example(serialized, sequence_features=features)
    length = tf.shape(sequence['inputs'])[0]

    queue = tf.PaddingFIFOQueue(
        capacity=1000, dtypes=[tf.float32, tf.string, tf.int32], shapes=[(None, 2), (None,), ()])
    enqueue_ops = [queue.enqueue([sequence['inputs'], sequence['words'], length])] * num_threads
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, enqueue_ops))
    return queue.dequeue_many(batch_size)


def small_last_batch(file_list, batch_size):
    file_queue = tf.train.string_input_producer(file_list, num_epochs=2, shuffle=False)
    _, serialized = tf.TFRecordReader().read(file_queue)
    queue = tf.FIFOQueue(50, [tf.string], shapes=[[]])
    enqueue = queue.enqueue([serialized])
    runner = tf.train.QueueRunner(queue, [enqueue])
    tf.train.add_queue_runner(runner)
    records = queue.dequeue_up_to(batch_size)
    return records
'''

CSV = """

def csv_batches(pattern, batch_size, num_epochs=2):
\tfiles = tf.gfile.Glob(pattern)
\tqueue = tf.train.string_input_producer(files, num_epochs=num_epochs, shuffle=False)
\treader = tf.TextLineReader(skip_header_lines=1)
\tkey, value = reader.read(queue)
\tdefaults = [[0.0], [0], ['']]
\tcolumns = tf.decode_csv(value, record_defaults=defaults)
\tnumbers = tf.stack([columns[0], tf.to_float(columns[1])])
\tnumbers, words, keys = tf.train.batch(
\t\t[numbers, columns[2], key], batch_size, allow_smaller_final_batch=True)
\treturn numbers, words, keys
"""

OTHERS = """

def fixed_records(filenames, batch_size):
    queue = tf.train.string_input_producer(filenames, num_epochs=2, shuffle=False)
    reader = tf.FixedLengthRecordReader(record_bytes=5, header_bytes=2)
    _, value = reader.read(queue)
    record = tf.decode_raw(value, tf.uint8)
    record.set_shape([5])
    label = tf.cast(tf.slice(record, [0], [1]), tf.int32)
    return tf.train.batch([record, label], batch_size=batch_size)


def with_keys(filenames, batch_size):
    queue = tf.train.string_input_producer(filenames, num_epochs=2, shuffle=False)
    reader = tf.TFRecordReader()
    key, value = reader.read(queue)
    keys, values = tf.train.batch([key, value], batch_size)
    return keys, values


def whole_files(filenames, batch_size):
    queue = tf.train.string_input_producer(filenames, num_epochs=3, shuffle=False)
    reader = tf.WholeFileReader()
    name, contents = reader.read(queue)
    return tf.train.batch([name, contents], batch_size)


def of_pattern(filenames, batch_size):
    files = tf.train.match_filenames_once(filenames)
    queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    record = tf.TFRecordReader().read(queue)[1]
    return tf.train.batch([record], batch_size)


def many_at_a_time(filenames, batch_size):
    queue = tf.train.string_input_producer(filenames, num_epochs=2, shuffle=False)
    reader = tf.TFRecordReader()
    _, serialized = reader.read_up_to(queue, 4)
    features = tf.parse_example(serialized, features={"id": tf.FixedLenFeature([], tf.int64)})
    ids = features["id"]
    return tf.train.batch([ids], batch_size, enqueue_many=True, allow_smaller_final_batch=True)


def seeded(filenames, batch_size):
    queue = tf.train.string_input_producer(filenames, num_epochs=5, seed=7)
    reader = tf.TFRecordReader()
    _, serialized = reader.read(queue)
    return tf.train.batch([serialized], batch_size)


def branches(filenames, batch_size, shuffle=False):
    queue = tf.train.string_input_producer(filenames, num_epochs=2, shuffle=shuffle)
    reader = tf.TFRecordReader()
    _, serialized = reader.read(queue)
    length = tf.size(tf.string_split([serialized], "").values)
    if shuffle:
        records = tf.train.shuffle_batch(
            [serialized, length], batch_size, capacity=100, min_after_dequeue=10)
    else:
        records = tf.train.batch([serialized, length], batch_size)
    return records
"""

WITHOUT_FILES = """

def slices(batch_size):
    numbers = tf.constant([[1, 2], [3, 4], [5, 6], [7, 8]])
    names = tf.constant(["a", "b", "c", "d"])
    number, name = tf.train.slice_input_producer([numbers, names], num_epochs=3, shuffle=False)
    number = tf.reduce_sum(number)
    return tf.train.batch([number, name], batch_size=batch_size)
"""

ONE_AT_A_TIME = '''

def windows(data, num_steps=4):
    """Windows over a long sequence, as language models had them."""
    data = tf.convert_to_tensor(data)
    epoch_size = (tf.size(data) - 1) // num_steps
    i = tf.train.range_input_producer(epoch_size, shuffle=False).dequeue()
    x = tf.strided_slice(data, [i * num_steps], [(i + 1) * num_steps])
    x.set_shape([num_steps])
    return x


def single_records(filenames):
    queue = tf.train.string_input_producer(filenames, num_epochs=2, shuffle=False)
    reader = tf.TFRecordReader()
    _, serialized = reader.read(queue)
    return serialized
'''

BUCKETS = """

def bucketed(filenames, batch_size):
    queue = tf.train.string_input_producer(filenames, num_epochs=1, shuffle=False)
    reader = tf.TFRecordReader()
    _, serialized = reader.read(queue)
    _, sequence = tf.parse_single_sequence_example(
        serialized, sequence_features={"ids": tf.FixedLenSequenceFeature([], tf.int64)})
    ids = sequence["ids"]
    length = tf.to_int32(tf.shape(ids)[0])
    lengths, (ids_batch, copies) = tf.contrib.training.bucket_by_sequence_length(
        length, [ids, ids], batch_size, [3, 5], dynamic_pad=True, allow_smaller_final_batch=True)
    return lengths, ids_batch
"""

CONSUMER = """

def main():
    with tf.Graph().as_default(), tf.Session() as session:
        words, lengths = batches(["records"])
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess=session, coord=coord)
        try:
            while not coord.should_stop():
                print(session.run([words, lengths]))
        except tf.errors.OutOfRangeError:
            print("done")
        finally:
            coord.request_stop()
        coord.join(threads)


def batches(files):
    queue = tf.train.string_input_producer(files, num_epochs=1)
    reader = tf.TFRecordReader()
    _, record = reader.read(queue)
    length = tf.strings.length(record)
    return tf.train.batch([record, length], 2)


if __name__ == "__main__":
    main()
"""

BATCHED = HEAD + SEQUENCES + IMAGES + FILLED_BY_HAND + CSV + OTHERS + WITHOUT_FILES
FUNCTIONS = (
    *("input_fn", "image_batches", "padded_batches", "small_last_batch", "csv_batches", "fixed_records", "with_keys"),
    *("of_pattern", "whole_files", "many_at_a_time", "seeded", "branches", "slices"),
)

# Pipelines of several functions, readers and queues -------------------------------------------------------------------

JOINED = """

def read_one(queue):
    reader = tf.TFRecordReader()
    key, record = reader.read(queue)
    return key, tf.strings.length(record)


def joined(filenames, batch_size, readers=1):
    queue = tf.train.string_input_producer(filenames, num_epochs=2, shuffle=False)
    examples = [read_one(queue) for _ in range(readers)]
    return tf.train.batch_join(examples, batch_size)


def shuffled_and_joined(filenames, batch_size):
    queue = tf.train.string_input_producer(filenames, num_epochs=2)
    examples = []
    for _ in range(3):
        reader = tf.TFRecordReader()
        _, records = reader.read_up_to(queue, 4)
        examples.append([records, tf.strings.length(records)])
    return tf.train.shuffle_batch_join(
        examples, batch_size, capacity=100, min_after_dequeue=10, enqueue_many=True)
"""

KEPT = """

def kept(filenames, batch_size):
    queue = tf.train.string_input_producer(filenames, num_epochs=2, shuffle=False)
    _, record = tf.TFRecordReader().read(queue)
    number = tf.string_to_number(tf.string_split([record], ' ').values[1])
    keep = number > 300
    return tf.train.maybe_batch([record, number], keep, batch_size, allow_smaller_final_batch=True)


def kept_and_shuffled(filenames, batch_size):
    queue = tf.train.string_input_producer(filenames, num_epochs=2)
    _, record = tf.TFRecordReader().read(queue)
    keep = tf.not_equal(record, "")
    return tf.train.maybe_shuffle_batch([record], batch_size, 100, 10, keep)
"""

IN_BRANCHES = """

def in_branches(filenames, batch_size, is_training=False):
    if is_training:
        queue = tf.train.string_input_producer(filenames, num_epochs=4)
        _, record = tf.TFRecordReader().read(queue)
        length = tf.strings.length(record)
        return tf.train.shuffle_batch([record, length], batch_size, 100, 10)
    else:
        queue = tf.train.string_input_producer(filenames, num_epochs=2, shuffle=False)
        _, record = tf.TFRecordReader().read(queue)
        length = tf.strings.length(record)
        records, lengths = tf.train.batch([record, length], batch_size, allow_smaller_final_batch=True)
        return records, lengths + 1


def queue_in_branches(filenames, batch_size, is_training=False):
    queue = tf.train.string_input_producer(filenames, num_epochs=2, shuffle=is_training)
    _, record = tf.TFRecordReader().read(queue)
    if is_training:
        record = tf.strings.join([record, "!"])
        examples = tf.RandomShuffleQueue(8 * batch_size, 2 * batch_size, [tf.string], shapes=[[]])
        num_threads = 2
    else:
        examples = tf.FIFOQueue(3 * batch_size, [tf.string], shapes=[[]])
        num_threads = 1
    enqueue = examples.enqueue([record])
    tf.train.add_queue_runner(tf.train.QueueRunner(examples, [enqueue] * num_threads))
    records = examples.dequeue_many(batch_size)
    return records
"""

METHODS = """

class Reader:
    def __init__(self, filenames, batch_size):
        self.filenames = filenames
        self.batch_size = batch_size

    def read(self, queue):
        self.reader = tf.TFRecordReader()
        _, record = self.reader.read(queue)
        return record, tf.strings.length(record)

    def make_queue(self, num_epochs):
        return tf.train.string_input_producer(self.filenames, num_epochs=num_epochs, shuffle=False)

    def batches(self, filenames, num_epochs):
        self.filenames = filenames
        queue = self.make_queue(num_epochs)
        record, length = self.read(queue)
        return tf.train.batch([record, length], 3)
"""

IN_PARTS = """

def make_queue(filenames, num_epochs=2):
    # In the order of their names.
    filenames = sorted(filenames)
    queue = tf.train.string_input_producer(filenames, num_epochs=num_epochs, shuffle=False)
    return queue


def read_features(filenames):
    queue = make_queue(filenames)
    key, record = tf.TFRecordReader().read(queue)
    length = tf.strings.length(record)
    return key, record, length


def make_batch(key, length, batch_size, shuffle=False):
    if shuffle:
        keys, lengths = tf.train.shuffle_batch([key, length], batch_size, 100, 10)
    else:
        keys, lengths = tf.train.batch([key, length], batch_size, allow_smaller_final_batch=True)
    return keys, lengths + 1


def in_parts(filenames, batch_size, shuffle=False):
    key, _, length = read_features(filenames)
    length = 2 * length
    keys, lengths = make_batch(key, length, batch_size, shuffle=shuffle)
    return keys, lengths
"""

BETWEEN = """

def through_two_queues(filenames, batch_size):
    queue = tf.train.string_input_producer(filenames, num_epochs=2)
    _, record = tf.TFRecordReader().read(queue)
    codes = tf.decode_raw(record, tf.uint8)
    first = tf.RandomShuffleQueue(capacity=100, min_after_dequeue=5, dtypes=[tf.uint8])
    tf.train.add_queue_runner(tf.train.QueueRunner(first, [first.enqueue([codes])]))
    codes = first.dequeue()
    codes.set_shape([None])
    second = tf.PaddingFIFOQueue(50, [tf.uint8], shapes=[[None]])
    tf.train.add_queue_runner(tf.train.QueueRunner(second, [second.enqueue([codes])]))
    return second.dequeue_up_to(batch_size)
"""

TOGETHER = HEAD + JOINED + KEPT + IN_BRANCHES + METHODS + IN_PARTS + BETWEEN
OF_TOGETHER = (
    *("joined", "shuffled_and_joined", "kept", "kept_and_shuffled", "in_branches", "queue_in_branches"),
    *("Reader.batches", "in_parts", "through_two_queues"),
)
