"""Drafted classes, pasted where a user would paste them."""

import attrs
import numpy as np

import seqrecorder as sr


def pasted(text: str) -> type:
    """Return the class that a text defines, where a user would paste it."""
    namespace = {"__name__": "pasted", "np": np, "sr": sr}
    exec(text, namespace)  # noqa: S102 - the claim is that it is Python
    return next(value for value in namespace.values() if isinstance(value, type) and attrs.has(value))
