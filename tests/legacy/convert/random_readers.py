"""Random pipelines of TensorFlow 1: sources, operations and queues in any combination, each built by a seed."""

import random

import tensorflow as tf

v1 = tf.compat.v1


class RandomReader:
    """An input function of the old kind; the same for the same seed.

    Args:
        seed: of the choices.
        files: paths, by kind.
    """

    def __init__(self, seed, files):
        self._seed, self._files = seed, files

    def __call__(self):
        self._random = random.Random(self._seed)
        tensors = self._record()
        for _ in range(self._random.randrange(4)):
            tensors = self._changed(tensors)
        for _ in range(self._random.randrange(2)):
            tensors = self._queued(tensors)
        batch = self._batched(tensors)
        batch = [self._unary(x) if self._random.random() < 0.2 else x for x in batch]
        names = [f"part{number}" for number in range(len(batch))]
        return self._one_of(batch, tuple(batch), dict(zip(names, batch, strict=True)))

    def _one_of(self, *choices):
        return self._random.choice(choices)

    # Sources ------------------------------------------------------------------------------------------

    def _record(self):
        return self._one_of(
            self._csv, self._lines, self._examples, self._sequences, self._numbers, self._planes, self._keys
        )()

    def _read(self, reader, kind, read="read", *count):
        shuffle = self._one_of(False, False, True)
        seed = self._one_of(None, 5) if shuffle else None
        queue = v1.train.string_input_producer(self._files[kind], self._one_of(1, 2, 3), shuffle, seed)
        return getattr(reader, read)(queue, *count)

    def _csv(self):
        key, line = self._read(v1.TextLineReader(skip_header_lines=1), "csv")
        height, weight, age, name = tf.io.decode_csv(line, [[0.0], [0.0], [0], [""]])
        return self._one_of([height, age], [weight, name], [height, weight, age], [key, age])

    def _lines(self):
        _, line = self._read(v1.TextLineReader(), "text")
        return [tf.strings.length(line), v1.string_split([line]).values]

    def _examples(self):
        _, record = self._read(v1.TFRecordReader(), "examples")
        features = {"label": v1.FixedLenFeature([], tf.int64), "weights": v1.FixedLenFeature([2], tf.float32)}
        features["counts"] = v1.VarLenFeature(tf.int64)
        parsed = v1.parse_single_example(record, features)
        counts = v1.sparse_tensor_to_dense(parsed["counts"])
        return self._one_of(
            [parsed["label"], parsed["weights"]], [counts, parsed["label"]], [parsed["weights"], counts]
        )

    def _sequences(self):
        _, record = self._read(v1.TFRecordReader(), "sequences")
        steps = {name: v1.FixedLenSequenceFeature([], tf.int64) for name in ("tokens", "labels")}
        context, parsed = v1.parse_single_sequence_example(record, {"length": v1.FixedLenFeature([], tf.int64)}, steps)
        return self._one_of([parsed["tokens"], parsed["labels"]], [parsed["tokens"], context["length"]])

    def _numbers(self):
        count, epochs = self._one_of(7, 12), self._one_of(1, 3)
        shuffle = self._one_of(False, True)
        rows = [tf.range(count), tf.reshape(tf.range(2.0 * count), [count, 2])]
        return v1.train.slice_input_producer(rows, epochs, shuffle, self._one_of(None, 3) if shuffle else None)

    def _planes(self):
        number = v1.train.range_input_producer(
            self._one_of(6, 11), self._one_of(1, 3), self._one_of(False, True)
        ).dequeue()
        height, width = 1 + number % 3, 2 + number % 2
        return [tf.reshape(tf.range(height * width), [height, width]) + number, number]

    def _keys(self):
        keys, lines = self._read(v1.TextLineReader(), "text", "read_up_to", self._one_of(2, 3))
        queue = v1.FIFOQueue(20, [tf.string, tf.string], [[], []])
        v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue_many([keys, lines])]))
        return queue.dequeue()

    # Operations ---------------------------------------------------------------------------------------

    def _changed(self, tensors):
        place = self._random.randrange(len(tensors))
        changed = self._unary(tensors[place])
        if self._random.random() < 0.3:
            return [*tensors, changed]
        return [*tensors[:place], changed, *tensors[place + 1 :]]

    def _unary(self, x):
        if x.dtype == tf.string:
            return self._one_of(tf.strings.length, lambda x: tf.strings.join([x, "!"]), tf.strings.lower)(x)
        number = self._random.randrange(1, 4)
        choices = [
            lambda x: x + number,
            lambda x: (x - number) * (x + 1),
            lambda x: tf.maximum(x, tf.cast(number, x.dtype)),
            lambda x: tf.cast(x, self._one_of(tf.int32, tf.int64, tf.float32)),
            lambda x: tf.cast(x, tf.float32) / float(number),
            tf.square,
            tf.negative,
            lambda x: tf.where(x > number, x, tf.zeros_like(x)),
        ]
        if x.shape.rank == 0:
            choices += [lambda x: tf.stack([x, x + 1]), lambda x: tf.expand_dims(x, 0), v1.as_string]
            if x.dtype.is_integer:
                choices += [lambda x: tf.one_hot(x % 4, 4)]
        elif x.shape.rank == 1:
            choices += [lambda x: x[::-1], lambda x: tf.concat([x, x[:1]], 0), tf.cumsum, tf.reduce_sum]
            choices += [tf.random.shuffle, lambda x: tf.random.shuffle(x, seed=3)]
        return self._random.choice(choices)(x)

    # Queues -------------------------------------------------------------------------------------------

    def _queued(self, tensors):
        types, shapes = [x.dtype for x in tensors], [x.shape for x in tensors]
        queue = self._one_of(
            lambda: v1.FIFOQueue(20, types),
            lambda: v1.RandomShuffleQueue(20, 2, types),
            lambda: v1.PaddingFIFOQueue(20, types, shapes),
        )()
        v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue(tensors)] * self._one_of(1, 1, 3)))
        taken = queue.dequeue()
        taken = taken if isinstance(taken, list) else [taken]
        for tensor, shape in zip(taken, shapes, strict=True):
            tensor.set_shape(shape)
        return taken

    def _batched(self, tensors):
        size, smaller = self._random.randrange(1, 5), self._one_of(False, True)
        fixed = all(x.shape.is_fully_defined() for x in tensors)
        options = {"allow_smaller_final_batch": smaller, "num_threads": self._one_of(1, 1, 2)}
        keep = None
        if tensors[0].shape.rank == 0 and tensors[0].dtype.is_integer and self._random.random() < 0.3:
            keep = tensors[0] % 2 < 1
        if fixed and self._random.random() < 0.4:
            arguments = (tensors, size, 30, 5)
            if keep is not None:
                found = v1.train.maybe_shuffle_batch(*arguments, keep, **options)
            else:
                found = v1.train.shuffle_batch(*arguments, **options)
        elif keep is not None:
            found = v1.train.maybe_batch(tensors, keep, size, dynamic_pad=not fixed, **options)
        elif all(x.shape.rank == 1 and x.shape[0] == 2 for x in tensors):
            found = v1.train.batch(tensors, size, enqueue_many=True, **options)
        else:
            found = v1.train.batch(tensors, size, dynamic_pad=not fixed, **options)
        return found if isinstance(found, list) else [found]
