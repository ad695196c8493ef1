"""The decorator `record`, and `context` and `feature_list` to declare the stored fields of a class.

A declaration is an ordinary `attrs.field` with a `Declaration` in its metadata, so any attrs class can use it.
"""

from __future__ import annotations

import dis
import sys
from typing import TYPE_CHECKING, Any, TypeVar, overload

import attrs
import numpy as np

from seqrecorder.errors import SchemaError
from seqrecorder.schema.display import record_html
from seqrecorder.schema.dtypes import ElementType, element_type
from seqrecorder.schema.exact_values import Mismatch, same_bits
from seqrecorder.schema.field import DEFAULT_GROUP, PLAIN_OPTIONS, Field, Kind, Storage, arguments_of, check_together

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    if sys.version_info >= (3, 11):
        from typing import dataclass_transform
    else:
        from typing_extensions import dataclass_transform

_UNNAMED = "of this declaration"
METADATA_KEY = "seqrecorder"
"""Key of the `Declaration` in the metadata of an attrs field."""

T = TypeVar("T")


@attrs.frozen
class Declaration:
    """Options of a field declared by `context` or `feature_list`, except its name and default."""

    kind: Kind
    element: ElementType
    shape: tuple[int | None, ...]
    feature: str | None
    options: Mapping[str, Any]

    def named(self, name: str, default: Any = attrs.NOTHING) -> Field:
        """Build the `Field` of an attribute that has this declaration."""
        feature = name if self.feature is None else self.feature
        return Field(name, feature, self.kind, self.element, self.shape, default=default, **self.options)


def context(
    dtype: object,
    *,
    shape: Sequence[int | None] = (),
    default: Any = attrs.NOTHING,
    factory: Callable[[], Any] | None = None,
    optional: bool = False,
    key: bool = False,
    chunk: bool = False,
    storage: Storage = "auto",
    sparse: int | None = None,
    dense: bool = False,
    name: str | None = None,
    renamed_from: str | Sequence[str] = (),
    deferred: bool = False,
    validator: Any = None,
    repr: bool = True,  # noqa: A002 - attrs' name
    kw_only: bool | None = None,
    alias: str | None = None,
) -> Any:
    """Declare a field stored once per record.

    >>> import attrs, seqrecorder as sr
    >>> @sr.record
    ... class Clip:
    ...     key: str = sr.context(str, key=True)
    ...     rate: int = sr.context("int32", default=16_000)
    >>> int(Clip("a").rate)
    16000

    Args:
        dtype: element type: a numpy dtype, a `tf.DType`, a Python type or a name.
        shape: shape of the value; `()` is a scalar. The first dimension may be None; for an image, height and width
            may be None.
        default: default value, as in `attrs.field`; it also fills data that lacks the field.
        factory: function that returns the default value, as in `attrs.field`.
        optional: whether the value may be None, which is distinct from an empty value.
        key: whether the field identifies its record; no two sources may have the same key.
        chunk: whether the field numbers the chunks that `split` yields for one source.
        storage: `auto`, `raw` (little-endian buffer), `tensor` (`tf.io.serialize_tensor`), `png` or `jpeg` (images, as
            pixels or already encoded).
        sparse: size of the dense vector of a sparse field, stored as indices and values; None for a dense field.
        dense: whether `parse` returns dense tensors for a sparse field; records always contain a `SparseVector`.
        name: name of the feature in the file; None for the name of the attribute.
        renamed_from: earlier name of the attribute, or several; datasets written under one of them stay readable.
        deferred: whether the value may be None until the `load` hook of the class has run.
        validator: validator of the attribute, as in `attrs.field`.
        repr: whether the repr of a record shows the field.
        kw_only: whether the constructor argument is keyword-only; None follows the class.
        alias: name of the constructor argument; None for the name of the attribute without leading underscores.

    Returns:
        An attrs field, for the body of an attrs class.

    Raises:
        SchemaError: the declaration cannot be stored.
    """
    options = {
        "storage": storage,
        "optional": optional,
        "sparse": sparse,
        "dense": dense,
        "key": key,
        "chunk": chunk,
        "deferred": deferred,
        "renamed_from": renamed_from,
    }
    attribute = {"kw_only": kw_only, "factory": factory, "validator": validator, "repr": repr, "alias": alias}
    return _make_attribute("context", dtype, shape, name, options=options, default=default, attribute=attribute)


