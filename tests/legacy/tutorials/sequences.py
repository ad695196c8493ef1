"""Train on SequenceExamples: a length as context, and lists of tokens and of labels."""

import tensorflow as tf


def parse(serialized):
    context, sequence = tf.parse_single_sequence_example(
        serialized=serialized,
        context_features={"length": tf.FixedLenFeature([], dtype=tf.int64)},
        sequence_features={
            "tokens": tf.FixedLenSequenceFeature([], dtype=tf.int64),
            "labels": tf.FixedLenSequenceFeature([], dtype=tf.int64),
        },
    )
    return context["length"], sequence["tokens"], sequence["labels"]


def inputs(filenames, batch_size=4, num_epochs=2):
    filename_queue = tf.train.string_input_producer(filenames, num_epochs=num_epochs, seed=3)
    reader = tf.TFRecordReader()
    _, serialized = reader.read(filename_queue)
    length, tokens, labels = parse(serialized)
    return tf.train.batch(
        [length, tokens, labels], batch_size=batch_size, dynamic_pad=True, allow_smaller_final_batch=True
    )
