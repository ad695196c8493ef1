"""Functions of `tf.contrib` for reading data, which TensorFlow no longer has, under their old names.

    with seqrecorder.legacy.compat():
        import old_script  # uses tf.contrib.training.bucket_by_sequence_length

Call them while a graph is built, as before. Their tensors work in a `Session` and with `lift`.
"""

from seqrecorder.legacy.contrib import layers as layers
from seqrecorder.legacy.contrib import learn as learn
from seqrecorder.legacy.contrib import lookup as lookup
from seqrecorder.legacy.contrib import rnn as rnn
from seqrecorder.legacy.contrib import slim as slim
from seqrecorder.legacy.contrib import training as training