def feature_list(
    dtype: object,
    *,
    shape: Sequence[int | None] = (),
    default: Any = attrs.NOTHING,
    factory: Callable[[], Any] | None = None,
    optional: bool = False,
    align: str | None = DEFAULT_GROUP,
    per_step: int | None = None,
    storage: Storage = "auto",
    sparse: int | None = None,
    dense: bool = False,
    name: str | None = None,
    renamed_from: str | Sequence[str] = (),
    deferred: bool = False,
    validator: Any = None,
    repr: bool = True,  # noqa: A002 - attrs' name
    kw_only: bool | None = None,
    alias: str | None = None,
) -> Any:
    """Declare a field stored once per step.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Speech:
    ...     mfcc: np.ndarray = sr.feature_list("float32", shape=(13,))  # (T, 13)
    ...     phones: np.ndarray = sr.feature_list("int64")  # (T,)
    >>> Speech(np.zeros((2, 13), "float32"), [7, 9]).phones
    array([7, 9])

    Args:
        dtype: element type of a step: a numpy dtype, a `tf.DType`, a Python type or a name.
        shape: shape of one step; `()` is a scalar per step. The first dimension may be None (ragged steps); for an
            image, height and width may be None.
        default: default value, as in `attrs.field`; it also fills data that lacks the field.
        factory: function that returns the default value, as in `attrs.field`.
        optional: whether the value may be None, which is distinct from an empty sequence.
        align: name of the alignment group; feature lists of one group have equal lengths. If None, the field has a
            length of its own.
        per_step: number of steps for each step of another group, such as samples per frame. The field needs a group
            of its own (`align="sound", per_step=160`). It follows the default group, or otherwise the first named group
            without a rate: it is `per_step` times as long, and is cut together with that group. Its `storage` is
            `packed` (default) or `buffer`.
        storage: as in `context`, or `packed`, which stores the whole sequence in a single feature of its list; this is
            far smaller and faster than one feature per step. `buffer` does the same with one little-endian buffer, the
            smallest option for small ints if some are negative, since a negative int otherwise takes 10 bytes.
        sparse: size of the dense vector of a sparse step, stored as indices and values; None for dense steps.
        dense: whether `parse` returns dense tensors for a sparse field; records always contain `SparseVector`s.
        name: name of the feature in the file; None for the name of the attribute. In foreign files, `*` matches
            numbers: `frames/*` reads the context features `frames/0001`, `frames/0002`, ..., one per step.
        renamed_from: earlier name of the attribute, or several; datasets written under one of them stay readable.
        deferred: whether the value may be None until the `load` hook of the class has run.
        validator: validator of the attribute, as in `attrs.field`.
        repr: whether the repr of a record shows the field.
        kw_only: whether the constructor argument is keyword-only; None follows the class.
        alias: name of the constructor argument; None for the name of the attribute without leading underscores.

    Returns:
        An attrs field, for the body of an attrs class.

    Raises:
        SchemaError: the declaration cannot be stored.
    """
    options = {
        "storage": "packed" if per_step is not None and storage == "auto" else storage,
        "per_step": per_step,
        "optional": optional,
        "sparse": sparse,
        "dense": dense,
        "align": align,
        "deferred": deferred,
        "renamed_from": renamed_from,
    }
    attribute = {"kw_only": kw_only, "factory": factory, "validator": validator, "repr": repr, "alias": alias}
    return _make_attribute("feature_list", dtype, shape, name, options=options, default=default, attribute=attribute)


