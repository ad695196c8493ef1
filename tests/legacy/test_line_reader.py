"""Lines of text files that are read in blocks: against TextLineReader."""

import numpy as np
import pytest
import tensorflow as tf
from queue_runs import queue_run, rest_after, v1

from seqrecorder.legacy.readers import lines_of


def text_lines(paths, **options):
    """Read lines as `legacy.text_lines` does, but files of more than 32 bytes in blocks of 16."""
    options = {"keyed": True, "small": 32, "block": 16, **options}
    files = tf.data.Dataset.from_tensor_slices(paths)
    return files.flat_map(tf.autograph.experimental.do_not_convert(lambda path: lines_of(path, **options)))


@pytest.mark.parametrize("skip", [pytest.param(0, marks=pytest.mark.nightly), 3])
def test_lines_across_blocks(tmp_path, skip):
    """Lines, line ends and carriage returns may lie across blocks; lines may be longer than blocks."""
    rng = np.random.default_rng(skip)
    paths = []
    for size in [0, 31, 32, 33, 48, 65, 600]:
        likely = rng.choice([[0.6, 0.1, 0.3], [0.95, 0.04, 0.01], [0.2, 0.4, 0.4]])
        content = bytes(rng.choice(list(b"x\r\n"), size, p=likely).astype(np.uint8))
        paths.append(str(tmp_path / f"{size}.txt"))
        (tmp_path / f"{size}.txt").write_bytes(content)

    def input_fn():
        queue = v1.train.string_input_producer(paths, num_epochs=1, shuffle=False)
        return tuple(v1.TextLineReader(skip_header_lines=skip).read(queue))

    expected = [(key, value) for key, value in queue_run(input_fn)]
    assert len(expected) > 100
    assert list(text_lines(paths, skip_header_lines=skip).as_numpy_iterator()) == expected
    lines = text_lines(paths, skip_header_lines=skip, keyed=False)
    assert [line for _, line in expected] == list(lines.as_numpy_iterator())


def test_large_files_are_not_read_at_once(tmp_path, monkeypatch):
    """A large file is never read as a whole."""
    (tmp_path / "large.txt").write_text("a line\n" * 100)
    (tmp_path / "small.txt").write_text("a line\n" * 3)
    read = []

    def read_file(path):
        content = tf.py_function(lambda path: read.append(path.numpy()) or b"a line\n" * 3, [path], tf.string)
        return tf.ensure_shape(content, [])

    monkeypatch.setattr(tf.io, "read_file", read_file)
    paths = [str(tmp_path / name) for name in ("large.txt", "small.txt")]
    assert len(list(text_lines(paths))) == 103
    assert read == [paths[1].encode()]


def test_a_position_inside_a_large_file_is_saved(tmp_path):
    """An iterator goes on in the middle of a block."""
    (tmp_path / "large.txt").write_text("".join(f"line {number}\n" for number in range(100)))
    dataset = text_lines([str(tmp_path / "large.txt")])
    rest, _ = rest_after(dataset, 41, tmp_path)
    assert [line.item() for _, line in rest] == [b"line %d" % number for number in range(41, 100)]
