"""Files of numpy's arrays and groups of HDF5, each of which is a record: `from_npz`, `from_h5`."""

from __future__ import annotations

import functools
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from seqrecorder.errors import DatasetNotFoundError, OptionError, SourceError, did_you_mean
from seqrecorder.schema.schema import Schema
from seqrecorder.sources.text_records import TextRecords
from seqrecorder.storage.paths import files_named, local_path, natural_order

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from seqrecorder.schema.field import Field
    from seqrecorder.sources.text_records import Piece

T = TypeVar("T")
_ENDINGS = (".npz", ".npy")


def from_npz(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    record_class: type[T],
    *,
    columns: Mapping[str, str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> TextRecords[T]:
    """Return a record of each `.npz` file, whose arrays are its fields, or of each `.npy` file, which is one.

    >>> import pathlib, tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Clip:
    ...     key: str = sr.context(str, key=True)
    ...     frames: np.ndarray = sr.feature_list("float32", shape=(2,))
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> np.savez(directory / "a.npz", frames=np.ones((3, 2), "float32"))
    >>> [(clip.key, clip.frames.shape) for clip in sr.from_npz(directory, Clip)]
    [('a', (3, 2))]

    The `key=True` field, if it is of text and no array has its name, is the name of the file without its ending. Arrays
    that are no field are left out. Nothing in a file is executed: arrays of objects are refused.

    Args:
        path: of a file, a directory, a glob, or a list of files.
        record_class: of the records; for `.npy` with one field that takes the array.
        columns: the array of a field, where that has another name.
        on_error: `skip` leaves files out that are no records, logs the first and counts them, in the manifest too.

    Raises:
        DatasetNotFoundError: there is no such file.
        OptionError: there is no field of a name.
        SourceError: while iterating: a file is damaged, or no record; it is named with all reasons.
    """
    arrays = _Arrays(Schema.of(record_class), columns or {})
    return TextRecords(_files(path), record_class, arrays.parse_file, on_error, unit="record")


def from_h5(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    record_class: type[T],
    *,
    columns: Mapping[str, str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
) -> TextRecords[T]:
    """Return a record of each group of HDF5 files, whose datasets and attributes are its fields; h5py reads them.

    The `key=True` field, if it is of text and nothing has its name, is the name of the group. What is no field is left
    out.

    Args:
        path: of a file, a glob, or a list of files.
        record_class: of the records.
        columns: the dataset or attribute of a field, where that has another name.
        on_error: `skip` leaves groups out that are no records, logs the first and counts them, in the manifest too.

    Raises:
        DatasetNotFoundError: there is no such file.
        OptionError: there is no field of a name, or h5py is not installed.
        SourceError: while iterating: a group is no record; it is named with all reasons.
    """
    arrays = _Arrays(Schema.of(record_class), columns or {})
    return TextRecords(files_named(path, natural_order), record_class, arrays.parse_groups, on_error, unit="group")


def _files(path: Any) -> list[Any]:
    if not isinstance(path, (list, tuple)) and local_path(path).is_dir():
        directory = local_path(path)
        files = [file for file in directory.iterdir() if file.suffix in _ENDINGS and file.is_file()]
        if not files:
            raise DatasetNotFoundError(f"{directory} holds no file that ends in .npz or .npy", path=path)
        return sorted(files, key=natural_order)
    return list(files_named(path, natural_order))


def is_array_file(given: Any) -> bool:
    """Whether a path, or a glob, ends as the name of a file of numpy's arrays does."""
    return isinstance(given, (str, Path)) and str(given).endswith(_ENDINGS)


def arrays_in(path: Any) -> Iterator[dict[str, Any]]:
    """Yield the arrays of each file; that of a `.npy` file is called `values`.

    Raises:
        DatasetNotFoundError: there is no such file.
        SourceError: a file is damaged, or holds objects.
    """
    for file in _files(path):
        try:
            loaded = _loaded(file)
            yield {"values": loaded} if isinstance(loaded, np.ndarray) else loaded
        except SourceError as error:
            raise SourceError(f"{file}: {error}") from error


def _loaded(path: Any, is_wanted: Callable[[str], bool] = lambda _: True) -> Any:
    """Return the wanted arrays of a file by their names, or the one of a `.npy` file.

    Raises:
        SourceError: it is damaged, or holds objects.
    """
    try:
        with path.open("rb") as file:  # which numpy leaves open where it fails
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            return {name: loaded[name] for name in loaded.files if is_wanted(name)}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise SourceError(f"cannot be loaded: {error}") from error


def groups_in(path: Any) -> Iterator[dict[str, Any]]:
    """Yield the datasets and attributes of each group of HDF5 files, and its name as `key`.

    Raises:
        DatasetNotFoundError: there is no such file.
        OptionError: h5py is not installed.
    """
    for file in files_named(path, natural_order):
        for name, group in _groups_of(file):
            values = _values_of_group(group).items()
            yield {"key": name, **{key: item.decode() if isinstance(item, bytes) else item for key, item in values}}


def _groups_of(path: Any) -> Iterator[tuple[str, Any]]:
    try:
        import h5py
    except ImportError:
        raise OptionError("HDF5 needs h5py: pip install h5py") from None
    with h5py.File(path, "r") as file:
        for name, group in file.items():
            if isinstance(group, h5py.Group):
                yield name, group


def _values_of_group(group: Any) -> dict[str, Any]:
    return {**dict(group.attrs), **{key: part[()] for key, part in group.items() if hasattr(part, "dtype")}}


class _Arrays:
    """How named arrays become records."""

    def __init__(self, schema: Schema, columns: Mapping[str, str]) -> None:
        names = [field.name for field in schema.fields]
        for name in columns:
            if name not in names:
                raise OptionError(f"columns: {schema.name} has no field {name!r}{did_you_mean(name, names)}")
        self.schema, self.columns = schema, columns

    def parse_file(self, path: Any) -> Iterator[Piece]:
        """Yield a file, which is one piece."""
        yield 0, 0, functools.partial(self._of_file, path)

    def parse_groups(self, path: Any) -> Iterator[Piece]:
        """Yield each group of a file."""
        for name, group in _groups_of(path):
            yield repr(name), 0, functools.partial(self._of_group, name, group)

    def _of_file(self, path: Any) -> dict[str, Any]:
        loaded = _loaded(path, self._is_wanted)
        return self._values({self._only_column(): loaded} if isinstance(loaded, np.ndarray) else loaded, path.stem)

    def _only_column(self) -> str:
        taken = [field.name for field in self.schema.fields if field != self.schema.key_field]
        if len(taken) != 1:
            raise SourceError(f"a .npy file is one array; {self.schema.name} has {len(taken)} fields for it")
        return self.columns.get(taken[0], taken[0])

    def _of_group(self, name: str, group: Any) -> dict[str, Any]:
        found = _values_of_group(group)
        return self._values({key: value for key, value in found.items() if self._is_wanted(key)}, name)

    def _is_wanted(self, name: str) -> bool:
        return any(self.columns.get(field.name, field.name) == name for field in self.schema.fields)

    def _values(self, arrays: dict[str, Any], name: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for field in self.schema.fields:
            column = self.columns.get(field.name, field.name)
            if column in arrays:
                values[field.name] = _value(field, arrays[column])
            elif field == self.schema.key_field and field.element.name == "str":
                values[field.name] = name
        return values


def _value(field: Field, value: Any) -> Any:
    """Return a scalar of an array without dimensions, and text of the bytes that HDF5 keeps it as."""
    array = np.asarray(value)
    if field.element.name == "str" and array.dtype.kind in "SO":
        texts = [item.decode() if isinstance(item, bytes) else item for item in array.reshape(-1).tolist()]
        objects = np.empty(len(texts), object)
        objects[:] = texts
        array = objects.reshape(array.shape)
    return array[()] if array.ndim == 0 else array
