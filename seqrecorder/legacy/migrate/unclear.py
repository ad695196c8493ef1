"""What is not statically clear."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast


class Unclear(Exception):  # noqa: N818 - a signal inside this package: what is not clear stays as it is
    """Something that is not statically clear, so that it is left as it is.

    Attributes:
        code: a short name of the reason.
        reason: in words.
        node: where.
    """

    def __init__(self, code: str, reason: str, node: ast.AST) -> None:
        super().__init__(f"{code}: {reason}")
        self.code, self.reason, self.node = code, reason, node
