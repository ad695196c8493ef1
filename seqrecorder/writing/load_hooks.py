"""Calls of the hooks `load` and `split` of a record class, and checks of their parameters."""

from __future__ import annotations

import collections
import inspect
from typing import TYPE_CHECKING, Any

from seqrecorder.errors import OptionError, RecordError, SkipRecord, did_you_mean
from seqrecorder.writing.columns import CannotWait, snapshotter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from seqrecorder.schema.schema import Schema


def check_params(owner: type, params: Mapping[str, Any], hooks: Sequence[str] = ("load", "split")) -> None:
    """Raise `OptionError` for a parameter that no hook of the class accepts."""
    parameters = [parameter for name in hooks for parameter in _parameters(owner, name)]
    for name in params:
        if not _accepts(parameters, name):
            hint = did_you_mean(name, [parameter.name for parameter in parameters])
            raise OptionError(f"params: no hook of {owner.__name__} ({', '.join(hooks)}) takes {name!r}{hint}")


def hook_params(record_class: type, name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Select the parameters that a hook accepts."""
    parameters = _parameters(record_class, name)
    return {key: value for key, value in params.items() if _accepts(parameters, key)}


def _parameters(record_class: type, name: str) -> list[inspect.Parameter]:
    """List the parameters of a hook, except `*args` and the first parameter, which is the record or row."""
    hook = getattr(record_class, name, None)  # None, or a field of that name
    parameters = list(inspect.signature(hook).parameters.values())[1:] if callable(hook) else []
    return [parameter for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL]


def _require_params(record_class: type, name: str, params: Mapping[str, Any]) -> None:
    """Raise `OptionError` if a hook needs a parameter that is not passed."""
    for each in _parameters(record_class, name):
        if each.default is each.empty and each.kind is not each.VAR_KEYWORD and each.name not in params:
            hook = f"{record_class.__name__}.{name}"
            raise OptionError(f"params: {hook} needs {each.name!r}; pass params={{{each.name!r}: ...}}") from None


def _accepts(parameters: Sequence[inspect.Parameter], name: str) -> bool:
    return any(parameter.name == name or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


class Hooks:
    """Hooks `load` and `split` of a record class, which turn a source record into the records to encode.

    Args:
        schema: schema of the class.
        params: keyword arguments of the hooks.
        reasons: list that collects the reasons why hooks skipped sources.
        splits: whether to run `split`, if the class has it.

    Attributes:
        loads: whether the class has `load`.
        splits: whether `split` runs.
    """

    def __init__(self, schema: Schema, params: Mapping[str, Any], reasons: list[str], *, splits: bool = True) -> None:
        self._schema, self._reasons, self._snapshot = schema, reasons, snapshotter(schema)
        self._params = {name: hook_params(schema.record_class, name, params) for name in ("load", "split")}
        self.loads, has_split = (callable(getattr(schema.record_class, name, None)) for name in ("load", "split"))
        self.splits = splits and has_split
        self._numbered = [f.name for f in sorted(schema.fields, key=lambda f: f.chunk) if f.key or f.chunk]

    def run(self, position: int, source: Any) -> collections.deque[Any]:
        """Run the hooks of one source, and return the resulting records.

        There are none if a hook skips the source.
        """
        record = source
        try:
            if self.loads:
                record = self.take_snapshot(record)
                loaded = self._call("load", position, record)
                record = record if loaded is None else loaded
            return self._call("split", position, record) if self.splits else collections.deque([record])
        except SkipRecord as skip:
            self._reasons.append(str(skip))
            return collections.deque()

    def take_snapshot(self, record: Any) -> Any:
        """Copy a record before the code of its class runs again.

        If it cannot be copied, the original is returned.
        """
        try:
            return self._snapshot(record)
        except CannotWait:  # a value does not fit its field, which encoding will report
            return record

    def _call(self, name: str, position: int, record: Any) -> Any:
        """Call a hook of a record.

        The result of `load` is returned as it is. If the hook is `split`, snapshots of the records that it makes are
        returned.
        """
        hook = getattr(record, name, None)
        if hook is None:
            raise RecordError(f"expected a {self._schema.name}, got {type(record).__name__}", position=position)
        try:
            result = hook(**self._params[name])
            if name == "load":
                return result
            if isinstance(result, (self._schema.record_class, str, bytes)) or not hasattr(result, "__iter__"):
                raise TypeError(f"expected records (yield them one by one), got {type(result).__name__}")
            chunks = collections.deque(map(self.take_snapshot, result))
            known = {str([getattr(chunk, field, None) for field in self._numbered]) for chunk in chunks}
            if len(self._numbered) == 2 and len(known) < len(chunks):  # noqa: PLR2004 - the key and the number
                raise ValueError(f"two chunks have the same key and {self._numbered[-1]!r}; give each its own number")
        except SkipRecord:
            raise
        except Exception as error:
            _require_params(type(record), name, self._params[name])
            raise hook_error(self._schema, name, record, position, error) from error
        return chunks


def hook_error(schema: Schema, name: str, record: Any, position: int, error: Exception) -> RecordError:
    """Build the error that reports the failure of a hook."""
    return RecordError(
        f"{schema.name}.{name} failed: {type(error).__name__}: {error} (raise"
        " seqrecorder.SkipRecord in load or split to leave the record out)",
        position=position,
        key=getattr(record, schema.key_field.name, None) if schema.key_field else None,
    )
