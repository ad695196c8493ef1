"""`Field`: the options of one stored field, their checks, and the exact conversion of its values."""

from __future__ import annotations

import collections
import keyword
import math
import unicodedata
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import attrs
import numpy as np

from seqrecorder.errors import SchemaError
from seqrecorder.schema.dtypes import canonical_type
from seqrecorder.schema.exact_values import (
    Mismatch,
    SparseVector,
    exact_array,
    exact_image,
    exact_scalar,
    exact_sparse,
    holds_encoded,
    plain_image,
    same_bits,
)
from seqrecorder.schema.utf8 import require_utf8

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seqrecorder.schema.dtypes import ElementType


DEFAULT_GROUP = "default"
"""Alignment group of feature lists declared without `align`."""

Kind = Literal["context", "feature_list"]
Storage = Literal["auto", "raw", "packed", "buffer", "tensor", "png", "jpeg"]
_STORAGES = ("auto", "raw", "packed", "buffer", "tensor", "png", "jpeg")
_MOST_ELEMENTS = 2**31 - 1  # protobuf limits a message to 2**31 - 1 bytes
_MOST_DIMENSIONS = 29  # numpy 1 allows 32; records, steps and ragged values add one each
_IMAGE_CHANNELS = {"png": (1, 2, 3, 4), "jpeg": (1, 3)}
_IMAGE_TYPES = {"png": ("uint8", "uint16"), "jpeg": ("uint8",)}

T = TypeVar("T")


