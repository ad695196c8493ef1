"""The hand-written way, at its best: what a careful TensorFlow user writes today.

Writing builds `tf.train.SequenceExample` objects (`extend(row.tolist())`, which beats `append` of numpy scalars) and
writes them with `tf.io.TFRecordWriter`. Reading shuffles serialized records, parses one at a time, and buckets with
`bucket_by_sequence_length`. An expert reads several files in turn and parses batches of strings, which leaves no room
for buckets: each batch is padded to its longest. The raw floor reads the files without parsing anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqrecorder.cli.bench.content import LENGTH
from seqrecorder.cli.bench.workloads import IMAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from seqrecorder.cli.bench.workloads import Workload

BATCH = 64
PARTS = 4
"""Files that are read in turn."""


def encoder(name: str) -> Callable[[Any], bytes]:
    """Return the function that a user would write to serialize a record of a workload."""
    return _ENCODERS[name]()


def _tokens() -> Callable[[Any], bytes]:
    import tensorflow as tf

    def encode(record: Any) -> bytes:
        example = tf.train.SequenceExample()
        features = example.context.feature
        features["key"].bytes_list.value.append(record.key.encode())
        features["length"].int64_list.value.append(int(record.length))
        add = example.feature_lists.feature_list["ids"].feature.add
        for value in record.ids.tolist():
            add().int64_list.value.append(value)
        add = example.feature_lists.feature_list["labels"].feature.add
        for value in record.labels.tolist():
            add().int64_list.value.append(value)
        data: bytes = example.SerializeToString()
        return data

    return encode


def _sensors() -> Callable[[Any], bytes]:
    import tensorflow as tf

    def encode(record: Any) -> bytes:
        example = tf.train.SequenceExample()
        example.context.feature["key"].bytes_list.value.append(record.key.encode())
        add = example.feature_lists.feature_list["signal"].feature.add
        for row in record.signal:
            add().float_list.value.extend(row.tolist())
        add = example.feature_lists.feature_list["label"].feature.add
        for value in record.label.tolist():
            add().int64_list.value.append(value)
        data: bytes = example.SerializeToString()
        return data

    return encode


def _frames() -> Callable[[Any], bytes]:
    import tensorflow as tf

    def encode(record: Any) -> bytes:
        example = tf.train.SequenceExample()
        example.context.feature["key"].bytes_list.value.append(record.key.encode())
        add = example.feature_lists.feature_list["rgb"].feature.add
        for row in record.rgb:
            add().float_list.value.extend(row.tolist())
        add = example.feature_lists.feature_list["audio"].feature.add
        for row in record.audio:
            add().bytes_list.value.append(row.tobytes())
        data: bytes = example.SerializeToString()
        return data

    return encode


def _clicks() -> Callable[[Any], bytes]:
    import tensorflow as tf

    def encode(record: Any) -> bytes:
        example = tf.train.SequenceExample()
        add = example.feature_lists.feature_list["ids"].feature.add
        for value in record.ids.tolist():
            add().int64_list.value.append(value)
        data: bytes = example.SerializeToString()
        return data

    return encode


def _words() -> Callable[[Any], bytes]:
    import tensorflow as tf

    def encode(record: Any) -> bytes:
        example = tf.train.SequenceExample()
        example.context.feature["key"].bytes_list.value.append(record.key.encode())
        add = example.feature_lists.feature_list["tokens"].feature.add
        for text in record.tokens.tolist():
            add().bytes_list.value.append(text.encode())
        add = example.feature_lists.feature_list["tags"].feature.add
        for text in record.tags.tolist():
            add().bytes_list.value.append(text.encode())
        data: bytes = example.SerializeToString()
        return data

    return encode


def _clips() -> Callable[[Any], bytes]:
    import tensorflow as tf

    def encode(record: Any) -> bytes:
        example = tf.train.SequenceExample()
        features = example.context.feature
        features["key"].bytes_list.value.append(record.key.encode())
        features["caption"].bytes_list.value.append(record.caption.encode())
        features["image"].bytes_list.value.append(tf.io.encode_png(record.image).numpy())
        if record.score is not None:
            features["score"].float_list.value.append(record.score)
        add = example.feature_lists.feature_list["levels"].feature.add
        for value in record.levels.tolist():
            add().int64_list.value.append(value)
        add = example.feature_lists.feature_list["boxes"].feature.add
        for row in record.boxes:
            add().float_list.value.extend(row.tolist())
        add = example.feature_lists.feature_list["tags"].feature.add
        for row in record.tags:
            add().int64_list.value.extend(row.tolist())
        data: bytes = example.SerializeToString()
        return data

    return encode


_ENCODERS = {"W1": _tokens, "W2": _sensors, "W3": _frames, "W4": _clicks, "W5": _words, "W6": _clips}


def encode(workload: Workload) -> int:
    """Serialize all records, and return how many."""
    to_bytes = encoder(workload.name)
    return sum(1 for record in workload.records if to_bytes(record))


def write(workload: Workload, directory: Path) -> int:
    """Write all records into one file, and return how many."""
    import tensorflow as tf

    to_bytes = encoder(workload.name)
    directory.mkdir()
    with tf.io.TFRecordWriter(str(directory / "data.tfrecord")) as writer:
        for record in workload.records:
            writer.write(to_bytes(record))
    return len(workload.records)


def dataset(workload: Workload, directory: Path, seed: int, epochs: int | None) -> Any:
    """Return shuffled, bucketed, padded batches as a `tf.data.Dataset`."""
    import tensorflow as tf

    context, lists = _specs(workload.name)
    first = next(iter(lists))

    def parse(serialized: Any) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for part in tf.io.parse_single_sequence_example(serialized, context or None, lists):
            values.update(part)
        values[LENGTH] = tf.shape(values[first])[0]
        return _decoded(values)

    records = tf.data.TFRecordDataset(str(directory / "data.tfrecord"))
    records = records.shuffle(workload.shuffle, seed=seed).map(parse, num_parallel_calls=2)
    if workload.boundaries:
        sizes = [BATCH] * (len(workload.boundaries) + 1)
        records = records.bucket_by_sequence_length(lambda values: values[LENGTH], list(workload.boundaries), sizes)
    else:
        records = records.padded_batch(BATCH)
    return _without_autotune(records.repeat(epochs).prefetch(2))


def expert_dataset(workload: Workload, directory: Path, seed: int, epochs: int | None) -> Any:
    """Return shuffled, padded batches that were parsed as batches of strings, everything left to AUTOTUNE."""
    import tensorflow as tf

    context, lists = _specs(workload.name)
    first = next(iter(lists))

    def parse(serialized: Any) -> dict[str, Any]:
        contexts, steps, lengths = tf.io.parse_sequence_example(serialized, context or None, lists)
        return _decoded({**contexts, **steps, LENGTH: lengths[first]})

    files = tf.data.Dataset.from_tensor_slices(_parts(directory))
    records = files.interleave(tf.data.TFRecordDataset, cycle_length=PARTS, num_parallel_calls=tf.data.AUTOTUNE)
    records = records.shuffle(workload.shuffle, seed=seed).batch(BATCH).repeat(epochs)
    return records.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def _parts(directory: Path) -> list[str]:
    """Return the paths of several files with the records of the one, made where they are missing."""
    import tensorflow as tf

    parts = directory.with_name("by_hand_parts")  # the directory itself is written anew in each round
    paths = [str(parts / f"{number}.tfrecord") for number in range(PARTS)]
    if not parts.exists():
        parts.mkdir()
        records = tf.data.TFRecordDataset(str(directory / "data.tfrecord"))
        for number, path in enumerate(paths):
            with tf.io.TFRecordWriter(path) as writer:
                for record in records.shard(PARTS, number).as_numpy_iterator():
                    writer.write(record)
    return paths


def _decoded(values: dict[str, Any]) -> dict[str, Any]:
    """Return what a parser gives of one record, or of a batch, with audio, images and ragged steps as dense tensors."""
    import tensorflow as tf

    if "image" in values:
        values["tags"] = tf.sparse.to_dense(values["tags"])
        data = values["image"]
        values["image"] = (
            tf.io.decode_png(data)
            if data.shape.rank == 0
            else tf.map_fn(tf.io.decode_png, data, fn_output_signature=tf.TensorSpec(IMAGE, tf.uint8))
        )
        values["image"] = tf.ensure_shape(values["image"], [*data.shape, *IMAGE])

    if "audio" in values:
        values["audio"] = tf.io.decode_raw(values["audio"], tf.uint8, fixed_length=128)
    return values


def _specs(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    import tensorflow as tf

    fixed, steps = tf.io.FixedLenFeature, tf.io.FixedLenSequenceFeature
    key = {"key": fixed([], tf.string)}
    ints, texts = steps([], tf.int64), steps([], tf.string)
    specs: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "W1": ({**key, "length": fixed([], tf.int64)}, {"ids": ints, "labels": ints}),
        "W2": (key, {"signal": steps([16], tf.float32), "label": ints}),
        "W3": (key, {"rgb": steps([1024], tf.float32), "audio": texts}),
        "W4": ({}, {"ids": ints}),
        "W5": (key, {"tokens": texts, "tags": texts}),
        "W6": (
            {
                **key,
                "caption": fixed([], tf.string),
                "image": fixed([], tf.string),
                "score": fixed([], tf.float32, float("nan")),
            },
            {"levels": ints, "boxes": steps([4], tf.float32), "tags": tf.io.VarLenFeature(tf.int64)},
        ),
    }
    return specs[name]


def raw_dataset(directory: Path, epochs: int | None) -> Any:
    """Return serialized records in batches: the floor below which no reader of such files gets."""
    import tensorflow as tf

    records = tf.data.TFRecordDataset(str(directory / "data.tfrecord")).batch(BATCH)
    return _without_autotune(records.repeat(epochs).prefetch(2))


def _without_autotune(records: Any) -> Any:
    import tensorflow as tf

    options = tf.data.Options()
    options.autotune.enabled = False  # with it, destroying an iterator can block for seconds
    return records.with_options(options)


def records(workload: Workload, directory: Path) -> Iterator[dict[str, Any]]:
    """Yield each record as a dictionary of arrays, through protobuf's own parser."""
    import tensorflow as tf

    names = list(workload.flat)
    kinds = {"int64_list": np.int64, "float_list": np.float32, "bytes_list": object}
    for batch in tf.data.TFRecordDataset(str(directory / "data.tfrecord")).batch(1024):
        for data in batch.numpy().tolist():
            example = tf.train.SequenceExample.FromString(data)
            values = {}
            for name, feature in example.context.feature.items():
                [value] = getattr(feature, feature.WhichOneof("kind")).value
                if name == "image":
                    values[name] = tf.io.decode_png(value).numpy()
                else:
                    values[name] = value.decode() if isinstance(value, bytes) else value
            if "image" in values:
                tags = example.feature_lists.feature_list["tags"].feature
                values["tags"] = [np.array(step.int64_list.value, np.int64) for step in tags]
            for name in names:
                steps = example.feature_lists.feature_list[name].feature
                kind = steps[0].WhichOneof("kind")
                if name in _ROWS:
                    values[name] = np.array([step.float_list.value for step in steps], np.float32)
                elif name == "audio":
                    joined = b"".join([step.bytes_list.value[0] for step in steps])
                    values[name] = np.frombuffer(joined, np.uint8).reshape(len(steps), -1)
                elif kind == "int64_list":
                    values[name] = np.array([step.int64_list.value[0] for step in steps], np.int64)
                else:
                    values[name] = np.array([step.bytes_list.value[0].decode() for step in steps], kinds[kind])
            yield values


_ROWS = ("signal", "rgb", "boxes")
