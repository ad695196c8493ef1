"""Names of TensorFlow 0.x, which TensorFlow 1.0 renamed, for scripts that are older than that.

The renamings are those of the release notes of TensorFlow 1.0.0.
"""

from __future__ import annotations

import operator
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

RENAMED = {
    **{f"{kind}_summary": f"summary.{kind}" for kind in ("audio", "histogram", "image", "scalar")},
    "batch_matmul": "matmul",
    "complex_abs": "abs",
    "image.per_image_whitening": "image.per_image_standardization",
    "inv": "reciprocal",
    "listdiff": "setdiff1d",
    "merge_all_summaries": "summary.merge_all",
    "merge_summary": "summary.merge",
    "mul": "multiply",
    "neg": "negative",
    "pack": "stack",
    "select": "where",
    "sub": "subtract",
    "train.SummaryWriter": "summary.FileWriter",
    "unpack": "unstack",
}
"""Functions that have another name, and the same arguments in the same order."""

KEYWORDS = {
    "audio_summary": {"tag": "name"},
    "histogram_summary": {"tag": "name"},
    "image_summary": {"tag": "name", "max_images": "max_outputs"},
    "scalar_summary": {"tags": "name", "values": "tensor"},
}
"""What arguments of those are called now."""


def renamed(v1: Any, inside: str = "") -> types.SimpleNamespace:
    """Return what the names of TensorFlow 0.x mean, as attributes.

    Args:
        v1: `tf.compat.v1`.
        inside: the part of TensorFlow whose names these are, `train.` say; empty for TensorFlow itself.
    """
    mine = {old.removeprefix(inside): new for old, new in RENAMED.items() if old.startswith(inside)}
    found = {old: operator.attrgetter(new)(v1) for old, new in mine.items() if "." not in old}
    found |= {old: _with_old_keywords(found[old], KEYWORDS[old]) for old in found if old in KEYWORDS}
    return types.SimpleNamespace(**found)


def _with_old_keywords(function: Any, keywords: Mapping[str, str]) -> Any:
    def called(*given: Any, **named: Any) -> Any:
        return function(*given, **{keywords.get(name, name): value for name, value in named.items()})

    return called


def concat(values: Any, axis: Any, name: str = "concat") -> Any:
    """Return `tf.concat` of tensors, whose first argument was the axis before TensorFlow 1.0.

    Args:
        values: tensors; or the axis, an int.
        axis: along which; or the tensors.
        name: of the operation.
    """
    import tensorflow as tf

    values, axis = (axis, values) if isinstance(values, int) else (values, axis)
    return tf.concat(values, axis, name)


def split(value: Any, num_or_size_splits: Any, axis: Any = 0, *more: Any, **named: Any) -> Any:
    """Return `tf.split` of a tensor, whose first argument was the axis before TensorFlow 1.0.

    Args:
        value: a tensor; or the axis, an int.
        num_or_size_splits: how many parts, or their sizes.
        axis: along which; or the tensor.
        *more: `num` and `name`.
        **named: the same, by name.
    """
    import tensorflow as tf

    value, axis = (axis, value) if isinstance(value, int) else (value, axis)
    return tf.split(value, num_or_size_splits, axis, *more, **named)
