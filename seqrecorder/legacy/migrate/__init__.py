"""Scripts with TensorFlow 1's input queues, rewritten for tf.data."""
