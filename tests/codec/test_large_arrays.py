"""Records of large arrays, which are copied once: the same bytes as by the way of small ones."""

from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.wire.write import LARGE


@sr.record
class Clip:
    """Large arrays in each form that is copied once, and beside them some that are not."""

    pixels: np.ndarray = sr.feature_list("float32", shape=(16,))
    sound: np.ndarray = sr.feature_list("uint8", shape=(64,), storage="raw")
    maybe: np.ndarray | None = sr.feature_list("float32", shape=(4, 4), optional=True)
    halves: np.ndarray = sr.feature_list("float16", shape=(32,))
    flags: np.ndarray = sr.feature_list("bool", shape=(8, 8), storage="raw")
    still: np.ndarray = sr.context("float32", shape=(3, 8))
    mask: np.ndarray | None = sr.context("bool", shape=(9, 9), storage="raw", optional=True)
    whole: np.ndarray = sr.feature_list("float32", shape=(16,), storage="packed")
    signal: np.ndarray = sr.feature_list("float64", shape=(2,), storage="buffer")
    marks: np.ndarray | None = sr.feature_list("bool", storage="buffer", optional=True, align=None)


def clip(steps: int, *, maybe: bool = True) -> Clip:
    rng = np.random.default_rng(steps)
    return Clip(
        rng.standard_normal((steps, 16), np.float32),
        rng.integers(0, 256, (steps, 64), np.uint8),
        rng.standard_normal((steps, 4, 4), np.float32) if maybe else None,
        rng.standard_normal((steps, 32)).astype(np.float16),
        rng.integers(0, 2, (steps, 8, 8)).astype(bool),
        rng.standard_normal((3, 8), np.float32),
        rng.integers(0, 2, (9, 9)).astype(bool) if maybe else None,
        rng.standard_normal((steps, 16), np.float32),
        rng.standard_normal((steps, 2)),
        rng.integers(0, 2, 20 * steps).astype(bool) if maybe else None,
    )


def test_large_arrays_become_the_same_bytes() -> None:
    """Alone, where the buffers are copied once, and beside small ones: whatever lies in memory how, bytes are equal."""
    odd = clip(1100)
    odd.pixels = np.asfortranarray(odd.pixels)
    odd.sound = odd.sound[::-1]
    odd.maybe = np.repeat(odd.maybe, 2, axis=2)[:, :, ::2]
    odd.signal, odd.marks = np.asfortranarray(odd.signal), odd.marks[::-1]
    assert min(odd.signal.nbytes, odd.marks.nbytes) > LARGE
    schema, small = sr.Schema.of(Clip), [clip(number % 4, maybe=number % 3 > 0) for number in range(99)]
    for large in (clip(1200), clip(1050, maybe=False), odd):
        [alone] = schema.encode_batch([large])
        together = schema.encode_batch([*small, large])
        assert together == [*schema.encode_batch(small), alone]
        assert schema.decode_batch(together) == [*small, large]


def test_columns_of_large_values_become_the_same_bytes(tmp_path: Path) -> None:
    """What write_batch cuts out of one array is what each record's own array gives."""
    clips = [clip(3), clip(0), clip(5), clip(1)]
    given = {}
    for field in sr.Schema.of(Clip).fields:
        values = [getattr(item, field.name) for item in clips]
        is_context = field.kind == "context"
        given[field.name] = (
            np.stack(values) if is_context else (np.concatenate(values), np.array(list(map(len, values))))
        )
    with sr.Writer(tmp_path / "columns", Clip) as writer:
        writer.write_batch(given)
    sr.write(clips, tmp_path / "records", schema=Clip)
    shards = [tmp_path / name / "train" / "train-00000-of-00001.tfrecord" for name in ("columns", "records")]
    assert shards[0].read_bytes() == shards[1].read_bytes()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros((300, 16)), None),
        (np.zeros((300, 16), ">f4"), None),
        ([[0.0] * 16] * 300, None),
        (np.zeros((300, 15), np.float32), "shape"),
        (np.zeros(16, np.float32), "shape"),
        (np.full((300, 16), 0.1), "float32"),
        (np.zeros((300, 16), object), None),
    ],
    ids=["float64", "big-endian", "list", "narrow", "flat", "inexact", "objects"],
)
@pytest.mark.parametrize("storage", ["auto", "buffer"])
@pytest.mark.parametrize("alone", [False, True])
def test_arrays_of_another_kind_are_looked_at(value: Any, message: str | None, alone: bool, storage: Any) -> None:
    """What is not exactly as declared goes the way of all values: converted where that is exact, else an error."""
    rows = attrs.make_class("Rows", {"x": sr.feature_list("float32", shape=(16,), storage=storage)})
    schema, good = sr.Schema.of(rows), rows(np.ones((300, 16), np.float32))
    bad = rows(np.zeros((300, 16), np.float32))
    bad.x = value
    records = [bad] if alone else [good, bad]
    if message is None:
        assert (schema.decode_batch(schema.encode_batch(records))[-1].x == 0).all()
        return
    with pytest.raises(sr.RecordError, match=message) as caught:
        schema.encode_batch(records)
    assert caught.value.position == len(records) - 1