def _make_attribute(
    kind: Kind,
    dtype: object,
    shape: Any,
    feature: str | None,
    *,
    options: dict[str, Any],
    default: Any,
    attribute: dict[str, Any],
) -> Any:
    """Build the attrs field of a declaration.

    An error names the field if its name is known.
    """
    old = options["renamed_from"]
    options["renamed_from"] = (old,) if isinstance(old, str) else tuple(old)
    try:
        if isinstance(shape, int) or shape is None:
            raise SchemaError(f"shape is a tuple, such as ({shape},), got {shape!r}")
        dimensions = tuple(int(n) if isinstance(n, np.integer) else n for n in shape)
        declaration = Declaration(kind, element_type(dtype), dimensions, feature, options)
        declaration.named(_UNNAMED, None if default is None else attrs.NOTHING)  # fail at the declaration, not later
    except SchemaError as error:
        unnamed = f"field {_UNNAMED!r}: "
        where = _find_target() or "declaration"
        raise SchemaError(f"{where}: {str(error).removeprefix(unnamed)}") from None
    return _attribute(declaration, default, **attribute)


def _find_target() -> str | None:
    """Describe the field that a class body is about to declare, by the names of the class and the field.

    The result is None if no class body is being executed.
    """
    frame = sys._getframe()  # noqa: SLF001 - no public way
    while not {"__module__", "__qualname__"} <= set(frame.f_locals):  # f_locals.keys() is a list since 3.13
        if frame.f_back is None or frame.f_code.co_name == "<module>":
            return None
        frame = frame.f_back
    rest = (step for step in dis.get_instructions(frame.f_code) if step.offset > frame.f_lasti)
    name = next((step.argval for step in rest if step.opname == "STORE_NAME"), None)
    return None if name is None else f"{frame.f_code.co_name}: field {name!r}"


def _attribute(declaration: Declaration, default: Any, kw_only: bool | None, **options: Any) -> Any:  # noqa: FBT001 - private
    if kw_only is not None:  # None follows the class; older releases of attrs refuse None
        options["kw_only"] = kw_only
    return attrs.field(
        default=default,
        converter=declaration.named(_UNNAMED).normaliser(),
        eq=attrs.cmp_using(eq=same_bits),
        metadata={METADATA_KEY: declaration},
        **options,
    )


def declare(field: Field, alias: str) -> Any:
    """Build the attrs field that declares `field`, for a class that is rebuilt from its fields."""
    options = {name: getattr(field, name) for name in PLAIN_OPTIONS}
    declaration = Declaration(field.kind, field.element, field.shape, field.feature, options)
    return _attribute(declaration, field.default, kw_only=True, alias=alias)


if TYPE_CHECKING:

    @overload
    @dataclass_transform(field_specifiers=(context, feature_list, attrs.field))
    def record(maybe_class: type[T], /) -> type[T]: ...
    @overload
    def record(*, kw_only: bool = False, frozen: bool = False, slots: bool = True) -> Callable[[type[T]], type[T]]: ...


