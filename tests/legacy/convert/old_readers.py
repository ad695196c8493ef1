"""Readers in the style of TensorFlow 1, each a function of the files that it reads; `KINDS` says of which kind."""

import threading

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.contrib import slim

KINDS = {}


def reads(kind):
    """Note of which kind the files are that a reader reads."""

    def note(function):
        KINDS[function] = kind
        return function

    return note


# Text -----------------------------------------------------------------------------------------------------


@reads("csv")
def csv_rows(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    reader = tf.TextLineReader(skip_header_lines=1)
    _, csv_row = reader.read(filename_queue)
    record_defaults = [[0.0], [0.0], [0], [""]]
    height, weight, age, name = tf.decode_csv(csv_row, record_defaults=record_defaults)
    features = tf.stack([height, weight])
    return tf.train.batch([features, age, name], batch_size=3)


@reads("csv")
def csv_dict(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    key, value = tf.TextLineReader(skip_header_lines=1).read(filename_queue)
    columns = tf.decode_csv(value, [[0.0], [0.0], tf.constant([], tf.int32), [""]])
    features = dict(zip(["height", "weight", "age", "name"], columns))
    label = features.pop("age")
    features["key"] = key
    return tf.train.batch(
        [features["key"], features["height"] / features["weight"], label], 4, allow_smaller_final_batch=True
    )


@reads("csv")
def csv_shuffled(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=3)
    reader = tf.TextLineReader(skip_header_lines=1)
    key, value = reader.read(filename_queue)
    height, weight, age, name = tf.decode_csv(value, [[0.0], [0.0], [0], [""]])
    label = tf.to_int32(tf.equal(name, "ann"))
    example_batch, label_batch = tf.train.shuffle_batch(
        [tf.stack([height, weight]), label], batch_size=2, capacity=50, min_after_dequeue=10
    )
    return example_batch, label_batch


@reads("csv")
def csv_endless(files):
    filename_queue = tf.train.string_input_producer(files, shuffle=False)
    _, value = tf.TextLineReader(skip_header_lines=1).read(filename_queue)
    height, weight, age, name = tf.decode_csv(value, [[0.0], [0.0], [0], [""]])
    return tf.train.batch({"x": height, "y": weight}, 3)


@reads("csv")
def csv_many_at_once(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    reader = tf.TextLineReader(skip_header_lines=1)
    _, rows = reader.read_up_to(filename_queue, 2)
    height, weight, age, name = tf.decode_csv(rows, [[0.0], [0.0], [0], [""]])
    return tf.train.batch([height, age], 3, enqueue_many=True, allow_smaller_final_batch=True)


@reads("text")
def words(files):
    queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    _, line = tf.TextLineReader().read(queue)
    tokens = tf.string_split([line]).values
    length = tf.size(tokens)
    tokens, length = tf.train.batch([tokens, length], 4, dynamic_pad=True, allow_smaller_final_batch=True)
    return {"tokens": tokens, "length": length}


@reads("text")
def ids_of_words(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, line = tf.TextLineReader().read(queue)
    table = tf.contrib.lookup.index_table_from_tensor(tf.constant(["the", "cat", "sat"]), default_value=-1)
    ids = table.lookup(tf.string_split([line], " ").values)
    return tf.train.batch([ids], 2, dynamic_pad=True)


@reads("text")
def two_files_in_step(files):
    def lines(name):
        queue = tf.train.string_input_producer([name], num_epochs=1, shuffle=False)
        return tf.TextLineReader().read(queue)[1]

    source, target = lines(files[0]), lines(files[0])
    source = tf.string_split([source]).values
    target = tf.string_split([target], "a").values
    return tf.train.batch([source, target], 2, dynamic_pad=True)


@reads("text")
def matching_files(files):
    names = tf.train.match_filenames_once(files[0][: files[0].rindex("/")] + "/*.txt")
    queue = tf.train.string_input_producer(names, num_epochs=1, shuffle=False)
    _, line = tf.TextLineReader().read(queue)
    return tf.train.batch([line, tf.strings.length(line)], 2)


@reads("csv")
def kept_rows(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    _, value = tf.TextLineReader(skip_header_lines=1).read(filename_queue)
    height, weight, age, name = tf.decode_csv(value, [[0.0], [0.0], [0], [""]])
    return tf.train.maybe_batch([height, age], age > 20, 2)


# Examples -------------------------------------------------------------------------------------------------


def read_example(filename_queue):
    reader = tf.TFRecordReader()
    _, serialized_example = reader.read(filename_queue)
    features = tf.parse_single_example(
        serialized_example,
        features={
            "image_raw": tf.FixedLenFeature([], tf.string),
            "label": tf.FixedLenFeature([], tf.int64),
            "weights": tf.FixedLenFeature([2], tf.float32),
        },
    )
    image = tf.decode_raw(features["image_raw"], tf.uint8)
    image.set_shape([12])
    image = tf.cast(image, tf.float32) * (1.0 / 255) - 0.5
    label = tf.cast(features["label"], tf.int32)
    return image, label


@reads("examples")
def mnist(files):
    with tf.name_scope("input"):
        filename_queue = tf.train.string_input_producer(files, num_epochs=2)
        image, label = read_example(filename_queue)
        images, sparse_labels = tf.train.shuffle_batch(
            [image, label], batch_size=4, num_threads=2, capacity=1000 + 3 * 4, min_after_dequeue=1000
        )
        return images, sparse_labels


@reads("examples")
def mnist_in_order(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    image, label = read_example(filename_queue)
    return tf.train.batch([image, label], batch_size=4)


@reads("examples")
def seeded_files(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=3, seed=7)
    image, label = read_example(filename_queue)
    return tf.train.batch([image, tf.one_hot(label, 4)], batch_size=4)


@reads("examples")
def one_at_a_time(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    image, label = read_example(filename_queue)
    return image, label


@reads("examples")
def several_readers(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=2)
    example_list = [read_example(filename_queue) for _ in range(3)]
    return tf.train.batch_join(example_list, batch_size=3, capacity=20)


@reads("examples")
def several_shuffled_readers(files):
    filename_queue = tf.train.string_input_producer(files)
    example_list = [read_example(filename_queue) for _ in range(2)]
    return tf.train.shuffle_batch_join(example_list, batch_size=3, capacity=30, min_after_dequeue=9)


@reads("examples")
def raw_batches(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, serialized = tf.TFRecordReader().read(filename_queue)
    batch = tf.train.batch([serialized], 4, allow_smaller_final_batch=True)
    parsed = tf.parse_example(batch, {"label": tf.FixedLenFeature([], tf.int64), "tags": tf.VarLenFeature(tf.string)})
    return parsed["label"], parsed["tags"]


@reads("examples")
def sparse_features(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    _, serialized = tf.TFRecordReader().read(filename_queue)
    features = tf.parse_single_example(
        serialized, {"label": tf.FixedLenFeature([], tf.int64), "tags": tf.VarLenFeature(tf.string)}
    )
    return tf.train.batch([features["tags"], features["label"]], 3)


@reads("examples")
def sparse_and_padded(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    _, serialized = tf.TFRecordReader().read(filename_queue)
    features = tf.parse_single_example(
        serialized, {"counts": tf.VarLenFeature(tf.int64), "tags": tf.VarLenFeature(tf.string)}
    )
    counts = tf.sparse_tensor_to_dense(features["counts"])
    return tf.train.batch({"counts": counts, "tags": features["tags"]}, 3, dynamic_pad=True)


@reads("examples")
def dense_tags(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    _, serialized = tf.TFRecordReader().read(filename_queue)
    features = tf.parse_single_example(
        serialized, {"tags": tf.VarLenFeature(tf.string), "missing": tf.FixedLenFeature([], tf.int64, default_value=5)}
    )
    tags = tf.sparse_tensor_to_dense(features["tags"], default_value="")
    return tf.train.batch([tags, features["missing"]], 3, dynamic_pad=True, allow_smaller_final_batch=True)


@reads("gzip")
def compressed(files):
    options = tf.python_io.TFRecordOptions(tf.python_io.TFRecordCompressionType.GZIP)
    filename_queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, serialized = tf.TFRecordReader(options=options).read(filename_queue)
    features = tf.parse_single_example(serialized, {"label": tf.FixedLenFeature([1], tf.int64)})
    return tf.train.batch([tf.reshape(features["label"], [])], 4)


@reads("examples")
def keys_of_records(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    key, serialized = tf.TFRecordReader().read(filename_queue)
    label = tf.parse_single_example(serialized, {"label": tf.FixedLenFeature([], tf.int64)})["label"]
    return tf.train.batch([key, label], 3)


@reads("examples")
def reshaped_batch(files):
    filename_queue = tf.train.string_input_producer(files, shuffle=False, num_epochs=2)
    image, label = read_example(filename_queue)
    images, labels = tf.train.batch([image, label], 4)
    images = tf.reshape(images, [4, 2, 2, 3])
    tf.summary.image("images", images)
    return images, tf.reshape(labels, [4])


@reads("examples")
def checked(files):
    filename_queue = tf.train.string_input_producer(files, shuffle=False, num_epochs=1)
    image, label = read_example(filename_queue)
    with tf.control_dependencies([tf.assert_less(label, 100)]):
        label = tf.identity(label)
    return tf.train.batch([image, label], 2)


@reads("examples")
def distorted(files):
    filename_queue = tf.train.string_input_producer(files, shuffle=False, num_epochs=1)
    image, label = read_example(filename_queue)
    image = tf.reshape(image, [2, 2, 3])
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, max_delta=63)
    image = tf.image.per_image_standardization(image)
    return tf.train.batch([image, label], 2)


@reads("examples")
def provider(files):
    keys_to_features = {
        "image_raw": tf.FixedLenFeature([], tf.string),
        "label": tf.FixedLenFeature([], tf.int64),
    }
    items_to_handlers = {"label": slim.tfexample_decoder.Tensor("label")}
    decoder = slim.tfexample_decoder.TFExampleDecoder(keys_to_features, items_to_handlers)
    dataset = slim.dataset.Dataset(
        data_sources=files, reader=tf.TFRecordReader, decoder=decoder, num_samples=9, items_to_descriptions={}
    )
    data = slim.dataset_data_provider.DatasetDataProvider(dataset, num_epochs=2, shuffle=False)
    [label] = data.get(["label"])
    return tf.train.batch([label], 4)


# SequenceExamples -----------------------------------------------------------------------------------------


def parse_sequence(serialized):
    context, sequence = tf.parse_single_sequence_example(
        serialized,
        context_features={"length": tf.FixedLenFeature([], dtype=tf.int64)},
        sequence_features={
            "tokens": tf.FixedLenSequenceFeature([], dtype=tf.int64),
            "labels": tf.FixedLenSequenceFeature([], dtype=tf.int64),
        },
    )
    return context["length"], sequence["tokens"], sequence["labels"]


@reads("sequences")
def padded_sequences(files):
    queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    _, serialized = tf.TFRecordReader().read(queue)
    length, tokens, labels = parse_sequence(serialized)
    return tf.train.batch([length, tokens, labels], 4, dynamic_pad=True)


@reads("sequences")
def queues_by_hand(files):
    file_queue = tf.train.string_input_producer(files, num_epochs=2)
    _, serialized = tf.TFRecordReader().read(file_queue)
    length, tokens, labels = parse_sequence(serialized)
    shuffling = tf.RandomShuffleQueue(capacity=100, min_after_dequeue=5, dtypes=[tf.int64] * 3)
    tf.train.add_queue_runner(tf.train.QueueRunner(shuffling, [shuffling.enqueue([length, tokens, labels])] * 2))
    length, tokens, labels = shuffling.dequeue()
    length.set_shape([])
    tokens.set_shape([None])
    labels.set_shape([None])
    padding = tf.PaddingFIFOQueue(capacity=50, dtypes=[tf.int64] * 3, shapes=[[], [None], [None]])
    tf.train.add_queue_runner(tf.train.QueueRunner(padding, [padding.enqueue([length, tokens, labels])]))
    lengths, tokens, labels = padding.dequeue_many(3)
    return tokens, labels, lengths


@reads("sequences")
def padding_queue(files):
    file_queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    _, serialized = tf.TFRecordReader().read(file_queue)
    length, tokens, labels = parse_sequence(serialized)
    input_tensors = [tokens[:-1], tokens[1:], length - 1]
    queue = tf.PaddingFIFOQueue(capacity=10, dtypes=[tf.int64] * 3, shapes=[(None,), (None,), ()])
    tf.train.queue_runner.add_queue_runner(tf.train.queue_runner.QueueRunner(queue, [queue.enqueue(input_tensors)]))
    return queue.dequeue_up_to(4)


@reads("sequences")
def buckets(files):
    queue = tf.train.string_input_producer(files, num_epochs=4, shuffle=False)
    _, serialized = tf.TFRecordReader().read(queue)
    length, tokens, labels = parse_sequence(serialized)
    lengths, (tokens, labels) = tf.contrib.training.bucket_by_sequence_length(
        tf.to_int32(length),
        [tokens, labels],
        batch_size=2,
        bucket_boundaries=[3, 5],
        dynamic_pad=True,
        allow_smaller_final_batch=True,
    )
    return lengths, tokens, labels


@reads("sequences")
def numbered_buckets(files):
    queue = tf.train.string_input_producer(files, num_epochs=4, shuffle=False)
    _, serialized = tf.TFRecordReader().read(queue)
    length, tokens, labels = parse_sequence(serialized)
    which = tf.minimum(tf.to_int32(length) // 2, 2)
    return tf.contrib.training.bucket([tokens, labels], which, 2, 3, dynamic_pad=True)


@reads("sequences")
def frames(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, serialized = tf.TFRecordReader().read(queue)
    context, sequence = tf.parse_single_sequence_example(
        serialized,
        context_features={"id": tf.FixedLenFeature([], tf.string), "tags": tf.VarLenFeature(tf.int64)},
        sequence_features={"rgb": tf.FixedLenSequenceFeature([], tf.string)},
    )
    frames = tf.decode_raw(sequence["rgb"], tf.uint8)
    frames = tf.reshape(tf.cast(frames, tf.float32), [-1, 4])
    frames = tf.minimum(frames, 2.0) / 255.0
    max_frames = 3
    frames = tf.pad(frames, [[0, tf.maximum(0, max_frames - tf.shape(frames)[0])], [0, 0]])[:max_frames]
    frames.set_shape([max_frames, 4])
    tags = tf.sparse_to_indicator(context["tags"], 5)
    tags.set_shape([5])
    return tf.train.batch([context["id"], frames, tags], 2, allow_smaller_final_batch=True)


@reads("sequences")
def parsed_steps(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, serialized = tf.TFRecordReader().read(queue)
    _, sequence = tf.parse_single_sequence_example(
        serialized,
        sequence_features={"tokens": tf.FixedLenSequenceFeature([], tf.int64), "notes": tf.VarLenFeature(tf.float32)},
    )
    notes = tf.sparse_tensor_to_dense(sequence["notes"])
    return tf.train.batch([sequence["tokens"], notes], 2, dynamic_pad=True)


@reads("sequences")
def by_map(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, serialized = tf.TFRecordReader().read(queue)
    length, tokens, labels = parse_sequence(serialized)
    doubled = tf.map_fn(lambda token: token * 2, tokens)
    return tf.train.batch([doubled, length], 2, dynamic_pad=True)


@reads("sequences")
def by_condition(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, serialized = tf.TFRecordReader().read(queue)
    length, tokens, labels = parse_sequence(serialized)
    chosen = tf.cond(length > 2, lambda: tokens, lambda: labels)
    chosen.set_shape([None])
    return tf.train.batch([chosen], 2, dynamic_pad=True)


# Bytes and images -----------------------------------------------------------------------------------------


@reads("fixed")
def cifar(files):
    label_bytes, height, width, depth = 1, 2, 2, 3
    image_bytes = height * width * depth
    filename_queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    reader = tf.FixedLengthRecordReader(record_bytes=label_bytes + image_bytes)
    key, value = reader.read(filename_queue)
    record_bytes = tf.decode_raw(value, tf.uint8)
    label = tf.cast(tf.strided_slice(record_bytes, [0], [label_bytes]), tf.int32)
    depth_major = tf.reshape(
        tf.strided_slice(record_bytes, [label_bytes], [label_bytes + image_bytes]), [depth, height, width]
    )
    uint8image = tf.transpose(depth_major, [1, 2, 0])
    reshaped_image = tf.cast(uint8image, tf.float32)
    resized_image = tf.image.resize_image_with_crop_or_pad(reshaped_image, 4, 4)
    float_image = tf.image.per_image_standardization(resized_image)
    float_image.set_shape([4, 4, 3])
    label.set_shape([1])
    images, label_batch = tf.train.batch([float_image, label], batch_size=3, num_threads=1, capacity=30)
    return images, tf.reshape(label_batch, [3])


@reads("fixed")
def fixed_with_hop(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    reader = tf.FixedLengthRecordReader(record_bytes=8, header_bytes=2, footer_bytes=1, hop_bytes=4)
    _, value = reader.read(filename_queue)
    samples = tf.decode_raw(value, tf.int16)
    samples.set_shape([4])
    return tf.train.batch([samples], 3, allow_smaller_final_batch=True)


@reads("fixed")
def fixed_with_tail(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, value = tf.FixedLengthRecordReader(record_bytes=7).read(filename_queue)
    return tf.train.batch([value], 3)


@reads("png")
def whole_images(files):
    filename_queue = tf.train.string_input_producer(files, shuffle=False, num_epochs=2)
    image_reader = tf.WholeFileReader()
    key, image_file = image_reader.read(filename_queue)
    image = tf.image.decode_png(image_file, channels=3)
    image = tf.image.resize_images(image, [4, 4])
    image.set_shape((4, 4, 3))
    return tf.train.batch([image, key], 2)


@reads("png")
def labelled_images(files):
    labels = list(range(len(files)))
    images = tf.convert_to_tensor(files, dtype=tf.string)
    labels = tf.convert_to_tensor(labels, dtype=tf.int32)
    input_queue = tf.train.slice_input_producer([images, labels], num_epochs=2, shuffle=True)
    label = input_queue[1]
    file_contents = tf.read_file(input_queue[0])
    image = tf.image.decode_png(file_contents, channels=1)
    image = tf.image.resize_images(image, (3, 3))
    image = tf.cast(image, tf.float32) / 255.0
    image_batch, label_batch = tf.train.batch([image, label], batch_size=2, num_threads=4, capacity=32)
    return image_batch, label_batch


@reads("png")
def labelled_images_in_order(files):
    input_queue = tf.train.slice_input_producer([files, np.arange(len(files))], num_epochs=1, shuffle=False)
    image = tf.image.decode_image(tf.read_file(input_queue[0]))
    image.set_shape([None, None, None])
    image = tf.image.resize_image_with_crop_or_pad(image, 5, 5)
    image.set_shape([5, 5, 3])
    return tf.train.batch([image, input_queue[1]], 2)


# Without files --------------------------------------------------------------------------------------------


@reads(None)
def arrays(_):
    data = np.arange(24, dtype=np.float32).reshape(12, 2)
    target = np.arange(12) % 3
    example, label = tf.train.slice_input_producer([data, target], num_epochs=2, shuffle=False)
    return tf.train.batch([example, label], 5)


@reads(None)
def seeded_arrays(_):
    data = np.arange(24, dtype=np.float32).reshape(12, 2)
    example, label = tf.train.slice_input_producer([data, np.arange(12)], num_epochs=2, seed=3)
    return tf.train.batch([example, label], 5)


@reads(None)
def unrolled_text(_):
    raw = tf.constant(np.arange(61), tf.int32)
    batch_size, num_steps = 2, 5
    data = tf.reshape(raw[: batch_size * 30], [batch_size, 30])
    i = tf.train.range_input_producer(5, shuffle=False, num_epochs=1).dequeue()
    x = tf.strided_slice(data, [0, i * num_steps], [batch_size, (i + 1) * num_steps])
    x.set_shape([batch_size, num_steps])
    y = tf.strided_slice(data, [0, i * num_steps + 1], [batch_size, (i + 1) * num_steps + 1])
    y.set_shape([batch_size, num_steps])
    return x, y


@reads(None)
def filled_queue(_):
    all_data = np.arange(40, dtype=np.float32).reshape(10, 4)
    all_target = np.arange(10) % 2
    queue = tf.FIFOQueue(capacity=50, dtypes=[tf.float32, tf.int64], shapes=[[4], []])
    enqueue_op = queue.enqueue_many([all_data, all_target])
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [enqueue_op] * 1))
    data_sample, label_sample = queue.dequeue_many(4)
    return data_sample, label_sample


@reads(None)
def random_vectors(_):
    queue = tf.RandomShuffleQueue(20, 2, [tf.float32], shapes=[[3]])
    vector = tf.train.limit_epochs(tf.random_uniform([3], seed=2), 9)
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(vector)] * 2))
    return queue.dequeue_many(3)


@reads("text")
def by_python(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, line = tf.TextLineReader().read(queue)
    lock = threading.Lock()

    def measure(text):
        with lock:
            return np.int64(len(text))

    length = tf.py_func(measure, [line], tf.int64)
    length.set_shape([])
    return tf.train.batch([length], 2)


@reads("text")
def by_priority(files):
    queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, line = tf.TextLineReader().read(queue)
    short_first = tf.PriorityQueue(100, [tf.string], [[]])
    length = tf.cast(tf.strings.length(line), tf.int64)
    tf.train.add_queue_runner(tf.train.QueueRunner(short_first, [short_first.enqueue([length, line])]))
    return short_first.dequeue_many(2)


# In the spirit of well-known projects -----------------------------------------------------------------------


@reads("sequences")
def prefetched_captions(files):
    filename_queue = tf.train.string_input_producer(files, shuffle=True, capacity=16, name="shard_queue", num_epochs=2)
    min_queue = 10
    values_queue = tf.RandomShuffleQueue(
        capacity=min_queue + 100, min_after_dequeue=min_queue, dtypes=[tf.string], name="random_input_queue"
    )
    enqueue_ops = []
    for _ in range(2):
        _, value = tf.TFRecordReader().read(filename_queue)
        enqueue_ops.append(values_queue.enqueue([value]))
    tf.train.queue_runner.add_queue_runner(tf.train.queue_runner.QueueRunner(values_queue, enqueue_ops))
    seqs = []
    for _thread in range(2):
        serialized = values_queue.dequeue()
        context, sequence = tf.parse_single_sequence_example(
            serialized,
            context_features={"length": tf.FixedLenFeature([], dtype=tf.int64)},
            sequence_features={"tokens": tf.FixedLenSequenceFeature([], dtype=tf.int64)},
        )
        seqs.append([context["length"], sequence["tokens"]])
    enqueue_list = []
    for image, caption in seqs:
        caption_length = tf.shape(caption)[0]
        input_length = tf.expand_dims(tf.subtract(caption_length, 1), 0)
        input_seq = tf.slice(caption, [0], input_length)
        target_seq = tf.slice(caption, [1], input_length)
        indicator = tf.ones(input_length, dtype=tf.int32)
        enqueue_list.append([image, input_seq, target_seq, indicator])
    images, input_seqs, target_seqs, mask = tf.train.batch_join(
        enqueue_list, batch_size=3, capacity=10, dynamic_pad=True, name="batch_and_pad"
    )
    lengths = tf.add(tf.reduce_sum(mask, 1), 1)
    return images, input_seqs, target_seqs, lengths


@reads("examples")
def many_examples_at_once(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=True)
    data = []
    for _ in range(2):
        reader = tf.TFRecordReader()
        _, serialized = reader.read_up_to(filename_queue, 4)
        tf.add_to_collection("x", serialized)
        feats = tf.parse_example(
            serialized,
            features={
                "label": tf.FixedLenFeature([], tf.int64),
                "counts": tf.VarLenFeature(tf.int64),
                "weights": tf.FixedLenFeature([2], tf.float32),
            },
        )
        labels = tf.sparse_to_indicator(feats["counts"], 5)
        labels.set_shape([None, 5])
        concat = tf.concat([feats["weights"], tf.to_float(labels)], 1)
        data.append((feats["label"], concat, labels, tf.ones([tf.shape(serialized)[0]])))
    return tf.train.shuffle_batch_join(
        data, batch_size=4, capacity=40, min_after_dequeue=8, allow_smaller_final_batch=True, enqueue_many=True
    )


@reads(None)
def unrolled_with_a_check(_):
    raw_data = list(range(103))
    batch_size = 4
    num_steps = 5
    with tf.name_scope("PTBProducer"):
        raw_data = tf.convert_to_tensor(raw_data, name="raw_data", dtype=tf.int32)
        data_len = tf.size(raw_data)
        batch_len = data_len // batch_size
        data = tf.reshape(raw_data[0 : batch_size * batch_len], [batch_size, batch_len])
        epoch_size = (batch_len - 1) // num_steps
        assertion = tf.assert_positive(epoch_size, message="epoch_size == 0, decrease batch_size or num_steps")
        with tf.control_dependencies([assertion]):
            epoch_size = tf.identity(epoch_size, name="epoch_size")
        i = tf.train.range_input_producer(epoch_size, shuffle=False).dequeue()
        x = tf.strided_slice(data, [0, i * num_steps], [batch_size, (i + 1) * num_steps])
        x.set_shape([batch_size, num_steps])
        y = tf.strided_slice(data, [0, i * num_steps + 1], [batch_size, (i + 1) * num_steps + 1])
        y.set_shape([batch_size, num_steps])
        return x, y


@reads("sequences")
def padding_queue_of_threads(files):
    file_queue = tf.train.string_input_producer(files)
    reader = tf.TFRecordReader()
    _, serialized_example = reader.read(file_queue)
    sequence_features = {
        "tokens": tf.FixedLenSequenceFeature(shape=[], dtype=tf.int64),
        "labels": tf.FixedLenSequenceFeature(shape=[], dtype=tf.int64),
    }
    _, sequence = tf.parse_single_sequence_example(serialized_example, sequence_features=sequence_features)
    length = tf.shape(sequence["tokens"])[0]
    input_tensors = [tf.to_float(tf.expand_dims(sequence["tokens"], 1)), sequence["labels"], length]
    shapes = [(None, 1), (None,), ()]
    queue = tf.PaddingFIFOQueue(capacity=50, dtypes=[tf.float32, tf.int64, tf.int32], shapes=shapes)
    enqueue_ops = [queue.enqueue(input_tensors)] * 2
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, enqueue_ops))
    return queue.dequeue_many(3)


@reads("examples")
def cropped_and_distorted(files):
    with tf.variable_scope("in"):
        q = tf.train.string_input_producer(files, num_epochs=1)
        reader = tf.TFRecordReader()
        _, s = reader.read(q)
        f = tf.parse_single_example(
            s, features={"image_raw": tf.FixedLenFeature([], tf.string), "label": tf.FixedLenFeature([], tf.int64)}
        )
        img = tf.decode_raw(f["image_raw"], tf.uint8)
        img = tf.reshape(img, tf.stack([2, 2, 3]))
        img = tf.cast(img, tf.float32)
        mean = tf.constant([1.0, 2.0, 3.0], shape=[1, 1, 3])
        img = img - mean
        img = tf.image.resize_images(img, [4, 4], method=tf.image.ResizeMethod.NEAREST_NEIGHBOR)
        img = tf.random_crop(img, [3, 3, 3])
        img = tf.image.random_flip_left_right(img)
        img = tf.image.random_contrast(img, 0.2, 1.8)
        labels = tf.one_hot(tf.cast(f["label"], tf.int32), depth=4, on_value=1.0, off_value=0.0)
        return tf.train.shuffle_batch([img, labels], batch_size=3, num_threads=2, capacity=30, min_after_dequeue=5)


@reads("png")
def image_pairs(files):
    a = tf.train.slice_input_producer([files, files[::-1]], shuffle=False, num_epochs=1)
    left = tf.image.convert_image_dtype(tf.image.decode_png(tf.read_file(a[0]), 3), tf.float32)
    right = tf.image.decode_png(tf.read_file(a[1]), 3)
    left = tf.image.resize_images(left, [4, 4], tf.image.ResizeMethod.AREA)
    right = tf.image.resize_images(right, [4, 4])
    d = tf.random_uniform([], 0, 1)
    left = tf.cond(d > 0.5, lambda: tf.image.flip_left_right(left), lambda: left)
    return tf.train.batch([left, right], 2)


@reads("csv")
def normalized_rows(files):
    q = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, row = tf.TextLineReader(skip_header_lines=1).read(q)
    cols = tf.decode_csv(row, record_defaults=[[0.0], [0.0], [0], ["na"]])
    table = tf.contrib.lookup.index_table_from_tensor(mapping=["ann", "bob"], num_oov_buckets=1)
    gender = table.lookup(cols[3])
    feats = tf.stack([*cols[:2], tf.to_float(cols[2])])
    feats = (feats - tf.reduce_mean(feats)) / tf.sqrt(tf.reduce_sum(tf.square(feats)))
    return tf.train.batch([feats, gender], 2)


@reads("sequences")
def buckets_of_a_dict(files):
    q = tf.train.string_input_producer(files, num_epochs=2)
    _, s = tf.TFRecordReader().read(q)
    c, f = tf.parse_single_sequence_example(
        s,
        {"length": tf.FixedLenFeature([], tf.int64), "id": tf.FixedLenFeature([], tf.string)},
        {"tokens": tf.FixedLenSequenceFeature([], tf.int64)},
    )
    batch = {"tokens": f["tokens"], "id": c["id"]}
    _, out = tf.contrib.training.bucket_by_sequence_length(
        input_length=tf.cast(c["length"], tf.int32),
        tensors=batch,
        batch_size=3,
        bucket_boundaries=[2, 4],
        dynamic_pad=True,
        capacity=50,
        num_threads=2,
        allow_smaller_final_batch=True,
    )
    return out["tokens"], out["id"], tf.shape(out["tokens"])[1]


@reads("text")
def bytes_of_files(files):
    q = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, text = tf.WholeFileReader().read(q)
    ids = tf.cast(tf.decode_raw(text, tf.uint8), tf.int32)
    n = tf.size(ids) // 5
    rows = tf.reshape(ids[: n * 5], [-1, 5])
    return tf.train.batch([rows], 4, enqueue_many=True)


@reads("examples")
def unpacked(files):
    q = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, s = tf.TFRecordReader().read(q)
    f = tf.parse_single_example(
        s, {"weights": tf.FixedLenFeature([2], tf.float32), "label": tf.FixedLenFeature([], tf.int64)}
    )
    a, b = tf.unstack(f["weights"])
    c, d = tf.split(f["weights"], 2)
    lab = tf.where(tf.equal(f["label"], 0), tf.constant(-1, tf.int64), f["label"])
    return tf.train.batch({"a": a, "b": b, "c": c, "d": d, "l": lab}, 4, allow_smaller_final_batch=True)


# Threads, branches and chance -----------------------------------------------------------------------------


@reads("sequences")
def threads_that_differ(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=3)
    records = tf.RandomShuffleQueue(30, 5, [tf.string])
    _, record = tf.TFRecordReader().read(filename_queue)
    tf.train.add_queue_runner(tf.train.QueueRunner(records, [records.enqueue([record])]))
    examples = []
    for thread_id in range(4):
        context, steps = tf.parse_single_sequence_example(
            records.dequeue(),
            {"length": tf.FixedLenFeature([], tf.int64)},
            {"tokens": tf.FixedLenSequenceFeature([], tf.int64)},
        )
        tokens = steps["tokens"]
        tokens = (tokens + 3) * 2 if thread_id % 2 else tokens * 2 + 3
        examples.append([context["length"], tokens])
    return tf.train.batch_join(examples, 3, dynamic_pad=True)


@reads("sequences")
def sums_of_joined_batches(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=2)
    examples = []
    for _ in range(3):
        _, record = tf.TFRecordReader().read(filename_queue)
        _, steps = tf.parse_single_sequence_example(
            record, sequence_features={"tokens": tf.FixedLenSequenceFeature([], tf.int64)}
        )
        examples.append([steps["tokens"]])
    tokens = tf.train.batch_join(examples, 2, dynamic_pad=True, allow_smaller_final_batch=True)
    return tokens, tf.reduce_sum(tokens)


@reads("examples")
def chosen_by_chance(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    image, label = read_example(filename_queue)
    scale = tf.random_uniform([], 0.5, 1.5)
    image, label = tf.cond(
        tf.random_uniform([]) > 0.5, lambda: (tf.reverse(image, [0]) * scale, label), lambda: (image, label + 7)
    )
    begin = tf.random_uniform([1], 0, 4, dtype=tf.int32)
    noise = tf.random_normal([6], stddev=0.1)
    return tf.train.batch([tf.slice(image, begin, [6]) + noise, label], 4)


@reads("csv")
def long_operands(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, row = tf.TextLineReader(skip_header_lines=1).read(filename_queue)
    columns = tf.decode_csv(row, [[0.0], [0.0], [0.0], [""]])
    standardized_height_of_person = tf.cast(columns[0] * columns[0] + columns[1], tf.float64)
    standardized_weight_of_person = tf.cast(columns[1] * columns[1] + columns[2], tf.float64)
    ratio = (standardized_height_of_person - 12345678.0) / (standardized_weight_of_person * 87654321.0)
    return tf.train.batch([ratio, tf.stack(columns[:3])], 2)


@reads("csv")
def the_same_of_two_files(files):
    batches = []
    for number, file in enumerate(files[:2]):
        filename_queue = tf.train.string_input_producer([file], shuffle=False)
        _, row = tf.TextLineReader(skip_header_lines=1).read(filename_queue)
        height, weight, _, _ = tf.decode_csv(row, [[0.0], [0.0], [0], [""]])
        batches.append(tf.train.batch([height / weight], 2 + number))
    return tf.concat(batches, 0)


@reads(None)
def planes(_):
    number = tf.train.range_input_producer(6, shuffle=False).dequeue()
    height, width = 3 + number % 3, 4 + number % 2
    plane = tf.reshape(tf.range(1, 1 + height * width), [height, width]) + 100 * number
    return tf.train.batch([plane, number], 2, num_threads=2, dynamic_pad=True)


@reads("gzip")
def keys_of_several(files):
    queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    options = tf.python_io.TFRecordOptions(tf.python_io.TFRecordCompressionType.GZIP)
    keys, records = tf.TFRecordReader(options=options).read_up_to(queue, 3)
    return tf.train.batch([keys, records], 4, num_threads=2, enqueue_many=True)


@reads("examples")
def shuffled_values(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    _, serialized = tf.TFRecordReader().read(filename_queue)
    features = tf.parse_single_example(serialized, {"counts": tf.VarLenFeature(tf.int64)})
    counts = tf.sparse_tensor_to_dense(features["counts"])
    return tf.train.batch([counts, tf.random_shuffle(counts)], 4, dynamic_pad=True)


@reads(None)
def seeded_values(_):
    rows = tf.reshape(tf.range(60), [10, 6])
    row = tf.train.slice_input_producer([rows], num_epochs=2, shuffle=False)[0]
    return tf.train.batch([row, tf.random_shuffle(row, seed=7)], 4)


@reads("sequences")
def shuffled_values_of_shuffled_files(files):
    filename_queue = tf.train.string_input_producer(files)
    _, serialized = tf.TFRecordReader().read(filename_queue)
    steps = {"tokens": tf.FixedLenSequenceFeature([], tf.int64)}
    _, sequence = tf.parse_single_sequence_example(serialized, sequence_features=steps)
    shuffled = tf.random_shuffle(sequence["tokens"])
    return tf.train.batch([shuffled, sequence["tokens"]], 4, num_threads=2, dynamic_pad=True)


@reads("examples")
def pairs_of_frames(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=2, shuffle=False)
    _, serialized = tf.TFRecordReader().read(filename_queue)
    features = tf.parse_single_example(serialized, {"image_raw": tf.FixedLenFeature([], tf.string)})
    frames = tf.reshape(tf.decode_raw(features["image_raw"], tf.uint8), [3, 2, 2, 1])
    camera_frames = tf.unstack(tf.pad(frames, [[0, 0], [1, 1], [0, 0], [0, 0]], mode="SYMMETRIC"))
    batches = tf.train.batch(camera_frames, 2)
    return tuple([batches[n], tf.concat([batches[n], batches[n - 1]], axis=0)] for n in range(3))


@reads("text")
def by_loop(files):
    filename_queue = tf.train.string_input_producer(files, num_epochs=1, shuffle=False)
    _, line = tf.TextLineReader().read(filename_queue)
    power = tf.while_loop(lambda n: n < 40, lambda n: n * 3, [tf.strings.length(line)])
    return tf.train.batch([power], 2)
