"""The shapes of the classic tutorials, written anew: lifted and run, against their own queue runs."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from queue_runs import assert_lifts_exactly, queue_run, v1

from seqrecorder import legacy
from seqrecorder.legacy.run_script import run

TUTORIALS = Path(__file__).parent / "tutorials"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two files for each tutorial, by its name; the first one ends within a batch."""
    directory = tmp_path_factory.mktemp("tutorials")
    rng = np.random.default_rng(5)
    paths = {tutorial.stem: [str(directory / f"{tutorial.stem}{i}") for i in range(2)] for tutorial in scripts()}
    for i in range(2):
        numbers = range(10 * i, 10 * i + 7 + i)
        with tf.io.TFRecordWriter(paths["sequences"][i]) as writer:
            for number in numbers:
                example = tf.train.SequenceExample()
                example.context.feature["length"].int64_list.value.append(number % 5)
                for name in ("tokens", "labels"):
                    steps = example.feature_lists.feature_list[name]
                    for step in range(number % 5):
                        steps.feature.add().int64_list.value.append(number * 10 + step)
                writer.write(example.SerializeToString())
        with tf.io.TFRecordWriter(paths["images"][i]) as writer:
            for number in numbers:
                image = rng.integers(0, 256, (3 + number % 3, 5, 3), dtype=np.uint8)
                example = tf.train.Example()
                for name, part in (("image", image), ("shape", np.array(image.shape, np.int32))):
                    example.features.feature[name].bytes_list.value.append(part.tobytes())
                example.features.feature["label"].int64_list.value.append(number)
                writer.write(example.SerializeToString())
        Path(paths["queue_by_hand"][i]).write_bytes(bytes(rng.integers(0, 256, 21 + 3 * i, dtype=np.uint8)))
        lines = ["sepal,petal,name", *(f"{number}.5,,name {number}" for number in numbers)]
        Path(paths["csv_lines"][i]).write_text("\n".join(lines))
    return paths


def scripts():
    return sorted(TUTORIALS.glob("*.py"))


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


@pytest.mark.parametrize("path", scripts(), ids=lambda path: path.stem)
def test_tutorials_are_lifted(data, path):
    """The script as it is, lifted, gives the same batches."""
    with legacy.compat():
        old = module(path)
    _, expected = assert_lifts_exactly(lambda: old.inputs(data[path.stem]))
    assert len(expected) >= 3


def test_a_script_runs_as_it_is(data, capsys):
    """A script with a Session, a Coordinator and queue runners runs to its end."""
    run(str(TUTORIALS / "queue_by_hand.py"), data["queue_by_hand"])
    rows = np.concatenate([np.fromfile(path, np.uint8) for path in data["queue_by_hand"]] * 2).reshape(-1, 3)
    steps = len(rows) // 4
    assert capsys.readouterr().out == f"Done training, {steps} steps\ntotal {float(rows[: 4 * steps].sum())}\n"


def test_images_with_their_shape_in_the_record(tmp_path):
    """An image as raw bytes, its shape as int32 bytes beside it, decoded, reshaped, cropped and batched."""
    path = str(tmp_path / "images.tfrecord")
    rng = np.random.default_rng(3)
    with tf.io.TFRecordWriter(path) as writer:
        for number in range(10):
            image = rng.integers(0, 256, (4 + number % 3, 5, 3), dtype=np.uint8)
            example = tf.train.Example()
            for name, data in (("image", image), ("shape", np.array(image.shape, np.int32))):
                example.features.feature[name].bytes_list.value.append(data.tobytes())
            example.features.feature["label"].int64_list.value.append(number)
            writer.write(example.SerializeToString())

    def input_fn():
        queue = v1.train.string_input_producer([path], num_epochs=2)
        _, serialized = v1.TFRecordReader().read(queue)
        text = v1.FixedLenFeature([], tf.string)
        parsed = v1.parse_single_example(
            serialized, features={"image": text, "shape": text, "label": v1.FixedLenFeature([], tf.int64)}
        )
        image = tf.reshape(v1.decode_raw(parsed["image"], tf.uint8), v1.decode_raw(parsed["shape"], tf.int32))
        image = tf.image.resize_with_crop_or_pad(image, 4, 4)
        image.set_shape([4, 4, 3])
        image = tf.image.per_image_standardization(v1.to_float(image))
        return v1.train.batch([image, parsed["label"]], 4)

    lifted, _ = assert_lifts_exactly(input_fn)
    assert lifted.dataset.element_spec[0] == tf.TensorSpec([4, 4, 4, 3], tf.float32)


def test_a_queue_by_hand():
    """A FIFOQueue of random vectors with a QueueRunner of several threads, taken many at a time under a Coordinator."""

    def input_fn():
        queue = tf.queue.FIFOQueue(20, [tf.float32], shapes=[[3]])
        vector = v1.train.limit_epochs(v1.random_uniform([3], seed=2), 21)
        v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue(vector)] * 3))
        return queue.dequeue_many(4)

    lifted = legacy.trace(input_fn)
    outputs = [batch.numpy() for batch in lifted.dataset]
    expected = queue_run(input_fn)
    assert len(outputs) == len(expected) == 5
    assert not lifted.exact
    assert len(np.unique(np.concatenate(outputs), axis=0)) == 20


def test_text_with_a_header(tmp_path):
    """Lines of CSV with a header in each file, columns of several dtypes with defaults, features stacked."""
    paths = [str(tmp_path / f"{number}.csv") for number in range(2)]
    for number, path in enumerate(paths):
        lines = ["sepal,petal,name", *(f"{number}.{i},,name{i}" for i in range(5))]
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - a str
            file.write("\n".join(lines))

    def input_fn():
        queue = v1.train.string_input_producer(v1.train.match_filenames_once(str(tmp_path / "*.csv")), num_epochs=3)
        key, line = v1.TextLineReader(skip_header_lines=1).read(queue)
        sepal, petal, name = v1.decode_csv(line, record_defaults=[[0.0], [9.0], [""]])
        return v1.train.batch({"features": tf.stack([sepal, petal]), "name": name, "key": key}, 5)

    lifted = legacy.trace(input_fn)
    assert sorted(key for batch in lifted.dataset for key in batch["key"].numpy()) == sorted(
        key for batch in queue_run(input_fn) for key in batch["key"]
    )
    assert not lifted.exact
    assert "RandomShuffle 'input_producer/RandomShuffle' has no seed" in str(lifted)