@attrs.frozen(repr=False)
class Field:
    """A stored field: its name, type, shape and options.

    Attributes:
        name: name of the attribute, and key in the result of `parse`.
        feature: name of the feature in the file.
        kind: `context` (once per record) or `feature_list` (once per step).
        element: the element type.
        shape: shape of the value (context) or of one step (feature_list). The first dimension may be None; for images,
            the first two.
        storage: storage option (see `context` and `feature_list`).
        optional: whether the value may be None.
        default: default value of the attribute; `attrs.NOTHING` if it has none.
        sparse: size of the dense vector of a sparse field; None for other fields.
        dense: whether a sparse field is parsed to dense tensors.
        align: name of the group of feature lists that share a length.
        key: whether the field identifies its record.
        chunk: whether the field numbers the chunks of one source.
        deferred: whether the value may be None until `load` has run.
        renamed_from: earlier names of the field, which older data may still use.
        per_step: steps of this field per step of the group that it follows; None for a field without a rate.
        encoded: whether images stay encoded when read, so that they can be rewritten unchanged; set by `Schema` only.
    """

    name: str
    feature: str
    kind: Kind
    element: ElementType
    shape: tuple[int | None, ...]
    storage: Storage = "auto"
    optional: bool = False
    default: Any = attrs.field(factory=lambda: attrs.NOTHING, eq=attrs.cmp_using(eq=same_bits), hash=False)
    sparse: int | None = None
    dense: bool = False
    align: str | None = DEFAULT_GROUP
    key: bool = False
    chunk: bool = False
    deferred: bool = False
    renamed_from: tuple[str, ...] = attrs.field(default=(), eq=False)
    per_step: int | None = None
    encoded: bool = attrs.field(default=False, eq=False)

    def __repr__(self) -> str:
        plain = {a.name: getattr(self, a.name) for a in attrs.fields(Field)[5:] if a.name != "default"}
        options = [f"{n}={v!r}" for n, v in plain.items() if v != attrs.fields_dict(Field)[n].default]
        options += [] if self.default is attrs.NOTHING else ["default=..."]
        options = [*([f"shape={self.shape}"] if self.shape else []), *options]
        return f"Field({', '.join([repr(self.name), self.kind, self.element.name, *options])})"

    def __attrs_post_init__(self) -> None:
        try:
            for check in (_check_feature, _check_shape, _check_storage, _check_roles, _check_alignment):
                check(self)
        except SchemaError as error:
            raise SchemaError(f"field {self.name!r}: {error}") from None

    @property
    def is_list(self) -> bool:
        """Check whether the field is stored once per step."""
        return self.kind == "feature_list"

    @property
    def is_ragged(self) -> bool:
        """Check whether the first dimension of the shape is None and the field does not store images."""
        return bool(self.shape) and self.shape[0] is None and not self.is_image

    @property
    def is_numbered(self) -> bool:
        """Check whether each step is a separate context feature, numbered at the `*` of the feature name."""
        return self.is_list and self.feature.count("*") == 1

    @property
    def is_image(self) -> bool:
        """Check whether each value, or step, is an encoded image."""
        return self.storage in ("png", "jpeg")

    @property
    def any_size(self) -> bool:
        """Check whether images may differ in size, which makes their column an object array."""
        return self.is_image and None in self.shape

    @property
    def is_scalar(self) -> bool:
        """Check whether the field is a scalar context field, with one element per record."""
        return not (self.is_list or self.shape or self.sparse is not None)

    @property
    def is_counted(self) -> bool:
        """Check whether the number of elements may differ between records."""
        return self.is_list or self.is_ragged or self.sparse is not None

    @property
    def rest(self) -> tuple[int, ...]:
        """Known dimensions of the shape.

        A leading None is left out. If images can have any size, the result is `()`.
        """
        return () if self.any_size else tuple(size for size in self.shape if size is not None)

    @property
    def count(self) -> int:
        """Number of elements in the known dimensions."""
        return math.prod(self.rest)

    @property
    def buffered(self) -> bool:
        """Check whether the elements are stored as little-endian buffers."""
        return self.storage in ("raw", "buffer") or (self.storage in ("auto", "packed") and self.element.buffered)

    @property
    def in_items(self) -> bool:
        """Check whether all elements of a value are stored together, in one bytes value.

        Such a bytes value contains the whole value of a context field, one step, or a whole packed sequence.
        """
        return self.buffered or self.storage == "tensor" or self.is_image

    @property
    def packed(self) -> bool:
        """Check whether one feature stores the whole sequence."""
        return self.storage in ("packed", "buffer")

    @property
    def is_single(self) -> bool:
        """Check whether each feature contains one element: a scalar, or one scalar step."""
        return not self.shape and self.sparse is None and not self.packed and not self.in_items

    @property
    def group(self) -> str:
        """Name of the alignment group.

        A field with `align=None` forms its own group, whose name is that of the field.
        """
        return self.name if self.align is None else self.align

    @property
    def has_default(self) -> bool:
        """Check whether the field has a default other than None.

        The default is used for data that lacks the field.
        """
        return self.default is not attrs.NOTHING and self.default is not None

    @property
    def may_lack(self) -> bool:
        """Check whether a record may lack the field.

        The value is then None or the default. All other fields must be present in every record, even if empty. This
        includes fields that `load` computes (`deferred`, `default=None`), because `load` runs before the record is
        encoded.
        """
        return self.optional or self.has_default

    @property
    def has_filling(self) -> bool:
        """Check whether the field has a default other than None or an empty sequence."""
        is_empty = (self.is_list or self.is_ragged) and self.has_default and len(self.default) == 0
        return self.has_default and not is_empty

    @property
    def presence(self) -> str | None:
        """Name of the feature that stores the presence flag, or None if the field is not optional."""
        return f"{self.feature}_present" if self.optional else None

    def exact(self, value: object) -> Any:
        """Convert a value exactly to the declared type and shape.

        Raises:
            Mismatch: the value does not fit the declaration.
        """
        if value is None:
            if self.optional:
                return None
            hint = "a value by the end of `load`" if self.deferred else "a value (declare optional=True to allow None)"
            raise Mismatch(hint, "None")
        if not self.is_list:
            return self._exact_one(value)
        if self.is_image:
            return self.exact_images(value)
        if self.is_ragged or self.sparse is not None:
            return self._exact_steps(value, "arrays" if self.sparse is None else "sparse vectors")
        return self._fit(exact_array(value, self.element), (None, *self.rest))

    def _exact_one(self, value: object) -> Any:
        """Convert the value of a context field, or a single step of a feature list."""
        if self.sparse is not None:
            return exact_sparse(value, self.element, self.sparse)
        if self.is_image:
            return exact_image(plain_image(value), self.element, self.shape, self.storage)
        if not self.shape:
            return exact_scalar(value, self.element)
        return self._fit(exact_array(value, self.element), (None,) * self.is_ragged + self.rest)

    def checked(self, value: object) -> Any:
        """Convert a value with `exact`, and check that its text can be encoded as UTF-8."""
        exact = self.exact(value)
        if self.element.name == "str" and exact is not None:
            require_utf8(exact)
        return exact

    def normaliser(self) -> Callable[[Any], Any]:
        """Build the attrs converter of the field.

        The converter calls `exact`, but returns a value unchanged if it does not fit. Encoding reports such a value
        later. The converter runs for every value of every record, so it first tests whether the value is exact already.
        """
        exact, dtype = self.exact, self.element.numpy
        is_dense = bool(self.is_list or self.shape) and not (self.is_ragged or self.any_size) and self.sparse is None
        kinds = {"str": str, "bytes": bytes, "bool": bool}
        kind = kinds.get(self.element.name, dtype.type) if self.is_scalar and not self.element.is_time else None

        def normalise(value: Any) -> Any:
            if type(value) is kind or (is_dense and type(value) is np.ndarray and value.dtype == dtype):
                return value
            try:
                return exact(value)
            except (Mismatch, ValueError, TypeError, OverflowError):
                return value

        return normalise

    def exact_images(self, value: Any) -> Any:
        """Convert images to one array if all are pixels of the declared size, otherwise to a list.

        Raises:
            Mismatch: an image does not fit; the first index is its position.
        """
        value = plain_image(value)
        items = list(map(plain_image, value)) if isinstance(value, (list, tuple)) else value
        if not self.any_size and not holds_encoded(items):
            return self._fit(exact_array(value, self.element), (None, *self.rest))
        return self._exact_steps(items, "images")

    def _exact_steps(self, value: Any, what: str) -> list[Any]:
        """Convert the value of each step."""
        if not isinstance(value, (list, tuple, np.ndarray)):
            raise Mismatch(f"a list of {what}, one per step", type(value).__name__)
        steps = []
        for step, item in enumerate(value):
            try:
                steps.append(self._exact_one(item))
            except Mismatch as problem:
                raise problem.inside(step) from None
        return steps

    def _fit(self, array: np.ndarray[Any, Any], shape: tuple[int | None, ...]) -> np.ndarray[Any, Any]:
        if len(shape) == array.ndim and all(s in (None, n) for s, n in zip(shape, array.shape, strict=True)):
            return array
        if array.shape == (0,) and shape[:1] == (None,):
            return array.reshape((0, *shape[1:]))  # the inner dimensions of an empty list are unknown
        names = ", ".join(("T" if self.is_list else "n") if size is None else str(size) for size in shape)
        raise Mismatch(f"shape ({names}{',' if len(shape) == 1 else ''})", f"shape {array.shape}")


