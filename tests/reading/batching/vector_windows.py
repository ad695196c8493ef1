"""What the tests of the planners share: windows made from numpy, and the check of exact resumption."""

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st
from slow_records import spread

from seqrecorder.reading.batching.window import PlannedBatch, in_turns


def windows_of(streams):
    """Return a function from the index of a stream, a list of lists of lengths, to its windows."""
    windows = [window for stream in streams for window in stream]
    rows = np.cumsum([0, *(len(window) for window in windows)])
    first = np.cumsum([0, *(len(stream) for stream in streams)])
    lengths = tf.constant([length for window in windows for length in window], tf.int64, [rows[-1]])
    serialized = tf.strings.as_string(tf.range(rows[-1]))
    rows, first = tf.constant(rows), tf.constant(first)

    def window(index):
        return serialized[rows[index] : rows[index + 1]], lengths[rows[index] : rows[index + 1]]

    return lambda stream: tf.data.Dataset.range(first[stream], first[stream + 1]).map(window)


def in_epochs(streams, batches):
    """Return the batches of all streams, made inside the function of a `flat_map`."""
    windows = windows_of(streams)
    return tf.data.Dataset.range(len(streams)).flat_map(lambda stream: batches(windows(stream)))


def epochs_of(streams, first=0):
    """Return the streams as epochs that follow each other, numbered from `first` on, as the planners take them."""
    windows = windows_of(streams)
    return tf.data.Dataset.range(len(streams)).flat_map(lambda stream: in_turns(windows(stream), stream + first))


def plain(batches):
    """Return the same batches as pairs, without autotune, with which an iterator may take a second to be destroyed."""
    if isinstance(batches.element_spec, PlannedBatch):
        batches = batches.map(lambda batch: (batch.serialized(), batch.lengths))
    options = tf.data.Options()
    options.autotune.enabled = False
    return batches.with_options(options)


def rows(batches):
    """Return the batches as lists of pairs (serialized, length)."""
    return [
        list(zip(map(int, serialized), lengths.tolist(), strict=True))
        for serialized, lengths in plain(batches).as_numpy_iterator()
    ]


def arrivals(stream, first=0):
    """Return the rows of a stream's windows, as pairs (serialized, length)."""
    counted = iter(range(first, first + sum(map(len, stream))))
    return [[(next(counted), length) for length in window] for window in stream]


def assert_resumes_before_every_batch(build, directory, stride):
    """Save before each batch; a fresh iterator of a pipeline built anew must give the whole remainder."""
    whole = rows(build())
    iterator = iter(plain(build()))
    saved = []
    for number in range(len(whole) + 1):
        saved.append(tf.train.Checkpoint(iterator=iterator).write(str(directory / f"{number}")))
        if number < len(whole):
            serialized, lengths = next(iterator)
            assert list(zip(map(int, serialized.numpy()), lengths.numpy().tolist(), strict=True)) == whole[number]
    anew = plain(build())
    for number in spread(len(whole), stride):
        iterator = iter(anew)
        tf.train.Checkpoint(iterator=iterator).read(saved[number]).assert_consumed()
        remainder = [
            list(zip(map(int, serialized.numpy()), lengths.numpy().tolist(), strict=True))
            for serialized, lengths in iterator
        ]
        assert remainder == whole[number:], f"resumed before batch {number}"


def streams_of(lengths, max_rows=12, max_windows=5):
    """Lists of streams; a stream is a list of windows; a window is a list of lengths, and may be empty."""
    window = st.lists(lengths, max_size=max_rows)
    return st.lists(st.lists(window, max_size=max_windows), min_size=6, max_size=16)
