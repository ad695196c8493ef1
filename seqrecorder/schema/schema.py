"""`Schema`: the stored fields of a record class, as a value that can be compared, serialized and rebuilt.

The codec encodes and decodes records; the `__init__` of the package sets it as `Schema.codec_factory`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import threading
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import attrs

from seqrecorder.errors import ManifestError, OptionError, SchemaError, SchemaMismatchError, did_you_mean
from seqrecorder.schema.declarations import declare, shown_in_notebooks, stored_fields
from seqrecorder.schema.display import cut, html_table, join
from seqrecorder.schema.evolution import changes, source_of
from seqrecorder.schema.exact_values import Mismatch, advice, describe
from seqrecorder.schema.field import (
    Field,
    arguments_of,
    brief,
    check_together,
    feature_names,
    field_from_dict,
    field_to_dict,
    groups_among,
    rates_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seqrecorder.schema.evolution import Change

_SCHEMA = "__seqrecorder_schema__"
# Errors that occur in `from_dict` if the data is not a schema.
_NO_SCHEMA = (Mismatch, LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)

_rebuilt: weakref.WeakValueDictionary[tuple[str, tuple[Field, ...]], type] = weakref.WeakValueDictionary()
_rebuilding = threading.Lock()


class _Codec(Protocol):
    """Interface of the codec that encodes, decodes and parses for `Schema`."""

    def features(self) -> tuple[dict[str, Any], dict[str, Any]]: ...
    def encode_batch(self, records: Sequence[Any]) -> list[bytes]: ...
    def decode_batch(self, data: Sequence[bytes]) -> list[Any]: ...
    def parse(self, serialized: Any) -> dict[str, Any]: ...
    def parse_batch(self, serialized: Any) -> dict[str, Any]: ...


@attrs.frozen(slots=False, repr=False)
class Schema:
    """The stored fields of a record class.

    >>> import numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Utterance:
    ...     key: str = sr.context(str, key=True)
    ...     phones: np.ndarray = sr.feature_list("int64")
    >>> schema = sr.Schema.of(Utterance)
    >>> schema == sr.Schema.from_json(schema.to_json())
    True
    >>> schema.decode(schema.encode(Utterance("a", [1, 2])))
    Utterance(key='a', phones=array([1, 2]))

    Attributes:
        name: name of the class.
        fields: the fields in declaration order, which is also their order in tuples and in encoded bytes.
    """

    name: str
    fields: tuple[Field, ...]
    _record_class: type | None = attrs.field(default=None, eq=False, repr=False)
    _text: str | None = attrs.field(default=None, eq=False, repr=False)
    codec_factory: ClassVar[Callable[[Schema], _Codec]]
    inference: ClassVar[Callable[..., Schema]]

    def __repr__(self) -> str:
        if self._text is not None:
            return self._text
        fields = join([f"{cut(field.name, 30)}: {brief(field)}" for field in self.fields], 6)
        return f"<Schema {cut(self.name, 40)}: {fields}>"

    def _repr_html_(self) -> str:
        rows = [(f.name, f.kind, f.element.name, f.shape or "", repr(f)) for f in self.fields]
        return html_table(self.name, ("field", "kind", "dtype", "shape", "all"), rows)

    @classmethod
    def of(cls, source: object) -> Schema:
        """Get the schema of a record class or of a record.

        If the argument is a schema, it is returned unchanged.

        Raises:
            SchemaError: `source` is not an attrs class, has no stored field, or its fields contradict each other.
        """
        if isinstance(source, Schema):
            return source
        record_class = source if isinstance(source, type) else type(source)
        if not isinstance(source, type) and not attrs.has(record_class):
            what_to_do = advice(source)
            if what_to_do or record_class.__module__ == "builtins":  # any other class can be decorated
                raise SchemaError(f"expected a record class, or a record, got {describe(source)}{what_to_do}")
        known: Schema | None = vars(record_class).get(_SCHEMA)
        if known is None:
            fields = stored_fields(record_class)
            if not fields:
                raise SchemaError(
                    f"{record_class.__name__} stores nothing: declare fields with seqrecorder.context "
                    "or seqrecorder.feature_list"
                )
            known = Schema(record_class.__name__, fields, record_class)
            # Cached in the class, as attrs does: a table in this module would keep every class alive.
            setattr(record_class, _SCHEMA, known)
        return known

    @classmethod
    def infer(
        cls,
        source: Any,
        *,
        by: str | Sequence[str] | None = None,
        order: str | Sequence[str] | None = None,
        name: str = "Record",
        key: str | None = None,
        columns: Sequence[str | None] | None = None,
    ) -> Schema:
        """Infer the schema of a table.

        The repr of the schema is the source code of a class, with a comment on each guess.

        >>> import pyarrow as pa, seqrecorder as sr
        >>> rows = pa.table({"sensor": ["a", "a", "b"], "hour": [0, 1, 0], "watts": [0.5, None, 1.0]})
        >>> sr.Schema.infer(rows, by="sensor", order="hour", name="Day")
        import numpy as np
        <BLANKLINE>
        import seqrecorder as sr
        <BLANKLINE>
        <BLANKLINE>
        @sr.record
        class Day:
            sensor: str = sr.context("str", key=True)
            hour: np.ndarray = sr.feature_list("int64")
            watts: np.ndarray = sr.feature_list("float64")  # 1 of 3 rows have none, which is NaN

        The schema can be used in place of a record class: `from_table(table, schema)`. A column of a CSV file is text
        if a number in it has leading zeros, such as the code 01234.

        Args:
            source: table or table files that `from_table` accepts, or list of dictionaries (the first million rows are
                read), or `.ts`, `.conll` or `.conllu` files (the first 16,384 records are read).
            by: column or columns whose values group rows into records; None if each row is a record.
            order: column or columns that sort the rows of a group; None keeps their order.
            name: name of the class.
            key: column that identifies a record; None for the column of `by` or, without `by`, for a guess.
            columns: names of the columns of a CoNLL file, with None for each column to skip. Default: the names of
                CoNLL-U if there are ten columns, otherwise numbered names.

        Raises:
            OptionError: a named column does not exist, there are no rows, or no column can become a field.
            SourceError: a file cannot be read, or the dictionaries do not form a table.
        """
        return cls.inference(source, by=by, order=order, name=name, key=key, columns=columns)

    @functools.cached_property
    def record_class(self) -> type:
        """The class of the records: the user's class, or one rebuilt from the fields.

        Equal schemas share one rebuilt class, so that records of two reads compare equal.
        """
        if self._record_class is not None:
            return self._record_class
        with _rebuilding:
            cls = _rebuilt.get((self.name, self.fields))
            if cls is None:
                aliases = zip(self.fields, arguments_of(self.fields), strict=True)
                cls = attrs.make_class(self.name, {f.name: declare(f, a) for f, a in aliases}, kw_only=True, slots=True)
                _rebuilt[self.name, self.fields] = shown_in_notebooks(cls, self.fields)
        return cls

    @functools.cached_property
    def key_field(self) -> Field | None:
        """The field that identifies a record, if one is declared."""
        return next((field for field in self.fields if field.key), None)

    @functools.cached_property
    def groups(self) -> tuple[str, ...]:
        """Names of the alignment groups: the default group first, groups with a rate last."""
        return groups_among(self.fields)

    @functools.cached_property
    def rates(self) -> dict[str, tuple[str, int]]:
        """Rates of the alignment groups that have one, by the name of the group.

        Each value is a pair: the group that is followed, and the rate.
        """
        return {group: (first.group, rate) for group, (first, rate) in rates_of(self.name, self.fields).items()}

    def in_one_rate(self) -> Schema:
        """Convert the schema to one without rates.

        A field with a rate joins the group that it follows: `per_step` of its steps become one step, with an additional
        first dimension. Strategies use this schema to cut records, and the fields get their own steps back afterwards.
        """
        fields = list(self.fields)
        for number, field in enumerate(fields):
            if field.is_list and field.group in self.rates:
                group, rate = self.rates[field.group]
                shape: Any = (rate, *field.shape)
                default = field.default.reshape(-1, *shape) if field.has_default else field.default
                fields[number] = attrs.evolve(field, shape=shape, align=group, per_step=None, default=default)
        return attrs.evolve(self, fields=tuple(fields)) if self.rates else self

    def members(self, group: str) -> list[Field]:
        """List the feature lists of an alignment group."""
        return [field for field in self.fields if field.is_list and field.group == group]

    @functools.cached_property
    def written(self) -> Schema:
        """The schema of a dataset that is written with this schema.

        Only the storage of numbered features differs: they become ordinary feature lists.
        """
        if not any(field.is_numbered for field in self.fields):
            return self
        fields = tuple(attrs.evolve(f, feature=f.name) if f.is_numbered else f for f in self.fields)
        check_together(self.name, fields)
        return Schema(self.name, fields, self.record_class)

    @property
    def with_encoded_images(self) -> Schema:
        """The schema for rewriting records without decoding their images.

        Images in the declared format stay encoded, except those of fields with a default. Hooks expect pixels, so the
        schema of a class with hooks is returned unchanged.
        """
        if any(hasattr(self.record_class, hook) for hook in ("load", "split", "to_csv_row")):
            return self
        fields = tuple(attrs.evolve(f, encoded=f.is_image and not f.has_filling) for f in self.fields)
        return Schema(self.name, fields, self.record_class)

    def __getstate__(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in ("name", "fields", "_record_class", "_text")}

    def __getitem__(self, name: str) -> Field:
        """Look up a field by name."""
        for field in self.fields:
            if field.name == name:
                return field
        names = [field.name for field in self.fields]
        close = did_you_mean(name, names)
        raise SchemaError(f"{self.name} has no field {name!r}{close}; it has {', '.join(names)}")

    def select(self, names: Iterable[str] | None) -> Schema:
        """Select fields by name, in declaration order.

        None selects all fields.

        Raises:
            SchemaError: a name is not the name of a field.
            OptionError: `names` is not a sequence of names, or is empty.
        """
        if names is None:
            return self
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise OptionError(f"fields: expected a sequence of names, got {names!r}")
        wanted = {self[name].name for name in names}
        if not wanted:
            raise OptionError("fields: expected one name or more, got none; leave `fields` out for all of them")
        if len(wanted) == len(self.fields):
            return self
        return Schema(self.name, tuple(field for field in self.fields if field.name in wanted))

    # Serialization ---------------------------------------------------------------------------------------------------

    def to_json(self, indent: int | None = None) -> str:
        """Serialize the schema to JSON, from which `from_json` rebuilds it without the class."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    def to_dict(self) -> dict[str, Any]:
        """Convert the schema to plain dictionaries and lists."""
        return {"name": self.name, "fields": [field_to_dict(field) for field in self.fields]}

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """Rebuild a schema from the JSON that `to_json` wrote, without importing or evaluating anything.

        Raises:
            ManifestError: the string does not describe a schema.
        """
        try:
            return cls.from_dict(json.loads(text))
        except (ValueError, RecursionError) as error:  # ValueError: an integer has too many digits
            raise ManifestError(f"schema: expected JSON, got {error}") from None

    @classmethod
    def from_dict(cls, data: Any) -> Schema:
        """Rebuild a schema from the output of `to_dict`.

        Raises:
            ManifestError: the dictionary does not describe a schema.
        """
        try:
            name, fields = data["name"], tuple(map(field_from_dict, data["fields"]))
            if not isinstance(name, str) or not name.isidentifier() or not fields:
                raise SchemaError(f"expected a name and fields, got name {name!r} and {len(fields)} fields")
            arguments_of(fields)
            check_together(name, fields)
        except _NO_SCHEMA as error:
            raise ManifestError(f"schema: not one that this version of seqrecorder reads: {error!r:.1000}") from None
        return cls(name, fields)

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the fields, in hexadecimal.

        The fields are hashed as `to_dict` returns them. The name of the class is left out.
        """
        canonical = json.dumps(self.to_dict()["fields"], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def changes_since(self, stored: Schema) -> list[Change]:
        """List the changes from the schema of a dataset to this schema, with the compatibility of each.

        >>> import seqrecorder as sr
        >>> old = sr.Schema.of(sr.record(type("A", (), {"x": sr.context("int32"), "__annotations__": {"x": int}})))
        >>> new = sr.Schema.of(sr.record(type("A", (), {"x": sr.context("int64"), "__annotations__": {"x": int}})))
        >>> [(str(change), change.compatible) for change in new.changes_since(old)]
        [('x: dtype int32 in the data, int64 in the class', True)]
        """
        return changes(stored.fields, self.fields)

    def require_readable(self, stored: Schema, where: str) -> None:
        """Raise `SchemaMismatchError` unless data written under `stored` can be read as this schema.

        See `seqrecorder.schema.evolution` for the rules.
        """
        problems = [str(change) for change in self.changes_since(stored) if not change.compatible]
        if problems:
            raise SchemaMismatchError(
                f"{where} was written as {stored.name} and cannot be read as {self.name}; change the class as follows, "
                "leave `schema` out to read it as it was written, or write the records again under the class:",
                problems,
            )

    def reading(self, stored: Schema) -> Schema:
        """Adapt this schema to read data written under `stored`, which must be readable (see `require_readable`).

        A renamed field is read from the feature of its earlier name. A new field gets a feature name that does not
        occur in the data.
        """
        sources = {field.name: source_of(field, stored.fields) for field in self.fields}
        taken = {name for field in stored.fields for name in feature_names(field)}
        fields = []
        for field in self.fields:
            source, feature = sources[field.name], field.feature
            if source is not None:
                feature = source.feature
            while source is None and taken & set(feature_names(attrs.evolve(field, feature=feature))):
                feature += "_"  # in the data, this feature belongs to another field
            fields.append(field if feature == field.feature else attrs.evolve(field, feature=feature))
        return self if tuple(fields) == self.fields else Schema(self.name, tuple(fields), self.record_class)

    def before_load(self, stored: Schema) -> Schema:
        """Return the schema for reading records before `load` completes them.

        Deferred fields that the data lacks are optional in this schema.
        """
        fields = [
            attrs.evolve(field, optional=True)
            if field.deferred and not field.may_lack and source_of(field, stored.fields) is None
            else field
            for field in self.fields
        ]
        return self if tuple(fields) == self.fields else Schema(self.name, tuple(fields), self.record_class)

    # Bytes and tensors, through the codec ---------------------------------------------------------------------------

    @functools.cached_property
    def _codec(self) -> _Codec:
        return Schema.codec_factory(self)

    @property
    def context_features(self) -> dict[str, Any]:
        """Parsing spec of the context, for `tf.io.parse_single_sequence_example` and `parse_sequence_example`."""
        return self._codec.features()[0]

    @property
    def sequence_features(self) -> dict[str, Any]:
        """Parsing spec of the feature lists, for `tf.io.parse_single_sequence_example` and `parse_sequence_example`."""
        return self._codec.features()[1]

    def encode(self, record: Any) -> bytes:
        """Encode a record to a serialized `tf.train.SequenceExample`.

        Raises:
            RecordError: values do not fit their fields; all bad fields are reported.
        """
        return self._codec.encode_batch([record])[0]

    def encode_batch(self, records: Sequence[Any]) -> list[bytes]:
        """Encode records to serialized `tf.train.SequenceExample`s, many times faster than one by one.

        Raises:
            RecordError: values of a record do not fit their fields; all bad fields of the record are reported.
        """
        return self._codec.encode_batch(records)

    def decode(self, data: bytes) -> Any:
        """Decode a record from a serialized `tf.train.SequenceExample`.

        Raises:
            RecordError: the bytes are not a SequenceExample, or a field is missing.
        """
        return self._codec.decode_batch([data])[0]

    def decode_batch(self, data: Sequence[bytes]) -> list[Any]:
        """Decode records from serialized `tf.train.SequenceExample`s, many times faster than one by one.

        Raises:
            RecordError: an item is not a SequenceExample, or a field is missing.
        """
        return self._codec.decode_batch(data)

    def parse(self, serialized: Any) -> dict[str, Any]:
        """Parse one record to tensors, inside a graph or eagerly.

        Args:
            serialized: one serialized SequenceExample, a string scalar.

        Returns:
            Mapping of field name to tensor. The dtype is as declared (string for str and bytes, int64 for times). A
            context field has its declared shape, and a feature list the shape `(T, *shape)`. Ragged steps are a
            `tf.RaggedTensor` of shape `(T, None, ...)`, and sparse fields a `tf.SparseTensor`. An optional field also
            has a flag `<field>_present` (bool).
        """
        return self._codec.parse(serialized)

    def parse_batch(self, serialized: Any) -> dict[str, Any]:
        """Parse records to the tensors of a padded batch, inside a graph or eagerly.

        Args:
            serialized: string vector of B serialized SequenceExamples.

        Returns:
            Tensors as in `parse`, with a leading dimension B. Feature lists have the shape `(B, T, *shape)`: they are
            padded with zeros (empty text) to the longest of the batch. Ragged values are `tf.RaggedTensor`s. The
            lengths are in `sequence_length` (int64, `(B,)`), and in `<group>_length` for each other alignment group.
        """
        return self._codec.parse_batch(serialized)
