"""Read CSV files with a header line each."""

import tensorflow as tf


def inputs(filenames, batch_size=4, num_epochs=2):
    filename_queue = tf.train.string_input_producer(filenames, num_epochs=num_epochs, shuffle=False)
    reader = tf.TextLineReader(skip_header_lines=1)
    key, value = reader.read(filename_queue)
    sepal, petal, name = tf.decode_csv(value, record_defaults=[[0.0], [9.0], ["?"]])
    features = tf.stack([sepal, petal])
    return tf.train.batch([key, features, name], batch_size=batch_size, allow_smaller_final_batch=True)
