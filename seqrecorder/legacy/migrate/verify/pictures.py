"""Pictures made up for functions that read some, and lists of their names."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from seqrecorder.legacy.migrate.verify.stand_ins import PICTURES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SIDES, LARGE = (48, 48, 3), (320, 320, 3)
"""Of pictures of which nothing is said, and of those for functions that cut much out of them."""


def write_pictures(directory: Path, size: tuple[int, ...] = SIDES, gray: tuple[int, ...] = SIDES) -> None:
    """Write pictures, of which functions that read whole files are given the names.

    Args:
        directory: where.
        size: of most.
        gray: of those that are labels of others.
    """
    for number in range(PICTURES):
        (directory / f"picture-{number}.jpg").write_bytes(picture(number, size))
        (directory / f"picture-{number}-1.jpg").write_bytes(picture(number, gray))


def write_lists(paths: Iterable[Path], *, labels: bool) -> None:
    """Write lists of pictures: some functions look, while they build their graph, whether there are files, or read.

    Args:
        paths: of the files.
        labels: whether a number stands beside each picture; else another picture does.
    """
    for path in paths:
        rows = [(f"picture-{n}.jpg", n if labels else f"picture-{n}-1.jpg") for n in range(PICTURES)]
        path.write_text("".join(f"{picture} {other}\n" for picture, other in rows))


@functools.cache
def picture(number: int, size: tuple[int, ...]) -> bytes:
    """Return the bytes of one of the pictures."""
    import tensorflow as tf

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return bytes(session.run(tf.io.encode_jpeg(np.random.default_rng(number).integers(0, 255, size, np.uint8))))
