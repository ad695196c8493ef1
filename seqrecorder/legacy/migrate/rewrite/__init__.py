"""The statements of a pipeline, written anew for tf.data."""
