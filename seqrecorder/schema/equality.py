"""Equality of values to the bit."""

from __future__ import annotations

import numpy as np


def same_bits(left: object, right: object) -> bool:
    """Whether two values of a field agree in dtype, shape and every bit (so that a NaN equals itself).

    >>> same_bits(np.array([0.0]), np.array([-0.0])), same_bits(np.array([np.nan]), np.array([np.nan]))
    (False, True)
    """
    if isinstance(left, (np.ndarray, np.generic)) or isinstance(right, (np.ndarray, np.generic)):
        if not isinstance(left, (np.ndarray, np.generic)) or not isinstance(right, (np.ndarray, np.generic)):
            return False
        if left.dtype != right.dtype or left.shape != right.shape:
            return False
        if left.dtype == object:
            return bool(left.tolist() == right.tolist())
        return left.tobytes() == right.tobytes()
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same_bits, left, right))
    return type(left) is type(right) and bool(left == right)
