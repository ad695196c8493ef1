"""TFRecord files as other programs write them."""

import tensorflow as tf


def feature(*values):
    if values and isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if values and isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def example(**features):
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def sequence_example(context, **lists):
    return tf.train.SequenceExample(
        context=tf.train.Features(feature=context),
        feature_lists=tf.train.FeatureLists(
            feature_list={name: tf.train.FeatureList(feature=steps) for name, steps in lists.items()}
        ),
    ).SerializeToString()


def written(path, messages, compression=""):
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for message in messages:
            writer.write(message)
    return path
