"""Read images that are stored as bytes, with their shape as bytes beside them."""

import tensorflow as tf


def read_and_decode(filename_queue):
    reader = tf.TFRecordReader()
    _, serialized = reader.read(filename_queue)
    features = tf.parse_single_example(
        serialized,
        features={
            "image": tf.FixedLenFeature([], tf.string),
            "shape": tf.FixedLenFeature([], tf.string),
            "label": tf.FixedLenFeature([], tf.int64),
        },
    )
    image = tf.decode_raw(features["image"], tf.uint8)
    shape = tf.decode_raw(features["shape"], tf.int32)
    image = tf.reshape(image, shape)
    image = tf.image.resize_image_with_crop_or_pad(image, 4, 4)
    image.set_shape([4, 4, 3])
    return (tf.to_float(image) - 128.0) / 128.0, features["label"]


def inputs(filenames, batch_size=4, num_epochs=2):
    filename_queue = tf.train.string_input_producer(filenames, num_epochs=num_epochs, shuffle=False)
    image, label = read_and_decode(filename_queue)
    images, labels = tf.train.batch([image, label], batch_size=batch_size, capacity=32)
    return images, labels
