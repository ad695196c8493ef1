"""Input functions of `tf.contrib`, which run in TensorFlow 1.15.5 and, inside `legacy.compat()`, in today's.

Each is entered with what about it was not fixed: `""` for nothing, `"batches"` where complete batches came in any
order, `"rows"` where examples did. What it returns is a structure of tensors.
"""

import io
import struct
import zlib
from pathlib import Path

import tensorflow as tf

PIPELINES = {}


def pipeline(unfixed=""):
    def enter(function):
        PIPELINES[function.__name__] = function, unfixed
        return function

    return enter


def feature(values):
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def example(**features):
    features = {key: feature(values) for key, values in features.items() if values}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(deterministic=True)


def png(height, width, level):
    """A grey image of one level: PNG is the same in every version of every library."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    file = io.BytesIO()
    file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)))
    file.write(chunk(b"IDAT", zlib.compress((b"\0" + bytes([level]) * width) * height)) + chunk(b"IEND", b""))
    return file.getvalue()


def write_files():
    """Write the records that the pipelines read into the working directory."""
    for name, start in (("a", 0), ("b", 10)):
        with tf.io.TFRecordWriter(name + ".tfrecord") as writer:
            for number in range(start, start + 10):
                raw = number % 2 == 0
                image = bytes([number, 1, 2, 3, 4, 5]) if raw else png(2, 3, number)
                writer.write(
                    example(
                        number=[number],
                        values=[number / 4.0, 1.5][: number % 3],
                        places=[1, 3][: number % 3],
                        extent=[2, 2],
                        grid=[number, 1, 2, 3],
                        word=[b"even" if raw else b"odd"],
                        image=[image],
                        kind=[b"raw" if raw else b"png"],
                    )
                )
        with Path(name + ".txt").open("wb") as file:
            file.write(b"".join(b"%s line %d\n" % (name.encode(), line) for line in range(7)))


def numbers(limit=20):
    return tf.train.range_input_producer(limit, num_epochs=1, shuffle=False).dequeue()


def lengths_and_tensors():
    number = numbers()
    length = number * 7 % 11
    return length, {
        "number": number,
        "steps": tf.range(length) + 100 * number,
        "words": tf.fill([length % 3, 2], "w"),
        "sparse": tf.SparseTensor([[tf.cast(number % 4, tf.int64)]], [number], [5]),
    }


@pipeline("batches")
def buckets_by_length():
    length, tensors = lengths_and_tensors()
    return tf.contrib.training.bucket_by_sequence_length(length, tensors, 3, [3, 6], dynamic_pad=True)


@pipeline("batches")
def buckets_by_length_with_smaller_final_batches():
    length, tensors = lengths_and_tensors()
    return tf.contrib.training.bucket_by_sequence_length(
        length, tensors, 3, [3, 6], dynamic_pad=True, allow_smaller_final_batch=True
    )


@pipeline("batches")
def buckets_of_sizes():
    length, tensors = lengths_and_tensors()
    return tf.contrib.training.bucket_by_sequence_length(
        length, tensors, [2, 3, 4], [3, 6], dynamic_pad=True, keep_input=length > 1, bucket_capacities=[2, 1, 1]
    )


@pipeline("batches")
def buckets_of_a_list():
    number = numbers()
    return tf.contrib.training.bucket_by_sequence_length(number, [number, tf.stack([number, -number])], 4, [10])


@pipeline("batches")
def buckets_of_a_dict_of_one():
    number = numbers()
    return tf.contrib.training.bucket_by_sequence_length(number, {"x": number}, 4, [10])


@pipeline("batches")
def buckets_by_lengths_in_vectors():
    number = numbers()
    return tf.contrib.training.bucket_by_sequence_length(number[tf.newaxis], [number], 4, [10])


@pipeline("batches")
def buckets_with_shapes():
    number = numbers()
    unknown = tf.placeholder_with_default(tf.fill([number % 3], number), None)
    return tf.contrib.training.bucket_by_sequence_length(number, [unknown], 4, [10], shapes=[[None]], dynamic_pad=True)


@pipeline("batches")
def buckets_by_number():
    number = numbers()
    return tf.contrib.training.bucket([number, tf.as_string(number)], number % 3, [1, 2, 3], 3, keep_input=number > 2)


def segments(lengths, batch_size=2, small=True, **options):
    position = numbers(len(lengths))
    length = tf.gather(lengths, position)
    return tf.contrib.training.batch_sequences_with_states(
        input_key=tf.as_string(length),
        input_sequences={"x": tf.range(length) + 10 * length, "y": tf.ones([length, 2])},
        input_context={"length": length},
        input_length=length,
        initial_states={"count": tf.zeros([1]) - 1.0},
        num_unroll=3,
        batch_size=batch_size,
        num_threads=1,
        allow_small_batch=small,
        **options,
    )


def of_segments(batch):
    names = ("key", "next_key", "sequence", "sequence_count", "insertion_index", "length", "total_length", "batch_size")
    found = {name: getattr(batch, name) for name in names}
    found.update(x=batch.sequences["x"], y=batch.sequences["y"], context=batch.context["length"])
    # The next segment of an example came only after a state had been saved for it.
    state = batch.state("count")
    with tf.control_dependencies([batch.save_state("count", state + tf.cast(batch.length, tf.float32)[:, tf.newaxis])]):
        return {name: tf.identity(tensor) for name, tensor in dict(found, state=state).items()}


@pipeline()
def segments_of_sequences():
    return of_segments(segments([5, 3, 7, 2]))


@pipeline()
def segments_without_small_batches():
    return of_segments(segments([5, 3, 7, 2], small=False))


@pipeline()
def segments_in_three_rows():
    return of_segments(segments([4, 9, 1, 6, 12, 3, 3, 8], batch_size=3))


@pipeline()
def segments_alone():
    return of_segments(segments([3, 9, 6], batch_size=1, pad=False))


@pipeline()
def one_reader():
    return tf.contrib.slim.parallel_reader.parallel_read(
        ["a.txt", "b.txt"], tf.TextLineReader, num_epochs=2, num_readers=1, shuffle=False
    )


@pipeline("rows")
def one_reader_and_shuffle():
    return tf.contrib.slim.parallel_reader.parallel_read(
        ["a.txt", "b.txt"], tf.TextLineReader, num_epochs=2, num_readers=1, capacity=9, min_after_dequeue=4
    )


@pipeline("rows")
def three_readers():
    key, value = tf.contrib.slim.parallel_reader.parallel_read(
        ["a.tfrecord", "b.tfrecord"], tf.TFRecordReader, num_epochs=2, num_readers=3, shuffle=False
    )
    return tf.train.batch([key, value], 6, shapes=[[], []], allow_smaller_final_batch=True)


def provided(items, features):
    decoder = tf.contrib.slim.tfexample_decoder.TFExampleDecoder(features, items)
    dataset = tf.contrib.slim.dataset.Dataset(["a.tfrecord"], tf.TFRecordReader, decoder, 10, {}, kind="golden")
    found = tf.contrib.slim.dataset_data_provider.DatasetDataProvider(
        dataset, num_readers=1, shuffle=False, num_epochs=1
    )
    names = sorted(found.list_items())
    return {name: found.get([name])[0] for name in names}


@pipeline()
def decoded_tensors():
    decoder = tf.contrib.slim.tfexample_decoder
    features = {
        "number": tf.FixedLenFeature([1], tf.int64),
        "values": tf.VarLenFeature(tf.float32),
        "extent": tf.VarLenFeature(tf.int64),
        "grid": tf.VarLenFeature(tf.int64),
        "word": tf.FixedLenFeature([], tf.string),
    }
    items = {
        "number": decoder.Tensor("number", shape=[]),
        "values": decoder.Tensor("values", default_value=-1.0),
        "grid": decoder.Tensor("grid", shape_keys="extent"),
        "flat": decoder.Tensor("grid", shape=[1, 4]),
        "size": decoder.ItemHandlerCallback(["word", "number"], lambda found: tf.size(found["number"])),
        "twice": decoder.ItemHandlerCallback("word", lambda found: found["word"] + found["word"]),
    }
    return provided(items, features)


@pipeline()
def decoded_images():
    decoder = tf.contrib.slim.tfexample_decoder
    features = {"image": tf.FixedLenFeature([], tf.string), "kind": tf.FixedLenFeature([], tf.string)}
    return provided({"image": decoder.Image("image", "kind", shape=[2, 3, 1], channels=1)}, features)


@pipeline()
def prefetched_list():
    number = numbers(7)
    return tf.contrib.slim.prefetch_queue.prefetch_queue([number, -number]).dequeue()


@pipeline()
def prefetched_dict():
    number = numbers(7)
    tensors = {"x": tf.range(number % 3), "n": number}
    return tf.contrib.slim.prefetch_queue.prefetch_queue(tensors, dynamic_pad=True).dequeue()


FEATURES = {"number": tf.FixedLenFeature([], tf.int64), "grid": tf.FixedLenFeature([2, 2], tf.int64)}


@pipeline()
def learned_features():
    return tf.contrib.learn.read_batch_features(
        "*.tfrecord", 5, FEATURES, tf.TFRecordReader, randomize_input=False, num_epochs=1, num_enqueue_threads=1
    )


@pipeline("rows")
def learned_record_features():
    return tf.contrib.learn.read_batch_record_features("*.tfrecord", 8, FEATURES, num_epochs=1)


@pipeline()
def learned_sparse_features():
    """Files in the order of their names, whatever that of the patterns."""
    sparse = {"word": tf.FixedLenFeature([], tf.string), "values": tf.VarLenFeature(tf.float32)}
    return tf.contrib.learn.read_batch_features(
        ["b.tfrecord", "a.tfrecord"], 6, sparse, tf.TFRecordReader, False, 2, num_enqueue_threads=1
    )


@pipeline("batches")
def learned_record_features_in_order():
    """Two threads fill the last queue."""
    return tf.contrib.learn.read_batch_record_features("*.tfrecord", 4, FEATURES, randomize_input=False, num_epochs=2)


@pipeline()
def tables_of_words():
    """Words of lines, which end with a letter and with a number, through each kind of table."""
    lookup = tf.contrib.lookup
    _, line = tf.TextLineReader().read(tf.train.string_input_producer(["a.txt", "b.txt"], 1, shuffle=False))
    name, _, number = tf.unstack(tf.string_split([line]).values[:3], 3)
    content = lookup.KeyValueTensorInitializer(["a", "c"], tf.constant([5, 6], tf.int64))
    known = ["0", "3", "b", "2"]
    places = lookup.index_table_from_tensor(mapping=known, num_oov_buckets=3).lookup(number)
    return tf.train.batch(
        [
            lookup.HashTable(content, -1).lookup(name),
            places,
            lookup.index_table_from_tensor(known, default_value=9).lookup(tf.stack([name, number])),
            lookup.index_to_string_table_from_tensor(known, default_value="none").lookup(places),
            lookup.index_table_from_file("a.txt", num_oov_buckets=1).lookup(line),
            lookup.index_to_string_table_from_file("b.txt").lookup(places),
        ],
        4,
        allow_smaller_final_batch=True,
    )
