"""Helpers for the arguments of old functions: names of positional arguments, and flat lists of nested tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def by_name(signature: str, more: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Map parameter names to the positional and keyword arguments of a call.

    >>> by_name("num_epochs shuffle seed", [2], {"seed": 7})
    {'num_epochs': 2, 'seed': 7}

    Args:
        signature: the parameter names, in order, separated by spaces.
        more: the positional arguments.
        named: the keyword arguments.

    Raises:
        TypeError: there are too many arguments, or one is unknown or passed twice.
    """
    names = signature.split()
    arguments = dict(zip(names, more, strict=False))
    wrong = [*more[len(names) :], *(name for name in named if name not in names or name in arguments)]
    if wrong:
        raise TypeError(f"expected each of {', '.join(names)} at most once, and no other argument; got {wrong[0]!r}")
    return {**arguments, **named}


class Components:
    """Tensors passed to an old batching function.

    Args:
        tensors: a list, a tuple or a dict of tensors; dicts are ordered by key.
        shapes: the shapes of the tensors; None for their static shapes.

    Attributes:
        targets: the dense tensors for a dataset; sparse tensors are serialized to vectors of three strings.
    """

    def __init__(self, tensors: Any, shapes: Any = None) -> None:
        import tensorflow as tf

        self._names = sorted(tensors, key=str) if isinstance(tensors, dict) else None
        values = [tensors[name] for name in self._names] if self._names is not None else list(tensors)
        if not values:
            raise ValueError("tensors: expected at least one, got none")
        self.values = [v if isinstance(v, tf.SparseTensor) else tf.convert_to_tensor(v) for v in values]
        if shapes is not None:
            for value, shape in zip(self.values, shapes, strict=True):
                if not isinstance(value, tf.SparseTensor):
                    value.set_shape(shape)
        self.targets = [tf.io.serialize_sparse(v) if isinstance(v, tf.SparseTensor) else v for v in self.values]

    def check_shapes(self, *, dynamic_pad: bool) -> None:
        """Raise `ValueError`, as the old functions did, if the shapes are too vague for batching."""
        for value in self.targets:
            if (shape := value.shape).rank is None:
                raise ValueError(f"Cannot infer Tensor's rank: {value}; give it a shape with set_shape, or by shapes=")
            if not dynamic_pad and not shape.is_fully_defined():
                raise ValueError(f"All shapes must be fully defined: {value} has {shape}; or ask for dynamic_pad=True")

    def restore(self, batched: Any) -> list[Any]:
        """Deserialize the sparse tensors of a batch.

        Dense tensors are returned unchanged.
        """
        import tensorflow as tf

        return [
            tf.io.deserialize_many_sparse(new, old.dtype, rank=None if old.shape.rank is None else old.shape.rank + 1)
            if isinstance(old, tf.SparseTensor)
            else new
            for old, new in zip(self.values, batched, strict=True)
        ]

    def structure(self, tensors: Any) -> Any:
        """Pack tensors into the original list or dict.

        If the dict contains a single tensor, this tensor is wrapped in a list. TensorFlow 1 did this, and old code
        depends on it.
        """
        if self._names is None:
            return list(tensors)
        if len(self._names) == 1:
            return {self._names[0]: list(tensors)}
        return dict(zip(self._names, tensors, strict=True))
