"""The hand-written way, at its best: what a careful TensorFlow user writes today.

Writing builds `tf.train.SequenceExample` objects (`extend(row.tolist())`, which beats `append` of numpy scalars) and
writes them with `tf.io.TFRecordWriter`. Reading shuffles serialized records, parses one at a time, and buckets with
`bucket_by_sequence_length`. An expert reads several files in turn and parses batches of strings, which leaves no room
for buckets: each batch is padded to its longest. The raw floor reads the files without parsing anything.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from .content import LENGTH
from .workloads import IMAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .workloads import Workload

BATCH = 64
PARTS = 4
"""Files that are read in turn."""
_AGAIN = 32  # batches that are parsed again and again


@attrs.frozen
class _Kind:
    """How a field is put into a message, and taken out of it again.

    Attributes:
        spec: as TensorFlow's parser is told.
        put: of a context, takes its feature and the value; of a list, a function that adds a step, and the values.
        take: returns the value of a context's feature, or the values of the features of all steps.
    """

    spec: Any
    put: Callable[[Any, Any], None]
    take: Callable[[Any], Any]


def _put_text(feature: Any, value: str) -> None:
    feature.bytes_list.value.append(value.encode())


def _put_int(feature: Any, value: int) -> None:
    feature.int64_list.value.append(int(value))


def _put_float(feature: Any, value: float) -> None:
    feature.float_list.value.append(value)


def _put_ints(add: Callable[[], Any], values: Any) -> None:
    for value in values.tolist():
        add().int64_list.value.append(value)


def _put_texts(add: Callable[[], Any], values: Any) -> None:
    for text in values.tolist():
        add().bytes_list.value.append(text.encode())


def _put_floats(add: Callable[[], Any], rows: Any) -> None:
    for row in rows:
        add().float_list.value.extend(row.tolist())


def _put_bytes(add: Callable[[], Any], rows: Any) -> None:
    for row in rows:
        add().bytes_list.value.append(row.tobytes())


def _put_ragged(add: Callable[[], Any], rows: Any) -> None:
    for row in rows:
        add().int64_list.value.extend(row.tolist())


def _take_ints(steps: Any) -> Any:
    return np.array([step.int64_list.value[0] for step in steps], np.int64)


def _take_texts(steps: Any) -> Any:
    return np.array([step.bytes_list.value[0].decode() for step in steps], object)


def _take_floats(steps: Any) -> Any:
    return np.array([step.float_list.value for step in steps], np.float32)


def _take_bytes(steps: Any) -> Any:
    return np.frombuffer(b"".join([step.bytes_list.value[0] for step in steps]), np.uint8).reshape(len(steps), -1)


def _take_ragged(steps: Any) -> Any:
    return [np.array(step.int64_list.value, np.int64) for step in steps]


def _fields(name: str) -> tuple[dict[str, _Kind], dict[str, _Kind]]:
    """Return the context fields and the feature lists of a workload."""
    import tensorflow as tf

    def put_image(feature: Any, value: Any) -> None:
        feature.bytes_list.value.append(tf.io.encode_png(value).numpy())

    fixed, steps = tf.io.FixedLenFeature, tf.io.FixedLenSequenceFeature
    text = _Kind(fixed([], tf.string), _put_text, lambda feature: feature.bytes_list.value[0].decode())
    number = _Kind(fixed([], tf.int64), _put_int, lambda feature: feature.int64_list.value[0])
    score = _Kind(fixed([], tf.float32, float("nan")), _put_float, lambda feature: feature.float_list.value[0])
    image = _Kind(
        fixed([], tf.string), put_image, lambda feature: tf.io.decode_png(feature.bytes_list.value[0]).numpy()
    )
    ints = _Kind(steps([], tf.int64), _put_ints, _take_ints)
    texts = _Kind(steps([], tf.string), _put_texts, _take_texts)
    audio = _Kind(steps([], tf.string), _put_bytes, _take_bytes)
    ragged = _Kind(tf.io.VarLenFeature(tf.int64), _put_ragged, _take_ragged)

    def floats(width: int) -> _Kind:
        return _Kind(steps([width], tf.float32), _put_floats, _take_floats)

    return {
        "W1": ({"key": text, "length": number}, {"ids": ints, "labels": ints}),
        "W2": ({"key": text}, {"signal": floats(16), "label": ints}),
        "W3": ({"key": text}, {"rgb": floats(1024), "audio": audio}),
        "W4": ({}, {"ids": ints}),
        "W5": ({"key": text}, {"tokens": texts, "tags": texts}),
        "W6": (
            {"key": text, "caption": text, "image": image, "score": score},
            {"levels": ints, "boxes": floats(4), "tags": ragged},
        ),
    }[name]


def encoder(name: str) -> Callable[[Any], bytes]:
    """Return the function that serializes a record of a workload."""
    import tensorflow as tf

    contexts, lists = ([(field, kind.put) for field, kind in fields.items()] for fields in _fields(name))

    def encode(record: Any) -> bytes:
        example = tf.train.SequenceExample()
        for field, put in contexts:
            if (value := getattr(record, field)) is not None:
                put(example.context.feature[field], value)
        for field, put in lists:
            put(example.feature_lists.feature_list[field].feature.add, getattr(record, field))
        data: bytes = example.SerializeToString()
        return data

    return encode


def encode(workload: Workload) -> int:
    """Serialize all records, and return how many."""
    to_bytes = encoder(workload.name)
    return sum(1 for record in workload.records if to_bytes(record))


def write(workload: Workload, directory: Path) -> None:
    """Write all records into one file."""
    import tensorflow as tf

    to_bytes = encoder(workload.name)
    directory.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(directory / "data.tfrecord")) as writer:
        for record in workload.records:
            writer.write(to_bytes(record))


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

    files = tf.data.Dataset.from_tensor_slices(_parts(directory))
    records = files.interleave(tf.data.TFRecordDataset, cycle_length=PARTS, num_parallel_calls=tf.data.AUTOTUNE)
    records = records.shuffle(workload.shuffle, seed=seed).batch(BATCH).repeat(epochs)
    return records.map(_parser(workload), num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def parsed_again(workload: Workload, directory: Path) -> Any:
    """Return some batches, which are in memory as strings, parsed again and again: what the parser alone takes."""
    import tensorflow as tf

    batches = raw_dataset(directory, 1).take(_AGAIN).cache().repeat()
    return batches.map(_parser(workload), num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def _parser(workload: Workload) -> Callable[[Any], dict[str, Any]]:
    """Return the function from a batch of serialized records to padded tensors."""
    import tensorflow as tf

    context, lists = _specs(workload.name)
    first = next(iter(lists))

    def parse(serialized: Any) -> dict[str, Any]:
        contexts, steps, lengths = tf.io.parse_sequence_example(serialized, context or None, lists)
        return _decoded({**contexts, **steps, LENGTH: lengths[first]})

    return parse


def _parts(directory: Path) -> list[str]:
    """Return the paths of several files with the records of the one, made where they are missing."""
    import tensorflow as tf

    parts = directory.with_name("by_hand_parts")  # the directory itself is written anew in each round
    paths = [str(parts / f"{number}.tfrecord") for number in range(PARTS)]
    if not parts.exists():
        parts.mkdir()
        records = tf.data.TFRecordDataset(str(directory / "data.tfrecord"))
        with contextlib.ExitStack() as stack:
            writers = [stack.enter_context(tf.io.TFRecordWriter(path)) for path in paths]
            for number, record in enumerate(records.as_numpy_iterator()):
                writers[number % PARTS].write(record)
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
    contexts, lists = ({field: kind.spec for field, kind in fields.items()} for fields in _fields(name))
    return contexts, lists


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

    contexts, lists = _fields(workload.name)
    for batch in tf.data.TFRecordDataset(str(directory / "data.tfrecord")).batch(1024):
        for data in batch.numpy().tolist():
            example = tf.train.SequenceExample.FromString(data)
            features, steps = example.context.feature, example.feature_lists.feature_list
            values = {name: kind.take(features[name]) for name, kind in contexts.items() if name in features}
            yield values | {name: kind.take(steps[name].feature) for name, kind in lists.items()}
