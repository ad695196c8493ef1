"""Columns that a caller gives: checked, and brought into the form in which records are encoded."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.arrow import column_of_array, column_of_sparse, columns_of_table, flat_array, is_arrow, outward
from seqrecorder.codec.columns import Column, check_alignment, collect, with_texts
from seqrecorder.errors import FieldProblem, OptionError, RecordError, did_you_mean
from seqrecorder.schema.conversion import Mismatch, exact_array, require_utf8

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field
    from seqrecorder.schema.schema import Schema

_LENGTHS = {
    (False, False): "values of shape (N, ...)",
    (False, True): "(values, lengths), the values of all records flat",
    (True, False): "(values, steps), the values of all steps flat, and the steps of each record",
    (True, True): "(values, lengths, steps): the values flat, how many each step has, and the steps of each record",
}


def given_columns(schema: Schema, given: Any, *, cast: bool = False) -> tuple[dict[str, Column], int]:
    """Return columns as `gather` makes them of records, and the number of records.

    Args:
        schema: what the records are.
        given: a mapping of field to column, or a table; see `Writer.write_batch`.
        cast: whether numbers of arrays become the declared type as `cast_values` says.

    Raises:
        OptionError: the columns are not of the form that their fields ask for, or of different sizes.
        RecordError: values do not fit their fields; of the first record with such, all bad fields are named.
    """
    if is_arrow(given):
        given = columns_of_table(given)
    if not isinstance(given, Mapping):
        raise OptionError(f"columns: expected a mapping of field to column, got {type(given).__name__}{_advice(given)}")
    given = _paired(schema, given)
    names = [field.name for field in schema.fields]
    for name in given:
        if name not in names:
            raise OptionError(
                f"columns: {schema.name} has no field {name!r}{did_you_mean(str(name), names)}; give no column but "
                f"{', '.join(names)}"
            )
    problems: dict[int, list[FieldProblem]] = {}
    columns: dict[str, Column] = {}
    broken = False
    for field in schema.fields:
        if given.get(field.name) is not None:
            try:
                column = _column(field, given[field.name], problems, cast=cast)
            except Mismatch as mismatch:  # a null inside of a record
                column = None
                _add(field, mismatch, mismatch.index, problems)
            broken |= column is None
            columns |= {} if column is None else {field.name: column}
    size = _size(columns) if columns or not broken else 0
    if not broken:
        columns |= {field.name: _absent(field, size) for field in schema.fields if field.name not in columns}
        check_alignment(schema, columns, size, problems)
    if problems:
        position, key = min(problems), schema.key_field
        found = _at(columns[key.name], position) if key is not None and key.name in columns else None
        raise RecordError(f"{schema.name} cannot be encoded", position=position, key=found, problems=problems[position])
    return columns, size


def _at(column: Column, position: int) -> Any:
    """Return the value of a record in a column of scalars, None where it has none."""
    if column.present is None:
        return column.values[position]
    return column.values[int(np.sum(column.present[:position]))] if column.present[position] else None


def _advice(given: Any) -> str:
    if hasattr(given, "with_format"):  # of the Hugging Face Hub's library
        return "; write and write_all take it as it is; here, give its Arrow tables: with_format('arrow').iter(10_000)"
    return "; records go to `write` and `write_all`" if isinstance(given, (list, tuple)) else ""


# One column ----------------------------------------------------------------------------------------------------------


def _paired(schema: Schema, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return columns of which those of the indices and the values of sparse fields are pairs."""
    pairs = {field.name: (f"{field.name}/indices", f"{field.name}/values") for field in schema.fields if field.sparse}
    pairs = {name: parts for name, parts in pairs.items() if all(part in given for part in parts)}
    if not pairs:
        return given
    paired = {part for parts in pairs.values() for part in parts}
    left = {name: column for name, column in given.items() if name not in paired}
    return {**left, **{name: tuple(given[part] for part in parts) for name, parts in pairs.items()}}


def _column(field: Field, given: Any, problems: dict[int, list[FieldProblem]], *, cast: bool = False) -> Column | None:
    features = None
    if field.sparse is not None and isinstance(given, tuple) and len(given) == 2 and all(map(is_arrow, given)):  # noqa: PLR2004 - a pair
        given = column_of_sparse(field, *given, cast=cast)
    elif is_arrow(given):
        given = column_of_array(field, given, cast=cast)
        features = given.features  # of texts of Arrow's, which fit
    if isinstance(given, Column):
        values, lengths, column = (
            given.values,
            [part for part in (given.counts, given.steps) if part is not None],
            given,
        )
    else:
        values, lengths = _values_and_lengths(field, given)
        column = Column(None)
    if field.sparse is not None and column.indices is None:
        raise OptionError(f"columns: field {field.name!r} is sparse: give a seqrecorder.Column with its indices")
    checked = [_lengths(field, part) for part in lengths]
    try:
        exact = _exact(field, values) if features is None else Column(values, features=features)
    except Mismatch as mismatch:
        _report(field, mismatch, checked, column.present, problems)
        return None
    except (TypeError, ValueError, OverflowError) as error:  # what numpy cannot take at all
        raise OptionError(f"columns: field {field.name!r}: expected {field.element.name}, got {error}") from error
    found = exact.values.shape
    if found[1:] != field.rest or not found:
        shape = ", ".join(["n", *map(str, field.rest)])
        raise OptionError(f"columns: field {field.name!r}: expected values of shape ({shape}), got {found}")
    _check_sizes(field, found[0], checked, column.present, problems)
    has_counts = field.is_ragged or field.sparse is not None
    return attrs.evolve(
        column,
        values=exact.values,
        features=exact.features,
        counts=checked[0] if has_counts else None,
        steps=checked[-1] if field.is_list else None,
    )