def is_normaliser(function: object) -> bool:
    """Check whether a function is a converter built by `Field.normaliser`."""
    named = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    return named == (__name__, f"{Field.normaliser.__qualname__}.<locals>.normalise")


def _check_feature(field: Field) -> None:
    try:
        if isinstance(field.feature, str) and field.feature.encode():
            return
    except UnicodeEncodeError:
        pass
    raise SchemaError(f"name: expected nonempty text that UTF-8 can encode, got {field.feature!r}")


def _check_shape(field: Field) -> None:
    for position, size in enumerate(field.shape):
        if size is None:
            if position > int(field.is_image):
                text = f"only the first dimension may be None, got shape {field.shape}; "
                raise SchemaError(f"{text}store the others at a fixed size, or flat with a field for the shape")
        elif not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise SchemaError(f"shape: expected ints of 1 or more, or None as the first, got {field.shape}")
        elif size == 0:
            # TensorFlow's parser can crash the process on such a step (tensorflow issues 108141, 123476).
            raise SchemaError(f"a dimension of 0 stores nothing, got shape {field.shape}; leave the field out")
    if len(field.shape) > _MOST_DIMENSIONS:
        raise SchemaError(f"expected at most {_MOST_DIMENSIONS} dimensions, got {len(field.shape)}")
    if field.count > _MOST_ELEMENTS:
        raise SchemaError(f"a record holds at most {_MOST_ELEMENTS} elements, got shape {field.shape}; store parts")


