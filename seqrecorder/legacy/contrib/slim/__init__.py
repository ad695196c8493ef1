"""`tf.contrib.slim`'s reading of data: parallel readers, dataset providers, decoders and prefetch queues.

They are queues and readers of TensorFlow 1, as they were, so that they run in sessions and are lifted like any others.
"""

from seqrecorder.legacy.contrib.layers import one_hot_encoding as one_hot_encoding
from seqrecorder.legacy.contrib.slim import data_decoder as data_decoder
from seqrecorder.legacy.contrib.slim import data_provider as data_provider
from seqrecorder.legacy.contrib.slim import dataset as dataset
from seqrecorder.legacy.contrib.slim import dataset_data_provider as dataset_data_provider
from seqrecorder.legacy.contrib.slim import parallel_reader as parallel_reader
from seqrecorder.legacy.contrib.slim import prefetch_queue as prefetch_queue
from seqrecorder.legacy.contrib.slim import tfexample_decoder as tfexample_decoder
from seqrecorder.legacy.contrib.slim.dataset_data_provider import read_items as read_items