def _exact(field: Field, values: Any) -> Column:
    """Return a column of the values alone, as the field declares them.

    Raises:
        Mismatch: one does not fit.
    """
    if not field.element.is_text:
        return Column(exact_array(values, field.element))
    # What makes features of texts checks them as well.
    objects = isinstance(values, np.ndarray) and values.dtype == object
    column = with_texts(field, Column(values if objects else exact_array(values, field.element)))
    if column is not None:
        return column
    exact = exact_array(values, field.element)
    if field.element.name == "str":
        require_utf8(exact)
    return Column(exact)


def _check_sizes(
    field: Field,
    values: int,
    lengths: list[NDArray[np.int64]],
    present: NDArray[np.bool_] | None,
    problems: dict[int, list[FieldProblem]],
) -> None:
    inner = values
    for part in lengths:  # from the values outwards
        if int(part.sum()) != inner:
            raise OptionError(
                f"columns: field {field.name!r}: expected lengths that add up to {inner}, got {int(part.sum())}"
            )
        inner = part.size
    if present is None:
        return
    if int(np.sum(present)) != inner:
        raise OptionError(
            f"columns: field {field.name!r}: {inner} records have values, and {np.sum(present)} are present"
        )
    if not field.optional and not np.all(present):
        expected = "a value (fill it, leave the record out, or declare optional=True)"
        _add(field, Mismatch(expected, "None"), (int(np.argmin(present)),), problems)


def _values_and_lengths(field: Field, given: Any) -> tuple[Any, list[Any]]:
    expected = int(field.is_list) + int(field.is_ragged)
    if not expected:
        return given, []
    if not isinstance(given, tuple) or len(given) != expected + 1:
        raise OptionError(
            f"columns: field {field.name!r}: expected {_LENGTHS[field.is_list, field.is_ragged]}, got "
            f"{type(given).__name__}{f' of {len(given)}' if isinstance(given, tuple) else ''}"
        )
    values, *lengths = given
    lengths = [flat_array(field, part) if is_arrow(part) else part for part in lengths]
    if is_arrow(values):
        try:
            values = flat_array(field, values)
        except Mismatch as mismatch:
            inner = [_lengths(field, part) for part in lengths]
            raise Mismatch(mismatch.expected, mismatch.got, outward(mismatch.index, inner, None)) from None
    return values, lengths


def _lengths(field: Field, given: Any) -> NDArray[np.int64]:
    lengths = np.asarray(given)
    if np.ma.is_masked(given):
        raise OptionError(f"columns: field {field.name!r}: expected a vector of lengths, got masked ones")
    if lengths.ndim != 1 or (lengths.size and lengths.dtype.kind not in "iu"):
        raise OptionError(
            f"columns: field {field.name!r}: expected a vector of lengths, got {lengths.dtype} of shape {lengths.shape}"
        )
    if lengths.size and int(lengths.min()) < 0:
        raise OptionError(f"columns: field {field.name!r}: a length is {int(lengths.min())}")
    return lengths.astype(np.int64, copy=False)


def _report(
    field: Field,
    mismatch: Mismatch,
    lengths: list[NDArray[np.int64]],
    present: NDArray[np.bool_] | None,
    problems: dict[int, list[FieldProblem]],
) -> None:
    """Name the record of the value that does not fit, and where in the record it is."""
    if not mismatch.index or (lengths and mismatch.index[0] >= int(lengths[0].sum())):
        raise OptionError(f"columns: field {field.name!r}: {mismatch}")
    _add(field, mismatch, outward(mismatch.index, lengths, present), problems)


def _add(field: Field, mismatch: Mismatch, place: tuple[int, ...], problems: dict[int, list[FieldProblem]]) -> None:
    problem = FieldProblem(field.name, place[1:], mismatch.expected, mismatch.got)
    problems.setdefault(place[0], []).append(problem)


def _records(column: Column) -> int:
    if column.present is not None:
        return len(column.present)
    for lengths in (column.steps, column.counts):
        if lengths is not None:
            return len(lengths)
    return len(column.values)


def _size(columns: Mapping[str, Column]) -> int:
    sizes = {name: _records(column) for name, column in columns.items()}
    if len(set(sizes.values())) > 1:
        said = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise OptionError(f"columns: expected as many records in each, got {said}")
    if not sizes:
        raise OptionError("columns: there is none to tell the number of records")
    return next(iter(sizes.values()))


def _absent(field: Field, size: int) -> Column:
    """Return the column of a field that is not given: of defaults, or of no values."""
    if field.has_default:
        column = collect(field, [field.exact(copy.deepcopy(field.default))] * size)
        if column is not None:
            return column
    if not field.optional:
        raise OptionError(f"columns: field {field.name!r} is missing, and has no default")
    lengths = np.empty(0, np.int64)
    return Column(
        np.empty((0, *field.rest), field.element.numpy),
        steps=lengths if field.is_list else None,
        counts=lengths if field.is_ragged or field.sparse is not None else None,
        indices=lengths if field.sparse is not None else None,
        present=np.zeros(size, bool),
    )