def _check_storage(field: Field) -> None:
    storage, element = field.storage, field.element
    if storage not in _STORAGES:
        raise SchemaError(f"storage is one of {', '.join(_STORAGES)}, got {storage!r}")
    if storage in ("raw", "buffer", "tensor") and element.is_text:
        raise SchemaError(f"storage={storage!r} is for numbers; {element.name} needs storage='auto'")
    if field.packed and (not field.is_list or field.is_ragged):
        why = "ragged steps would lose their bounds" if field.is_list else "a context field is one feature already"
        raise SchemaError(f"storage={storage!r} does not fit here: {why}; use 'auto' or 'raw'")
    if storage in _IMAGE_CHANNELS:
        _check_image(field)
    _check_sparse(field)


def _check_image(field: Field) -> None:
    storage, element = field.storage, field.element
    shape = field.shape
    image_rank = 3
    if element.name not in _IMAGE_TYPES[storage] or len(shape) != image_rank:
        raise SchemaError(
            f"storage={storage!r} is for {' or '.join(_IMAGE_TYPES[storage])} images of shape "
            f"(height, width, channels), got {element.name} of shape {shape}"
        )
    if shape[2] not in _IMAGE_CHANNELS[storage]:
        raise SchemaError(f"{storage} has {' or '.join(map(str, _IMAGE_CHANNELS[storage]))} channels, got {shape[2]}")


def _check_sparse(field: Field) -> None:
    if field.sparse is not None:
        if isinstance(field.sparse, bool) or not isinstance(field.sparse, int) or field.sparse < 1:
            raise SchemaError(f"sparse is the size of the dense vector, 1 or more, got {field.sparse!r}")
        most = _MOST_ELEMENTS if field.dense else 2**63 - 1
        if field.sparse > most:
            kind = "a vector that is read as dense" if field.dense else "a vector"
            raise SchemaError(f"{kind} has at most {most} elements, got sparse={field.sparse}")
        if field.shape or field.storage != "auto":
            raise SchemaError(f"a sparse field has no shape and storage='auto'; its size is {field.sparse}")
    elif field.dense:
        raise SchemaError("dense=True is for sparse fields; all others are dense")


def _check_roles(field: Field) -> None:
    if field.key and (not field.is_scalar or field.optional or field.element.wire == "float" or field.element.buffered):
        raise SchemaError("a key is a required scalar context field of text, integers, bools or times")
    if field.chunk and (not field.is_scalar or field.element.numpy.kind not in "iu"):
        raise SchemaError("chunk=True is for a scalar integer context field")
    if field.is_image and holds_encoded(field.default):
        raise SchemaError("the default of an image is pixels, got encoded bytes")
    if field.default is None and not (field.optional or field.deferred):
        raise SchemaError("default=None needs optional=True, or deferred=True if `load` fills it")
    for old in field.renamed_from:
        if not isinstance(old, str) or not old.isidentifier() or old == field.name:
            raise SchemaError(f"renamed_from is an earlier name of the attribute, or several, got {old!r}")


def _check_alignment(field: Field) -> None:
    if field.per_step is not None:
        if not isinstance(field.per_step, int) or isinstance(field.per_step, bool) or field.per_step < 1:
            raise SchemaError(f"per_step is an int of 1 or more, got {field.per_step!r}")
        if not field.packed:
            raise SchemaError(f"per_step needs storage='packed' or 'buffer', got {field.storage!r}")
    if field.align is not None and (not isinstance(field.align, str) or not field.align.isidentifier()):
        raise SchemaError(f"align names a group of feature lists by an identifier, got {field.align!r}")


def check_together(owner: str, fields: Sequence[Field]) -> None:
    """Raise `SchemaError` if fields contradict each other."""
    for role in ("key", "chunk"):
        named = [field.name for field in fields if getattr(field, role)]
        if len(named) > 1:
            raise SchemaError(f"{owner}: at most one field has {role}=True, got {', '.join(named)}")
    aligned = {field.align for field in fields if field.is_list}
    for field in fields:
        if field.is_list and field.align is None and field.name in aligned:
            text = f"{owner}: field {field.name!r} is freed by align=None, and others are aligned as {field.name!r}"
            raise SchemaError(f"{text}; rename the group")
    if not rates_of(owner, fields) and any(field.per_step is not None for field in fields):
        raise SchemaError(
            f"{owner}: per_step counts steps for each step of another group, and there is none; put the fields with "
            "per_step into a separate group, such as align='sound'"
        )
    taken: dict[tuple[str, str], str] = {}
    _check_derived_names(owner, fields)
    for field in fields:
        for feature in sorted({field.feature, *feature_names(field)}):  # a parsed sparse value has the plain name
            # A flat tf.train.Example has one namespace for both kinds, so a name must be unique across them.
            for kind in ("context", "feature_list"):
                other = taken.get((kind, feature))
                if other is not None:
                    raise SchemaError(f"{owner}: fields {other!r} and {field.name!r} are both stored as {feature!r}")
            taken[field.kind, feature] = field.name


