import pytest
import tensorflow as tf


@pytest.fixture(autouse=True)
def _no_seed():
    """Seeds that other tests have set are not those of the programs here."""
    tf.random.set_seed(None)


@pytest.fixture(scope="session")
def records(tmp_path_factory):
    """Four files of 3 to 6 records, whose payloads are numbers of 1 to 4 digits."""
    directory = tmp_path_factory.mktemp("records")
    paths = [str(directory / f"{name}.tfrecord") for name in "abcd"]
    for number, path in enumerate(paths):
        with tf.io.TFRecordWriter(path) as writer:
            for record in range(3 + number):
                writer.write(str((number + 1) * 10 ** (record % 4)).encode())
    return paths


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    """Text files: with a header and an empty line; with carriage returns; of a header alone; of nothing."""
    directory = tmp_path_factory.mktemp("texts")
    contents = {"a": b"x,y\n1,2\r\n\n3,4\n", "b": b"x,y\n5,6\n7\r8,9\r\r\n\r", "c": b"x,y\n", "d": b""}
    for name, content in contents.items():
        (directory / f"{name}.csv").write_bytes(content)
    return [str(directory / f"{name}.csv") for name in contents]
