"""Functions of `tf.contrib` that TensorFlow no longer has and that sequence code used, under their old names.

    with seqrecorder.legacy.compat():
        import old_script  # in which tf.contrib.training.bucket_by_sequence_length is found

They are called while a graph is built, as they always were; their tensors work in a `Session` and under `lift`.
"""

from seqrecorder.legacy.contrib import layers as layers
from seqrecorder.legacy.contrib import learn as learn
from seqrecorder.legacy.contrib import lookup as lookup
from seqrecorder.legacy.contrib import rnn as rnn
from seqrecorder.legacy.contrib import slim as slim
from seqrecorder.legacy.contrib import training as training