def _check_derived_names(owner: str, fields: Sequence[Field]) -> None:
    names = {field.name for field in fields}
    for field in fields:
        kinds = {"optional field": ("present", field.optional), "images of any size": ("size", field.any_size)}
        for kind, (suffix, gives) in kinds.items():
            if gives and f"{field.name}_{suffix}" in names:
                raise SchemaError(
                    f"{owner}: {kind} {field.name!r} adds {field.name}_{suffix}, which is also the name of a field; "
                    "rename one of them"
                )


def groups_among(fields: Sequence[Field]) -> tuple[str, ...]:
    """List the alignment groups of fields: the default group first, groups with a rate last."""
    names = dict.fromkeys(field.group for field in fields if field.is_list)
    rated = {field.group for field in fields if field.per_step is not None}
    return tuple(sorted(names, key=lambda name: (name != DEFAULT_GROUP, name in rated)))


def rates_of(owner: str, fields: Sequence[Field]) -> dict[str, tuple[Field, int]]:
    """Find the rate of each alignment group that has one, and the group that it follows.

    The result maps the name of a group to a pair: the first field of the group that it follows, and the rate. All
    groups with a rate follow the default group if it exists, otherwise the first named group without a rate, otherwise
    the first field with `align=None`. If there is none of these, the mapping is empty.

    Raises:
        SchemaError: the fields of a group have different rates.
    """
    lists = [field for field in fields if field.is_list]
    rated = {field.group: field.per_step for field in lists if field.per_step is not None}
    for field in lists:
        if field.group in rated and field.per_step != rated[field.group]:
            raise SchemaError(
                f"{owner}: fields of group {field.group!r} have per_step={rated[field.group]} and {field.per_step}; "
                "use a separate group (align=) for each rate"
            )
    others = [field for field in lists if field.group not in rated]
    first = min(others, key=lambda field: (field.align != DEFAULT_GROUP, field.align is None), default=None)
    return {} if first is None else {group: (first, rate) for group, rate in rated.items() if rate is not None}


def feature_names(field: Field) -> list[str]:
    """List the names of all features of a field."""
    return value_features(field) + ([field.presence] if field.presence else [])


def value_features(field: Field) -> list[str]:
    """List the names of the features that contain the values of a field."""
    return [field.feature] if field.sparse is None else [f"{field.feature}/indices", f"{field.feature}/values"]


def brief(field: Field) -> str:
    """Describe a field in a few words."""
    shape = f", shape {field.shape}" if field.shape else ""
    return f"{field.kind} {field.element.name}{shape}"


PLAIN_OPTIONS = ("storage", "optional", "sparse", "dense", "align", "key", "chunk", "deferred", "per_step")
"""Options that the JSON of a field includes only if they differ from their defaults."""


def field_to_dict(field: Field) -> dict[str, Any]:
    """Convert a field to plain dictionaries and lists, leaving out options at their defaults."""
    data = dict[str, Any](name=field.name, kind=field.kind, dtype=field.element.name, shape=list(field.shape))
    if field.feature != field.name:
        data["feature"] = field.feature
    plain = attrs.fields_dict(Field)
    for option in PLAIN_OPTIONS:
        if getattr(field, option) != plain[option].default:
            data[option] = getattr(field, option)
    if field.default is not attrs.NOTHING:
        data["default"] = _default_to_json(field.default, field)
    return data


