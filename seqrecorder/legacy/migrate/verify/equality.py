"""What functions gave, and whether that is equal: in the order where that was fixed, as records where it was not."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator


_ROUNDING = 1e-5


def compare(old: list[Any], new: list[Any], *, ordered: bool, records: int, most: int, axis: int = 0) -> str:
    """Return in words how batches are equal.

    Args:
        old: each a list of arrays.
        new: likewise.
        ordered: whether the order was fixed.
        records: how many there are in an epoch.
        most: how many batches are taken of an endless pipeline.
        axis: of the batches, on which the records are.

    Raises:
        AssertionError: they are not.
    """
    sizes = [[_size(part) for part in batch] for batch in old], [[_size(part) for part in batch] for batch in new]
    assert len(old) == len(new), f"{len(old)} batches became {len(new)}"  # noqa: S101 - the caller catches it
    alike = ordered or all(size == sizes[0][0] for size in sizes[0][:-1])  # else each record has its own size
    assert sizes[0] == sizes[1] or not alike, f"batches of {sizes[0][-1]} became batches of {sizes[1][-1]}"  # noqa: S101
    parts = {len(batch) for batch in (*old, *new)}
    assert len(parts) <= 1, f"batches of {len(old[0])} tensors became batches of {len(new[0])}"  # noqa: S101
    pairs = [pair for x, y in zip(old, new, strict=True) for pair in zip(x, y, strict=True)]
    if all(_same(a, b) for a, b in pairs):
        return f"{len(old)} batches equal"
    if all(_close(a, b) for a, b in pairs):
        return f"{len(old)} batches equal but for the rounding of floats"
    assert not ordered, "the batches hold other values, or in another order"  # noqa: S101
    rows = collections.Counter(_rows(old, axis)), collections.Counter(_rows(new, axis))
    if len(old) == most:
        # Endless and shuffled: how often each record came so far is a matter of chance.
        other = _unmatched(list(set(rows[0]) - set(rows[1])), list(set(rows[1]) - set(rows[0])))
        assert other == ([], []), "the batches hold other records"  # noqa: S101
        return f"{len(old)} batches of the same records"
    # Unless all were given, it is chance which records the last batch would have had, and lacks.
    lacking = 0 if sum(rows[0].values()) % records == 0 else max([*np.shape(p), 0, 0][axis] for b in old for p in b) - 1
    missing, _ = _unmatched(list((rows[0] - rows[1]).elements()), list((rows[1] - rows[0]).elements()))
    assert len(missing) <= lacking, "the batches hold other records"  # noqa: S101
    return f"{len(old)} batches with the same records, in an order that was left to chance"


def brief(error: BaseException) -> str:
    """Return an error in one line."""
    lines = str(getattr(error, "message", None) or error).strip().splitlines()
    # AutoGraph puts the place first, and the error last.
    return f"{type(error).__name__}: {lines[-1 if lines[0].endswith(':') else 0].strip() if lines else ''}"


def structure(result: Any) -> str:
    """Return in words how a result is put together.

    >>> structure({"a": [1, 2], "b": (3, None)})
    '{a: [., .], b: (., .)}'
    """
    if isinstance(result, dict):
        return f"{{{', '.join(f'{key}: {structure(result[key])}' for key in sorted(result))}}}"
    if isinstance(result, (list, tuple)):
        parts = ", ".join(map(structure, result))
        return f"[{parts}]" if isinstance(result, list) else f"({parts})"
    return "."


def flat(result: Any) -> list[Any]:
    """Return what a result holds; that of objects too, by their attributes' names."""
    import tensorflow as tf

    found = []
    for item in tf.nest.flatten(result):
        plain = type(item).__module__ == "migrated" and hasattr(item, "__dict__")
        found += flat(dict(sorted(vars(item).items()))) if plain else [item]
    return found


def _size(part: Any) -> int:
    return len(part) if np.ndim(part) else 0


def _same(one: Any, other: Any) -> bool:
    one, other = np.asarray(one), np.asarray(other)
    floats = one.dtype.kind == "f" and other.dtype.kind == "f"
    return one.dtype == other.dtype and one.shape == other.shape and np.array_equal(one, other, equal_nan=floats)


def _close(one: Any, other: Any) -> bool:
    """Whether arrays differ in the last bits of floats at most, which is for the optimiser of a graph to decide."""
    one, other = np.asarray(one), np.asarray(other)
    if one.dtype != other.dtype or one.shape != other.shape or one.dtype.kind != "f":
        return _same(one, other)
    return np.allclose(one, other, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True)


def _unmatched(old: list[Any], new: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the records of each side for which the other has none that is close."""
    left = list(new)
    missing = []
    for row in old:
        found = next((other for other in left if _alike(row, other)), None)
        if found is None:
            missing.append(row)
        else:
            left.remove(found)
    return missing, left


def _alike(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(map(_near, one, other))


def _near(one: tuple[str, Any], other: tuple[str, Any]) -> bool:
    if one == other or one[0] != other[0] or "f" not in one[0]:
        return one == other
    return _close(*(np.frombuffer(data, kind) for kind, data in (one, other)))


def _rows(batches: list[Any], axis: int) -> Iterator[tuple[Any, ...]]:
    """Yield the records of batches, which an axis has, without their padding."""
    for batch in batches:
        parts = [np.moveaxis(np.asarray(part), axis, 0) if axis else np.asarray(part) for part in batch]
        number = min(map(_size, parts))
        if number and not any(len(part) % number for part in parts):  # some are reshaped to several rows for each
            parts = [part.reshape(number, -1) for part in parts]
            for index in range(number):
                yield tuple(_stripped(part[index]) for part in parts)
        else:
            yield tuple(_stripped(part) for part in parts)


def _stripped(value: Any) -> tuple[str, Any]:
    """Return the dtype and what there is before the last zeros; of numbers the bytes, which are quick to compare."""
    flat = np.ravel(value)
    flat = flat[: max(np.flatnonzero(flat)[-1:], default=-1) + 1]
    return flat.dtype.str, tuple(flat.tolist()) if flat.dtype.hasobject else flat.tobytes()
