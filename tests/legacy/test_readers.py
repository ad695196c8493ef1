"""The old readers' records and keys: through the functions for new code, and lifted."""

import itertools
import zlib
from pathlib import Path

import pytest
import tensorflow as tf
from combinations import all_at_night
from queue_runs import assert_lifts_exactly, queue_run, v1

import seqrecorder as sr
from seqrecorder import legacy


def read_by(reader, paths):
    """Return an input function that reads files with a reader of TensorFlow 1."""

    def input_fn():
        queue = v1.train.string_input_producer(paths, num_epochs=1, shuffle=False)
        return tuple(reader().read(queue))

    return input_fn


def pairs(dataset):
    return [tuple(pair) for pair in dataset.as_numpy_iterator()]


def assert_same_pairs(reader, paths, ours):
    """A reader of TensorFlow 1, the function for new code, and the lifted reader agree."""
    expected = [tuple(pair) for pair in queue_run(read_by(reader, paths))]
    assert pairs(ours) == expected
    assert pairs(legacy.lift(read_by(reader, paths))) == expected
    return expected


@pytest.mark.parametrize("skip", [*(pytest.param(skip, marks=pytest.mark.nightly) for skip in (0, 1)), 2, 9])
def test_text_lines(texts, skip):
    """Lines and their physical numbers, with a header left out in each file, are those of TextLineReader."""
    outputs = assert_same_pairs(
        lambda: v1.TextLineReader(skip_header_lines=skip), texts, legacy.text_lines(texts, skip_header_lines=skip)
    )
    if skip == 2:
        assert [(key.decode()[-7:], value) for key, value in outputs] == [
            ("a.csv:3", b""),
            ("a.csv:4", b"3,4"),
            ("b.csv:3", b"7\r8,9\r"),  # of carriage returns, the last before a line's end is left out
        ]


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_tf_records(tmp_path, compression):
    """Records and the offsets of their frames in the uncompressed stream are those of TFRecordReader."""
    paths = [str(tmp_path / name) for name in "ab"]
    for path, payloads in zip(paths, [[b"x", b"four", b""], [b"y" * 300]], strict=True):
        with tf.io.TFRecordWriter(path, compression) as writer:
            for payload in payloads:
                writer.write(payload)
    kind = {"": "NONE"}.get(compression, compression)
    options = tf.io.TFRecordOptions(getattr(v1.io.TFRecordCompressionType, kind))
    outputs = assert_same_pairs(
        lambda: v1.TFRecordReader(options=options), paths, legacy.tf_records(paths, compression=compression)
    )
    assert [int(key.rpartition(b":")[2]) for key, _ in outputs] == [0, 17, 37, 0]


@pytest.mark.parametrize(
    "sizes",
    [
        {"record_bytes": 4},
        pytest.param({"record_bytes": 4, "header_bytes": 3, "footer_bytes": 2}, marks=pytest.mark.nightly),
        pytest.param({"record_bytes": 4, "hop_bytes": 1, "footer_bytes": 1}, marks=pytest.mark.nightly),
        pytest.param({"record_bytes": 3, "hop_bytes": 5, "header_bytes": 1}, marks=pytest.mark.nightly),
        pytest.param({"record_bytes": 8, "header_bytes": 10, "footer_bytes": 9}, marks=pytest.mark.nightly),
        {"record_bytes": 5, "encoding": "ZLIB", "hop_bytes": 2, "header_bytes": 1, "footer_bytes": 3},
    ],
)
def test_fixed_length_records(tmp_path, sizes):
    """Records of one length, overlapping or with gaps, without what is left at the end, are those of the old reader."""
    paths = [str(tmp_path / name) for name in "abc"]
    for path, size in zip(paths, [18, 11, 25], strict=True):
        data = bytes(range(size))
        Path(path).write_bytes(zlib.compress(data) if "encoding" in sizes else data)
    assert_same_pairs(lambda: v1.FixedLengthRecordReader(**sizes), paths, legacy.fixed_length_records(paths, **sizes))


def test_a_file_shorter_than_its_header_has_no_records(tmp_path):
    """The old reader took such a file for the end of everything, a silent loss; here the next file follows."""
    paths = [str(tmp_path / name) for name in "ab"]
    for path, data in zip(paths, [b"h", b"headXXYY"], strict=True):
        Path(path).write_bytes(data)
    sizes = {"record_bytes": 2, "header_bytes": 4}
    assert queue_run(read_by(lambda: v1.FixedLengthRecordReader(**sizes), paths)) == []
    assert [value for _, value in pairs(legacy.fixed_length_records(paths, **sizes))] == [b"XX", b"YY"]