def field_from_dict(data: dict[str, Any]) -> Field:
    """Rebuild a field from the output of `field_to_dict`.

    Raises:
        SchemaError: the dictionary does not describe a field.
        LookupError, TypeError, ValueError, AttributeError, OverflowError, Mismatch: nested data is invalid.
    """
    known = {"name", "kind", "dtype", "shape", "feature", "default", *PLAIN_OPTIONS}
    unknown = set(data) - known
    if unknown:
        raise SchemaError(f"field {data.get('name')!r} has unknown options {sorted(unknown)}")
    name, kind = data["name"], data["kind"]
    if not isinstance(name, str) or not name.isidentifier() or kind not in ("context", "feature_list"):
        raise SchemaError(f"expected an identifier and a kind, got {name!r} and {kind!r}")
    options = {option: data[option] for option in PLAIN_OPTIONS if option in data}
    for option in ("optional", "dense", "key", "chunk", "deferred"):
        if not isinstance(options.get(option, False), bool):
            raise SchemaError(f"field {name!r}: {option} is true or false, got {options[option]!r}")
    feature = data.get("feature", name)
    if not isinstance(data["shape"], list):
        raise SchemaError(f"field {name!r}: shape is a list, got {data['shape']!r}")
    field = Field(name, feature, kind, canonical_type(data["dtype"]), tuple(data["shape"]), **options)
    if "default" not in data:
        return field
    default = _default_from_json(data["default"], field)
    if default is not None:
        default = field.checked(default)
    return attrs.evolve(field, default=default)


def _default_to_json(value: Any, field: Field) -> Any:
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, SparseVector):
        return {"indices": value.indices.tolist(), "values": _default_to_json(value.values, field)}
    if isinstance(value, list):
        return {"steps": [_default_to_json(step, field) for step in value]}
    array = np.asarray(value, field.element.numpy)
    if field.element.name == "bytes":
        items: list[Any] = [item.hex() for item in array.ravel().tolist()]
    elif array.dtype == object or array.dtype.kind in "biu":
        items = array.ravel().tolist()
    else:  # hex bytes for floats and times: JSON keeps neither NaN payloads nor units
        items = [item.tobytes().hex() for item in array.ravel()]
    return items[0] if array.ndim == 0 and isinstance(items[0], int) else {"shape": list(array.shape), "items": items}


def _default_from_json(data: Any, field: Field) -> Any:
    if data is None:
        return None
    if isinstance(data, (str, bool, int)):
        return field.exact(data)
    if "steps" in data:
        return [_default_from_json(step, field) for step in data["steps"]]
    if "indices" in data:
        values = _default_from_json(data["values"], field)
        return SparseVector(data["indices"], values, field.sparse or 0)
    items, element = data["items"], field.element
    if element.name == "bytes":
        items = [bytes.fromhex(item) for item in items]
    elif not element.is_text and element.numpy.kind not in "biu":
        items = [np.frombuffer(bytes.fromhex(item), element.numpy)[0] for item in items]
    array = np.empty(len(items), element.numpy)
    array[:] = items
    if not all(isinstance(size, int) and size >= 0 for size in data["shape"]) or data["shape"][:1] > [len(items)]:
        raise SchemaError(f"field {field.name!r}: default of shape {data['shape']!r}")
    array = array.reshape(data["shape"])
    return array[()] if array.ndim == 0 else array


def arguments_of(fields: Sequence[Field]) -> list[str]:
    """List the names of the constructor's arguments, for a class that is rebuilt from these fields.

    There is one name per field, without leading underscores, as in attrs. A name keeps its underscores if it would
    otherwise be a keyword, `self` or a duplicate.

    Raises:
        SchemaError: the name of a field is not a valid attribute name, or occurs twice.
    """
    shortened = [field.name.lstrip("_") for field in fields]
    taken = {*keyword.kwlist, "self"}
    doubled = collections.Counter(shortened) - collections.Counter(set(shortened))
    for field, argument in zip(fields, shortened, strict=True):
        if unicodedata.normalize("NFKC", field.name) != field.name:  # Python normalizes identifiers to NFKC
            raise SchemaError(f"{field.name!r} cannot be the name of a field: Python normalizes it to another name")
        if not argument.isidentifier() or field.name in taken or "__" in field.name[:2]:
            raise SchemaError(
                f"{field.name!r} cannot be the name of a field; choose another, and pass name= to keep the stored name"
            )
    if len({field.name for field in fields}) < len(fields):
        raise SchemaError(f"two fields have one name: {', '.join(shortened)}")
    return [f.name if name in taken or name in doubled else name for f, name in zip(fields, shortened, strict=True)]
