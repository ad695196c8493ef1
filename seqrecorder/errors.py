"""Every exception that seqrecorder raises on purpose.

    SeqrecorderError(Exception)
    +-- SchemaError(TypeError)                a class or declaration that cannot be stored
    |   +-- SchemaMismatchError               a class that does not match a dataset
    +-- RecordError(ValueError)               a record that cannot be encoded or decoded
    |   +-- LimitExceededError                a record that exceeds a limit of the format
    |   +-- DuplicateKeyError                 two records with the same key
    +-- OptionError(ValueError)               an invalid argument
    +-- RecordNotFoundError(IndexError, KeyError)   no record at a position, or with a key
    +-- SourceError(ValueError)               a source of records that failed, such as a line of a CSV file
    +-- LiftError(ValueError)                 a TensorFlow 1 input pipeline that cannot be translated
    +-- DatasetError(OSError)                 a problem with a directory or a file
        +-- DatasetExistsError(FileExistsError)
        +-- DatasetNotFoundError(FileNotFoundError)
        +-- ChangedError                      a dataset that another writer has changed in the meantime
        +-- ManifestError                     a manifest that is damaged, incomplete, or of a newer format
        +-- ShardError                        a problem with one shard
            +-- ShardWriteError               a shard that could not be written
            +-- ShardReadError                a shard that is missing, damaged or of another format or compression

    SkipRecord(Exception)                     not an error: raised by a hook to leave its record out

Each class derives from the builtin exception that callers would already catch, and has the facts in its message as
attributes.
"""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_LONGEST = 2000  # characters; a longer message scrolls the cause off the screen
_TAIL = 500  # characters to keep at the end of a cut message, where the advice stands


def printable(text: object) -> str:
    r"""Escape control characters, including line ends, that a terminal, browser or editor would act on.

    >>> print(printable("a\x1b[2J"))
    a\x1b[2J
    """
    plain = str(text)
    if plain.isprintable():
        return plain
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in plain)


def _message(text: str) -> str:
    """Escape a message line by line, and cut it in the middle if it is too long."""

    def cut(message: str) -> str:
        if len(message) <= _LONGEST:
            return message
        gap = f" [... {len(message) - _LONGEST + 100:,} characters ...] "
        return message[: _LONGEST - _TAIL - len(gap)] + gap + message[-_TAIL:]

    return cut("\n".join(map(printable, cut(text).split("\n"))))


class SeqrecorderError(Exception):
    """Base class of all errors that seqrecorder raises on purpose.

    The message has at most 2,000 characters and no control characters other than line ends, whatever the data.
    """

    def __str__(self) -> str:
        return _message(self._text())

    def _text(self) -> str:
        return super().__str__()


class SkipRecord(Exception):  # noqa: N818 - for control flow, like StopIteration
    """Signal by which `from_csv_row`, `load` or `split` leaves out its record.

    Records that are left out are counted and reported.
    """


class SchemaError(SeqrecorderError, TypeError):
    """A class or a field declaration that cannot be stored."""


class SchemaMismatchError(SchemaError):
    """A record class that does not match a dataset.

    Attributes:
        differences: one line per field that does not match.
    """

    def __init__(self, message: str, differences: Sequence[str] = ()) -> None:
        super().__init__("\n  ".join([message, *differences]))
        self.differences = tuple(differences)


class FieldProblem:
    """A problem with one field of one record.

    Attributes:
        field: name of the field.
        index: position inside the field's value, outermost first; `()` for the whole value.
        expected: description of the values that the declaration allows.
        got: description of the actual value or type.
    """

    __slots__ = ("expected", "field", "got", "index")

    def __init__(self, field: str, index: tuple[int, ...], expected: str, got: str) -> None:
        self.field, self.index, self.expected, self.got = field, index, expected, got

    def __str__(self) -> str:
        where = self.field + "".join(f"[{i}]" for i in self.index)
        return f"{where}: expected {self.expected}, got {self.got}"

    def __repr__(self) -> str:
        return f"FieldProblem({self})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FieldProblem):
            return NotImplemented
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class RecordError(SeqrecorderError, ValueError):
    """A record that cannot be encoded or decoded.

    The message lists all its bad fields.

    Attributes:
        position: index of the record in its source; None if unknown.
        key: value of the record's key field; None if unknown.
        problems: one `FieldProblem` per bad field.
    """

    def __init__(
        self, message: str, *, position: int | None = None, key: object = None, problems: Iterable[FieldProblem] = ()
    ) -> None:
        self.message, self.position, self.problems = message, position, tuple(problems)
        # Convert numpy integers, whose repr would show the name of their type.
        self.key = key if isinstance(key, bool) or not isinstance(key, numbers.Integral) else int(key)
        super().__init__(message)

    def _text(self) -> str:
        where = "record" if self.position is None else f"record {self.position}"
        if self.key is not None:
            where += f" (key {self.key!r})"
        return "\n  ".join([f"{where}: {self.message}", *map(str, self.problems)])

    def __reduce__(self) -> tuple[object, ...]:
        # Errors are pickled on the way from a worker process to its parent.
        return (_rebuild_record_error, (type(self), self.message, self.position, self.key, self.problems))