def test_whole_files_and_identity(texts):
    """A whole file has its path for key; the identity reader gives the path twice."""
    assert_same_pairs(v1.WholeFileReader, texts, legacy.whole_files(texts))
    assert pairs(legacy.lift(read_by(v1.IdentityReader, texts))) == queue_run(read_by(v1.IdentityReader, texts))


def test_read_up_to_never_straddles_files(records):
    """`read_up_to` gives vectors of at most so many records, all of one file."""

    def input_fn():
        queue = v1.train.string_input_producer(records, num_epochs=1, shuffle=False)
        return v1.TFRecordReader().read_up_to(queue, 4)

    _, outputs = assert_lifts_exactly(input_fn)
    assert [len(keys) for keys, _ in outputs] == [3, 4, 4, 1, 4, 2]


@pytest.mark.parametrize(
    ("graph_seed", "seed"), all_at_night(itertools.product([None, 99], [0, 1, 7]), [(None, 0), (None, 7), (99, 0)])
)
def test_seeded_orders_are_bit_for_bit(seed, graph_seed):
    """A seeded producer has the order of TensorFlow 1's queue, epoch by epoch, lifted or written anew."""

    def input_fn():
        return v1.train.string_input_producer(list("abcdef"), num_epochs=3, seed=seed).dequeue()

    _, outputs = assert_lifts_exactly(input_fn, graph_seed=graph_seed)
    if seed == 7 and graph_seed is None:
        assert b"".join(x.item() for x in outputs) == b"dabecfceabfdeafbcd"  # recorded from TensorFlow 1.15.5
    seeds = {"seed": seed} if graph_seed is None else {"seed": seed, "graph_seed": graph_seed}
    anew = legacy.producer(list("abcdef"), num_epochs=3, **seeds)
    assert list(anew.as_numpy_iterator()) == [x.item() for x in outputs]


def test_producer_without_shuffle_or_end(texts):
    """Unshuffled values repeat in order, of any dtype and shape, for ever where no number of epochs is given."""
    values = [[1, 2], [3, 4]]
    outputs = list(legacy.producer(values, shuffle=False).take(5).as_numpy_iterator())
    assert [x.tolist() for x in outputs] == [*values, *values, [1, 2]]
    endless = legacy.producer(range(3), seed=1).take(9)
    assert sorted(endless.as_numpy_iterator()) == sorted([*range(3)] * 3)
    first = legacy.text_lines(legacy.producer(texts, num_epochs=2, shuffle=False), skip_header_lines=1)
    assert len(pairs(first)) == 2 * len(pairs(legacy.text_lines(texts, skip_header_lines=1)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: legacy.producer([]), "values: expected a vector of at least one, got shape"),
        (lambda: legacy.producer(3), "values: expected a vector"),
        (lambda: legacy.producer([1], num_epochs=0), "num_epochs: expected 1 or more, or None, got 0"),
        (lambda: legacy.text_lines([]), "files: expected at least one path, got none"),
        (lambda: legacy.text_lines("a", skip_header_lines=-1), "skip_header_lines: expected an int of 0 or more"),
        (lambda: legacy.tf_records("a", compression="gz"), "compression: expected one of '', 'GZIP', 'ZLIB', got 'gz'"),
        (lambda: legacy.fixed_length_records("a", 0), "record_bytes: expected an int of 1 or more, got 0"),
        (lambda: legacy.fixed_length_records("a", 1, hop_bytes=-1), "hop_bytes: expected an int of 0 or more, got -1"),
        (lambda: legacy.fixed_length_records("a", 1, encoding="GZIP"), "encoding: expected one of '', 'ZLIB'"),
        (lambda: legacy.whole_files(tf.data.Dataset.range(2)), "files: expected a tf.data.Dataset of string scalars"),
    ],
)
def test_options_that_make_no_sense(make, message):
    """An option that makes no sense is refused by name."""
    with pytest.raises(sr.OptionError, match=message):
        make()


def test_a_missing_file_is_an_error(tmp_path):
    """A file that is not there is an error where it is read, no early end."""
    for read in (legacy.text_lines, legacy.tf_records, legacy.whole_files):
        with pytest.raises(tf.errors.NotFoundError):
            pairs(read(tmp_path / "missing"))
