"""What a decoder raises of many records: which of them is broken, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from seqrecorder.errors import FieldProblem

    Check = Callable[[NDArray[np.bool_]], None]


class Broken(Exception):  # noqa: N818 - not for users: the decoder makes an error of it
    """A record that cannot be decoded.

    Args:
        record: its number.
        field: the name of the field; "" where it is no message.
        message: what was expected and what came.
        problem: what is wrong with the value; None where nothing is to be said beside the message.
    """

    def __init__(self, record: int, field: str, message: str, problem: FieldProblem | None = None) -> None:
        super().__init__(message)
        self.record, self.field, self.message, self.problem = record, field, message, problem