def _rebuild_record_error(
    kind: type[RecordError], message: str, position: int | None, key: object, problems: tuple[FieldProblem, ...]
) -> RecordError:
    return kind(message, position=position, key=key, problems=problems)


class LimitExceededError(RecordError):
    """A record that exceeds a limit of the format, such as 2 GiB, so that no reader could load it."""


class DuplicateKeyError(RecordError):
    """Two records with the same key."""


class OptionError(SeqrecorderError, ValueError):
    """An argument that is invalid by itself, or in combination with other arguments."""


class RecordNotFoundError(SeqrecorderError, IndexError, KeyError):
    """A position or a key for which a selection has no record."""

    _text = Exception.__str__  # KeyError would put quotes around the message


class SourceError(SeqrecorderError, ValueError):
    """A source of records that failed, such as a line of a CSV file."""


class LiftError(SeqrecorderError, ValueError):
    """A TensorFlow 1 input pipeline that cannot be translated as it stands.

    Attributes:
        reason: explanation of why the pipeline cannot be translated.
        advice: change that would help.
        op: name of the graph operation in question; None if there is none.
        location: file and line that created the operation, such as `script.py, line 7`; None if unknown.
    """

    def __init__(self, reason: str, *, advice: str, op: str | None = None, location: str | None = None) -> None:
        super().__init__(reason, advice, op, location)
        self.reason, self.advice, self.op, self.location = reason, advice, op, location

    def _text(self) -> str:
        where = "" if self.op is None else f"{self.op}{'' if self.location is None else f' ({self.location})'}: "
        return f"{where}{self.reason}; {self.advice}"

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_lift_error, (self.reason, self.advice, self.op, self.location))


def _rebuild_lift_error(reason: str, advice: str, op: str | None, location: str | None) -> LiftError:
    return LiftError(reason, advice=advice, op=op, location=location)


class DatasetError(SeqrecorderError, OSError):
    """A problem with a dataset's directory or one of its files.

    Attributes:
        path: file or directory, as a string; None if unknown.
    """

    def __init__(self, message: str, *, path: object = None) -> None:
        super().__init__(message)
        self.message = message
        self.path = None if path is None else str(path)

    def _text(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        # OSError keeps its own attributes outside `args` and the instance's dictionary.
        facts = (type(self), self.message, self.path, self.errno, self.strerror)
        return (_rebuild_dataset_error, facts)


def _rebuild_dataset_error(
    kind: type[DatasetError], message: str, path: str | None, number: int | None, strerror: str | None
) -> DatasetError:
    error = kind(message, path=path)
    error.errno, error.strerror = number, strerror
    return error


class DatasetExistsError(DatasetError, FileExistsError):
    """A destination that already exists."""


class DatasetNotFoundError(DatasetError, FileNotFoundError):
    """A dataset, split or file that does not exist."""


class ChangedError(DatasetError):
    """A dataset that another writer changed while this process was writing.

    Nothing was published; write again.
    """


class ManifestError(DatasetError):
    """A manifest that is damaged, incomplete, or of a newer format."""


class ShardError(DatasetError):
    """A problem with one shard."""


class ShardWriteError(ShardError):
    """A shard that could not be written.

    Nothing was published.
    """


class ShardReadError(ShardError):
    """A shard that is missing or damaged, or has a different message type or compression."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error message, without the prefix and suffix that TensorFlow adds.

    >>> first_line(ValueError("{{function_node __wrapped__X}} corrupted record at 12 [Op:IteratorGetNext]"))
    'corrupted record at 12'
    """
    import re

    text = str(getattr(error, "message", None) or error)
    # Errors of sessions begin with a traceback of the graph, and name the cause below the line `Node: ...`.
    cause = re.match(r"(?m)Graph execution error:(?s:.*?)^Node: .*\n(?:\d+ root .*\n\s*\(0\) \w+:\s+)?(.+)", text)
    lines = (cause[1] if cause else text).splitlines() or [type(error).__name__]
    # TensorFlow escapes the quotes in the strings of an assertion.
    return re.sub(r"\{\{function_node [^}]*\}\}\s*|\s*\[Op:\w+\](?: name: ?)?", "", lines[0]).replace("\\'", "'")


def did_you_mean(name: object, candidates: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for the closest candidate, or an empty string.

    >>> did_you_mean("phonse", ["mfcc", "phones"])
    " (did you mean 'phones'?)"
    """
    import difflib

    close = difflib.get_close_matches(str(name), list(candidates), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def check_count(name: str, value: object, least: int = 1) -> int:
    """Check that a count is an int of `least` or more, and return it.

    Raises:
        OptionError: the value is anything else.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise OptionError(f"{name}: expected an int of {least} or more, got {value!r}")
    return value
