"""Files for the readers of `old_readers`, by their kind."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from seqrecorder import legacy


def _integers(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def _bytes(values):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def _floats(values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def _example(number):
    tags = [f"t{tag}".encode() for tag in range(number % 3)]
    features = {
        "image_raw": _bytes([bytes(range(number, number + 12))]),
        "label": _integers([number % 4]),
        "weights": _floats([number / 3, 0.5]),
        "tags": _bytes(tags),
        "counts": _integers(range(1, 1 + number % 4)),
    }
    return tf.train.Example(features=tf.train.Features(feature=features))


def _sequence(number):
    length = 1 + number % 5
    context = {"length": _integers([length]), "id": _bytes([f"s{number}".encode()]), "tags": _integers([number % 5])}
    lists = {
        "tokens": [_integers([10 * number + step]) for step in range(length)],
        "labels": [_integers([step]) for step in range(length)],
        "rgb": [_bytes([bytes([number, step, 3, 200])]) for step in range(length)],
        "notes": [_floats([step / 2] * (step % 3)) for step in range(length)],
    }
    lists = {name: tf.train.FeatureList(feature=features) for name, features in lists.items()}
    return tf.train.SequenceExample(
        context=tf.train.Features(feature=context), feature_lists=tf.train.FeatureLists(feature_list=lists)
    )


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Two or three files for each kind of reader; none fills its last batch."""
    paths_by_kind = {None: []}
    rng = np.random.default_rng(3)

    def paths(kind, ending, count=2):
        directory = tmp_path_factory.mktemp(kind)
        paths_by_kind[kind] = [str(directory / f"{kind}{number}.{ending}") for number in range(count)]
        return enumerate(paths_by_kind[kind])

    for file, path in paths("csv", "csv"):
        rows = [f"1.{row},{60 + row},{18 + 3 * row},{'ann' if row % 2 else 'bob'}" for row in range(5 + file)]
        with open(path, "w", encoding="utf-8") as out:  # noqa: PTH123 - a str
            out.write("\n".join(["height,weight,age,name", *rows]) + "\n")
    for file, path in paths("text", "txt"):
        with open(path, "w", encoding="utf-8") as out:  # noqa: PTH123 - a str
            out.write("".join(f"the {'cat ' * (row + file)}sat on {row}\n" for row in range(5)))
    for kind, make, packed in (("examples", _example, ""), ("gzip", _example, "GZIP"), ("sequences", _sequence, "")):
        for file, path in paths(kind, "tfrecord", 3):
            with tf.io.TFRecordWriter(path, packed) as writer:
                for number in range(5 + file):
                    writer.write(make(10 * file + number).SerializeToString())
    for _, path in paths("fixed", "bin"):
        with open(path, "wb") as out:  # noqa: PTH123 - a str
            out.write(rng.integers(0, 256, 13 * 5, dtype=np.uint8).tobytes())
    for number, path in paths("png", "png", 5):
        image = rng.integers(0, 256, (3 + number % 2, 4, 3), dtype=np.uint8)
        tf.io.write_file(path, tf.io.encode_png(image))
    return paths_by_kind


@pytest.fixture(scope="session")
def converted(files):
    """Converts a reader of `old_readers`, called with the files of a kind; a conversion is made once for all tests."""
    return functools.cache(lambda reader, kind: legacy.convert(reader, files[kind]))