def record(
    maybe_class: type | None = None, /, *, kw_only: bool = False, frozen: bool = False, slots: bool = True
) -> Any:
    """Turn a class into a record class: `attrs.define`, plus a check of its fields and typing support.

    Plain attrs classes with `context` and `feature_list` fields work, too. With `record`, mypy and
    pyright report missing arguments, and mistakes in the fields raise an error when the class is defined.

    >>> import seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     tokens: list = sr.feature_list(str)
    >>> Sentence(["to", "be"]) == Sentence(["to", "be"])
    True

    Args:
        maybe_class: the class if the decorator is used without parentheses; otherwise None.
        kw_only: whether all fields are keyword-only, so that a field without a default may follow one with a default.
        frozen: whether records are immutable.
        slots: whether the class has `__slots__`, as in `attrs.define`.

    Raises:
        SchemaError: the fields do not form a valid schema.
    """

    def decorate(cls: type) -> type:
        named = {name: f"{cls.__qualname__}.{name}" for name in vars(cls)}
        methods = {name for name in named if getattr(vars(cls)[name], "__qualname__", None) == named[name]}
        try:
            defined = attrs.define(cls, kw_only=kw_only, frozen=frozen, slots=slots, unsafe_hash=False)
        except ValueError as error:
            if "mandatory" not in str(error):
                raise
            raise SchemaError(_order_problem(cls, str(error))) from None
        for name in methods.intersection(attribute.name for attribute in attrs.fields(defined)):  # attrs drops one
            text = f"{name!r} is a field and a method; rename the field, with renamed_from={name!r} to read old data"
            raise SchemaError(f"{cls.__name__}: {text}")
        # Without slots, attrs keeps the inherited hash by identity, which contradicts equality.
        defined.__hash__ = None  # type: ignore[assignment]  # how Python marks a class without hash
        return shown_in_notebooks(defined, stored_fields(defined))

    return decorate if maybe_class is None else decorate(maybe_class)


def shown_in_notebooks(cls: type, fields: tuple[Field, ...]) -> type:
    """Add `_repr_html_` (tables and curves in notebooks) to a class that has none, and return the class."""
    if not hasattr(cls, "_repr_html_"):
        shown: Any = cls
        shown._repr_html_ = lambda self: record_html(type(self).__name__, fields, self)
    return cls


def _order_problem(cls: type, message: str) -> str:
    """Reword the attrs error about a mandatory attribute that follows one with a default."""
    name = message.partition("name='")[2].partition("'")[0]
    attributes = attrs.fields(attrs.define(cls, kw_only=True))
    first = next(attribute.name for attribute in attributes if attribute.default is not attrs.NOTHING)
    return (
        f"{cls.__name__}: field {name!r} has no default and stands after {first!r}, which has one: put {name!r} first, "
        "give it a default, or decorate the class with @seqrecorder.record(kw_only=True)"
    )


def stored_fields(cls: type) -> tuple[Field, ...]:
    """List and check the stored fields of an attrs class, in declaration order.

    Raises:
        SchemaError: the class is not an attrs class, or its fields contradict each other.
    """
    if not isinstance(cls, type) or not attrs.has(cls):
        shown = cls.__name__ if isinstance(cls, type) else repr(cls)
        raise SchemaError(f"{shown} is not an attrs class: decorate it with @seqrecorder.record")
    _check_collected(cls)
    fields = tuple(_field_of(attribute) for attribute in attrs.fields(cls) if METADATA_KEY in attribute.metadata)
    check_together(cls.__name__, fields)
    arguments_of(fields)  # refuse names that could be written but not read again
    return fields


def _check_collected(cls: type) -> None:
    """Raise `SchemaError` if a base class declares a field that attrs did not collect, which would never be stored."""
    for owner in cls.__mro__:
        for name, value in vars(owner).items():
            if isinstance(value, type(attrs.field())) and METADATA_KEY in value.metadata:
                raise SchemaError(
                    f"{cls.__name__}: field {name!r} is declared in {owner.__name__}, which is not an attrs class "
                    f"itself: decorate {owner.__name__} with @seqrecorder.record"
                )


def _field_of(attribute: attrs.Attribute[Any]) -> Field:
    declaration: Declaration = attribute.metadata[METADATA_KEY]
    default: Any = attribute.default
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # a class to attrs, a function to its stubs
        default = attrs.NOTHING if default.takes_self else default.factory()
    field = declaration.named(attribute.name)
    if default is attrs.NOTHING:
        return field
    if default is not None:
        try:
            default = field.checked(default)
        except Mismatch as problem:
            raise SchemaError(f"default of field {attribute.name!r}: {problem}") from None
    return declaration.named(attribute.name, default)
