"""What the arguments of the command line stand for: text to values, or an error that says what is expected."""

from __future__ import annotations

import argparse
from typing import Any


def pair(text: str) -> tuple[str, str]:
    """Return NAME and VALUE of `NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, got {text!r}")
    return name, value


def share(text: str) -> tuple[str, float]:
    """Return the name of a split and its share."""
    name, value = pair(text)
    try:
        return name, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected NAME=SHARE, such as eval=0.1, got {text!r}") from None


def shares(text: str) -> list[tuple[str, float]]:
    """Return the names of splits and their shares."""
    return [share(part.strip()) for part in text.split(",")]


def names(text: str) -> list[str]:
    """Return names that stand between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def shape(text: str) -> tuple[str, Any]:
    """Return a feature and its shape, None for `?`."""
    name, value = pair(text)
    sizes = [size.strip() for size in value.split(",")]
    if not all(size == "?" or size.isdecimal() for size in sizes):
        raise argparse.ArgumentTypeError(f"expected FEATURE=SIZES, such as image=28,28 or image=?,3, got {text!r}")
    return name, tuple(None if size == "?" else int(size) for size in sizes)


def records(text: str) -> int | None:
    """Return a number of records; None for `all`."""
    return None if text == "all" else positive(text)


def class_name(text: str) -> str:
    """Return `MODULE:CLASS`, which looks like that."""
    module, colon, name = text.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise argparse.ArgumentTypeError(f"expected MODULE:CLASS, got {text!r}")
    return text


def positive(text: str) -> int:
    """Return a number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of 1 or more, got {text!r}")
    return int(text)


def of_writing(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of `write` that `convert` takes."""
    names = ("seed", "shards", "compression", "shuffle", "overwrite")
    return {"splits": dict(options.shares) or None, **{name: getattr(options, name) for name in names}}
