"""Fields computed while reading: shifted steps, normalization, vocabulary lookups, and masks of missing values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import attrs
import numpy as np

from seqrecorder.codec.graph_ops import Derivation, derivations_of, derived_schema, sources_of
from seqrecorder.errors import OptionError, did_you_mean
from seqrecorder.schema.conversion import Mismatch, exact_array
from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.field import Field

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from seqrecorder.codec.columns import Column
    from seqrecorder.codec.graph_ops import FieldMap
    from seqrecorder.codec.images import ImageDecoder
    from seqrecorder.reading.strategy import Carried, Strategy
    from seqrecorder.schema.schema import Schema


@attrs.frozen
class Shifted:
    """Fields whose steps are those before or after: what `next_step` and `previous_step` return."""

    shifts: tuple[Shift, ...]
    is_one: bool


def next_step(field: str | Sequence[str]) -> Shifted:
    """Name the next step of a field, for `inputs`, `targets` and `weights` of `read`.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Text:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Text([1, 2, 3, 4]), Text([5, 6])], corpus)
    >>> train = sr.read(corpus, batch=sr.Unroll(2, 3), inputs="ids", targets=sr.next_step("ids"))
    >>> for x, y, weights in train:
    ...     print(x.numpy().tolist(), y.numpy().tolist(), weights.numpy().tolist())
    [[1, 2, 3], [5, 6, 0]] [[2, 3, 4], [6, 0, 0]] [[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]
    [[4, 0, 0], [0, 0, 0]] [[0, 0, 0], [0, 0, 0]] [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]

    It is the next step of the record, also where a segment of `Unroll`, a window, a `Crop` or a part that `Pack` split
    off ends before it, or where `steps` or `too_long` cut it off. Where `steps` leaves one in so many, it is as far
    away as those are from each other. The last step of a record has none: zeros (empty text) stand there, with sample
    weights of 0 where it is a target.

    Args:
        field: name of a feature list without ragged steps; or several names, for a tuple.
    """
    return _shifted("next_step", field, 1, None)


def previous_step(field: str | Sequence[str], *, start: Any = None) -> Shifted:
    """Name the step before each one of a field, for `inputs`, `targets` and `weights` of `read`.

    For teacher forcing: a decoder is shown the right output of the step before.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Pair:
    ...     source: np.ndarray = sr.feature_list("int64", align="source")
    ...     target: np.ndarray = sr.feature_list("int64", align="target")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Pair([7, 8], [4, 5, 6])], corpus)
    >>> inputs = {"source": "source", "before": sr.previous_step("target", start=1)}
    >>> [(x, y, weights)] = sr.read(corpus, batch=sr.Pad(1), inputs=inputs, targets="target")
    >>> x["before"].numpy().tolist(), y.numpy().tolist()
    ([[1, 4, 5]], [[4, 5, 6]])

    Before the first step of a segment, a window or a crop comes the step before it in the record.

    Args:
        field: as for `next_step`.
        start: what stands before the first step of a record: a value of the field, or one for all values of a step.
            None is zero (empty text).
    """
    return _shifted("previous_step", field, -1, start)


def _shifted(function: str, field: Any, by: int, start: Any) -> Shifted:
    names = (field,) if isinstance(field, str) else tuple(field) if isinstance(field, Sequence) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise OptionError(f"{function}: expected the name of a feature list, or a sequence of names, got {field!r}")
    return Shifted(tuple(Shift(name, by, start) for name in names), isinstance(field, str))


@attrs.frozen
class Shift(Derivation):
    """The step after (`by` 1) or before (-1) each one of a feature list; and which steps have one after them."""

    looks_around: ClassVar[bool] = True

    by: int
    start: Any = attrs.field(default=None, eq=attrs.cmp_using(eq=np.array_equal), hash=False)

    @property
    def name(self) -> str:
        """Name of the derived field."""
        if self.by > 0:
            return f"next_step({self.source})"
        return f"previous_step({self.source}{'' if self.start is None else f', start={self.start!r}'})"

    @property
    def real(self) -> str | None:
        """Name of the bool field that says which steps have one after them; None where each has one before it."""
        return f"has_next_step({self.source})" if self.by > 0 else None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the derived fields."""
        return (self.name,) if self.real is None else (self.name, self.real)

    def fields(self, field: Field) -> tuple[Field, ...]:
        """Return a field and those derived from it (see `Derivation`)."""
        function = self.name.partition("(")[0]
        problem = "is a context field and has no steps" if not field.is_list else None
        if field.sparse is not None or field.is_ragged:
            problem = f"is {'ragged' if field.is_ragged else 'sparse'} and its steps cannot be shifted"
        elif field.per_step is not None:
            problem = f"has {field.per_step} steps for each of another group, and is not shifted"
        if problem:
            raise OptionError(f"{function}: field {field.name!r} {problem}")
        self._start(field)
        shifted = Field(self.name, self.name, field.kind, field.element, field.shape, align=field.group)
        if self.real is None:
            return field, shifted
        return field, shifted, Field(self.real, self.real, field.kind, element_type("bool"), (), align=field.group)

    def columns(self, field: Field, column: Column) -> tuple[Column, ...]:
        """Return a column and those derived from it (see `Derivation`)."""
        import tensorflow as tf

        count = tf.shape(column.values, tf.int64)[0]
        ends = tf.cumsum(column.steps)
        edges = (ends - 1) if self.by > 0 else (ends - column.steps)
        edges = tf.boolean_mask(edges, column.steps > 0)[:, tf.newaxis]
        inside = tf.equal(tf.scatter_nd(edges, tf.ones_like(edges[:, 0]), count[tf.newaxis]), 0)
        start = tf.constant(self._start(field), field.element.graph, [1, *field.rest])
        # The start stands before all values, so that each is one further.
        at = tf.where(inside, tf.range(count) + 1 + self.by, 0)
        shifted = attrs.evolve(column, values=tf.gather(tf.concat([start, column.values], 0), at))
        return (column, shifted) if self.real is None else (column, shifted, attrs.evolve(column, values=inside))

    def _start(self, field: Field) -> NDArray[Any]:
        """Return the value of a step that a record does not have, `(*shape)`, as a graph holds it."""
        start = field.element.zero() if self.start is None else self.start
        try:
            value = np.broadcast_to(exact_array(start, field.element), field.rest)
        except (Mismatch, ValueError) as problem:
            raise OptionError(
                f"previous_step: start: expected a value of field {field.name!r}, {field.element.name} of shape "
                f"{field.rest}: {problem}"
            ) from None
        return field.element.to_graph(value)


def id_of(word: Any, ids: Mapping[Any, int], what: str) -> Any:
    """Look up the id of a word, where there are words; anything else is returned as it is.

    Raises:
        OptionError: the vocabulary has no such word.
    """
    if not ids or not isinstance(word, (str, bytes)):
        return word
    if word not in ids:
        close = did_you_mean(str(word), map(str, ids))
        raise OptionError(
            f"{what}: {word!r} is no word of the vocabulary{close}; a word that the data lack is given to "
            f"Vocabulary.build by reserved=[{word!r}]"
        )
    return ids[word]


def name_shifts(option: str, part: Any, vocabulary: Any = None) -> tuple[Any, list[Shift]]:
    """Name the shifts of inputs, targets or weights: return these with names in their places, and the shifts.

    Args:
        option: which of them.
        part: its value.
        vocabulary: by field, the vocabulary that a start is a word of.

    Raises:
        OptionError: several fields where there is room for one, or a start is no word of the vocabulary.
    """

    def started(shift: Shift) -> Shift:
        ids = getattr((vocabulary or {}).get(shift.source), "ids", {})
        return attrs.evolve(shift, start=id_of(shift.start, ids, "previous_step: start"))

    if isinstance(part, Shifted) and not part.is_one:
        every = list(map(started, part.shifts))
        return tuple(shift.name for shift in every), every
    shifts: list[Shift] = []

    def name(value: Any) -> Any:
        if not isinstance(value, Shifted):
            return value
        if not value.is_one:
            raise OptionError(f"{option}: expected one field in each place, got {[s.name for s in value.shifts]}")
        shifts.append(started(value.shifts[0]))
        return shifts[-1].name

    return map_names(name, part), shifts


@attrs.frozen
class DerivedFields:
    """The fields of a dataset, and those derived from them.

    Attributes:
        stored: the fields that records hold.
        derivations: of these fields, one after the other.
        inputs: as `read` takes them, with names for `next_step` and `previous_step`.
        targets: likewise.
        weights: likewise.
        ids: by name, the ids of the words of fields derived from one with a vocabulary.
    """

    stored: Schema
    derivations: tuple[Derivation, ...]
    inputs: Any
    targets: Any
    weights: Any
    ids: Mapping[str, Mapping[Any, int]] = attrs.field(factory=dict)

    @classmethod
    def of(
        cls,
        schema: Schema,
        chosen: Schema,
        *,
        inputs: Any,
        targets: Any,
        weights: Any,
        missing: Any,
        vocabulary: Any,
        normalize: Any,
        normalize_targets: bool = False,
        horizons: Mapping[str, str | None],
    ) -> DerivedFields:
        """List the derivations that some options of `read` ask for.

        Args:
            schema: the fields that records hold.
            chosen: those that `fields` leaves.
            inputs: as for `read`, like all that follows.
            targets: see there.
            weights: see there.
            missing: see there.
            vocabulary: see there.
            normalize: see there.
            normalize_targets: see there.
            horizons: by name, what the strategy makes of fields (see `Carried.names`).

        Raises:
            SchemaError: there is no field of a name.
            OptionError: nothing can be derived from a field.
        """
        masks = {mask.source: mask for mask in mask_missing(chosen, missing)}
        parts: dict[str, Any] = {}
        shifts: dict[str, list[Shift]] = {}
        for option, part in (("inputs", inputs), ("targets", targets), ("weights", weights)):
            parts[option], shifts[option] = name_shifts(option, part, vocabulary)
        made_of = {field.name: field.name for field in chosen.fields}
        made_of |= {name: source for name, source in horizons.items() if source is not None}
        made_of |= {shift.name: shift.source for of_option in shifts.values() for shift in of_option}
        names_in = {"inputs": names_of, "targets": names_of, "weights": weight_names}
        used = {option: {made_of.get(name) for name in names_in[option](part)} for option, part in parts.items()}
        ids, scales = field_maps(schema, vocabulary, normalize)
        scaled = set(made_of.values()) if inputs is None else used["inputs"]
        scaled = scaled | used["targets"] if normalize_targets else scaled
        scales = {name: scale for name, scale in scales.items() if name in scaled}
        if normalize_targets and normalize is None:
            raise OptionError("normalize_targets: goes with normalize, the statistics to use")
        if normalize is not None and not scales:
            listed = ", ".join(sorted(name for name in scaled if name is not None))
            raise OptionError(
                f"normalize: expected statistics of a field that is read, of {listed[:200] or 'none'}. "
                "Statistics of a dataset normalize its fields of floats; name whole numbers, as in "
                "normalize={'sound': stats['sound']}. Targets stay as stored without normalize_targets=True"
            )
        stored = ("weights",) if normalize_targets else ("targets", "weights")
        # A field that is an input as well as a target is there twice.
        copies = {name: f"as_stored({name})" for name in scales if any(name in used[option] for option in stored)}
        masks |= {copy: Observed(copy) for name, copy in copies.items() if name in masks and is_float(schema[name])}
        for option in stored:
            moved = [attrs.evolve(shift, source=copies.get(shift.source, shift.source)) for shift in shifts[option]]
            names = {name: copies[of] + name.removeprefix(of) for name, of in made_of.items() if of in copies}
            names |= {old.name: new.name for old, new in zip(shifts[option], moved, strict=True)}

            def renamed(name: Any, names: Mapping[str, str] = names) -> Any:
                return names.get(name, name)

            parts[option], shifts[option] = map_names(renamed, parts[option]), moved
        shifts["observed"] = [_observed(each, masks[each.source]) for each in shifts["targets"] if each.source in masks]
        unique = {shift.name: shift for of_option in shifts.values() for shift in of_option}
        # First of all, so that what is missing is filled with the mean, and the next step of a token is an id.
        # Numbers come before ids, which may replace the field that says a record's group.
        maps = [*(attrs.evolve(scale, stored=copies.get(name)) for name, scale in scales.items()), *ids.values()]
        words = {name: vocabulary[source].ids for name, source in made_of.items() if source in ids}
        derivations = (*maps, *masks.values(), *unique.values())
        return cls(schema, derivations, parts["inputs"], parts["targets"], parts["weights"], words)

    @property
    def schema(self) -> Schema:
        """All fields that elements may have."""
        return derived_schema(self.stored, self.derivations)

    def choose(self, chosen: Schema) -> Schema:
        """Return some stored fields, and all derived from them."""
        return derived_schema(chosen, derivations_of(chosen, self.derivations))

    def made_of(self, wanted: Schema) -> set[str]:
        """Return the names of the stored sources of some fields."""
        sources = sources_of(self.derivations)
        return {sources.get(field.name, field.name) for field in wanted.fields}

    def of_fields(self, wanted: Schema) -> tuple[Schema, list[Derivation]]:
        """Return the stored sources of some fields, and the derivations from those."""
        names = self.made_of(wanted)
        used = derivations_of(self.stored.select(names), self.derivations)
        stored = self.stored.select([*names, *(each.beside for each in used if each.beside is not None)])
        return stored, used

    def counts(self, carried: Mapping[str, str | None]) -> dict[str, tuple[str, ...]]:
        """Return, by target, the names of what is 0 or False where an entry of it does not count.

        Args:
            carried: what a strategy makes of fields (see `Carried.names`).

        Raises:
            OptionError: it is unknown for a target.
        """
        shifts = {each.name: each for each in self.derivations if isinstance(each, Shift)}
        observed = {each.source: each for each in self.derivations if isinstance(each, Observed)}
        counts = {}
        for name in names_of(self.targets):
            shift = shifts.get(name)
            made_of = shift.source if shift else carried.get(name)
            mask = observed.get(made_of or name)
            of = [shift.real] if shift and shift.real else []
            if mask is not None:
                if self.schema[mask.source].is_ragged:
                    raise OptionError(
                        f"missing: {mask.source!r} has steps of unknown length, of which a loss averages over padding, "
                        "so that it is no target with missing values; leave it out of missing="
                    )
                # Of what a strategy makes of a field, it makes the same of what was observed.
                of.append(_observed(shift, mask).name if shift else f"{mask.name}{name.removeprefix(mask.source)}")
            counts[name] = tuple(of)
        return counts


def _observed(shift: Shift, mask: Observed) -> Shift:
    """Return the shift of what says where the values of a shift were observed; a start counts as observed."""
    return Shift(mask.name, shift.by, 1.0 if shift.by < 0 else None)


@attrs.frozen
class Observed(Derivation):
    """A float field with 0 in place of NaN, and beside it float32 of its shape: 1 where it was observed, 0 where not.

    Floats, since models concatenate them to the values, multiply with them, and take them for sample weights.
    """

    @property
    def name(self) -> str:
        """Name of the field that says what was observed."""
        return f"{self.source}_observed"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the derived fields."""
        return (self.name,)

    @property
    def padded_alike(self) -> tuple[str, ...]:
        """Names of the derived fields whose padding is that of the source: none, for padding is not observed."""
        return ()

    def fields(self, field: Field) -> tuple[Field, ...]:
        """Return a field and those derived from it (see `Derivation`)."""
        if field.sparse is not None or not is_float(field):
            what = "is sparse" if field.sparse is not None else f"is of {field.element.name}, which has no NaN"
            raise OptionError(f"missing: expected a float field, but {field.name!r} {what}; name others in missing=")
        mask = Field(self.name, self.name, field.kind, element_type("float32"), field.shape, align=field.group)
        return field, mask

    def columns(self, field: Field, column: Column) -> tuple[Column, ...]:  # noqa: ARG002 - as every derivation has it
        """Return a column and those derived from it (see `Derivation`)."""
        import tensorflow as tf

        missing = tf.math.is_nan(column.values)
        filled = tf.where(missing, tf.zeros([], column.values.dtype), column.values)
        return attrs.evolve(column, values=filled), attrs.evolve(column, values=tf.cast(~missing, tf.float32))


def mask_missing(schema: Schema, missing: Any) -> list[Observed]:
    """Derive masks of the missing values of some fields, or of all float fields for `"mask"`.

    Raises:
        OptionError: a field is none of floats, or one has the name of what would say what was observed of it.
        SchemaError: there is no field of a name.
    """
    if missing is None:
        return []
    if isinstance(missing, Mapping) and all(how == "mask" for how in missing.values()):
        names = [schema[name].name for name in missing]
    elif isinstance(missing, str) and missing == "mask":
        names = [field.name for field in schema.fields if is_float(field)]
        if not names:
            raise OptionError(f"missing: {schema.name} has no float field, and other values are never missing")
    else:
        raise OptionError(f"missing: expected 'mask', or a mapping of fields to 'mask', got {missing!r}")
    masks = [Observed(name) for name in names]
    taken = {field.name for field in schema.fields}
    for mask in masks:
        if mask.name in taken:
            raise OptionError(
                f"missing: {schema.name} has a field {mask.name!r}, the name of what says where {mask.source!r} was "
                "observed; rename it"
            )
    return masks


def is_float(field: Field) -> bool:
    """Check whether a field holds floats, of which NaN may stand for a missing one."""
    return field.element.has_nan and field.element.numpy.kind != "c"


def field_maps(schema: Schema, vocabulary: Any, normalize: Any) -> tuple[dict[str, FieldMap], dict[str, FieldMap]]:
    """Return by field the maps to ids, and those to normalized numbers.

    Args:
        schema: of the fields as they are stored.
        vocabulary: by field, the vocabulary that makes ids of it; None for none.
        normalize: statistics of a dataset, or by field those of each; None for none.

    Raises:
        OptionError: these are no such things, or a field is mapped twice.
        SchemaError: there is no field of a name.
    """
    whole = getattr(normalize, "normalizers", None)
    if whole is not None:
        known = {field.name for field in schema.fields}
        normalize = {name: stats for name, stats in whole().items() if name in known}
    ids = _maps(schema, "vocabulary", vocabulary, "vocabularies")
    scales = _maps(schema, "normalize", normalize, "statistics, such as those of seqrecorder.stats")
    for name in scales:
        if name in ids:
            raise OptionError(f"normalize: {name!r} becomes ids of a vocabulary already; leave one of them out")
    return ids, scales


def _maps(schema: Schema, option: str, objects: Any, what: str) -> dict[str, FieldMap]:
    if objects is None:
        return {}
    if not isinstance(objects, Mapping) or not all(hasattr(each, "field_map") for each in objects.values()):
        raise OptionError(f"{option}: expected a mapping of field to {what}, got {objects!r:.200}")
    return {name: each.field_map(schema[name]) for name, each in objects.items()}


def names_of(part: Any) -> list[str]:
    """Return the names in inputs, targets or weights.

    Raises:
        OptionError: these are no names.
    """
    if part is None:
        return []
    if isinstance(part, str):
        return [part]
    if isinstance(part, (Mapping, Sequence)):
        names = list(part.values() if isinstance(part, Mapping) else part)
        if all(isinstance(name, str) for name in names):
            return names
    raise OptionError(f"inputs and targets: expected a name, a sequence of names or a mapping, got {part!r}")


def weight_names(weights: Any) -> list[str]:
    """Return the names in weights, where several may stand in the place of one target, and False and None for none.

    Raises:
        OptionError: these are no names.
    """
    options = list(weights.values() if isinstance(weights, Mapping) else weights) if _is_several(weights) else [weights]
    parts = [part for option in options for part in (option if _is_several(option) else [option])]
    names = [part for part in parts if part is not None and part is not False]
    if all(isinstance(name, str) for name in names):
        return names
    raise OptionError(
        "weights: expected a name, or names whose weights are multiplied; of several targets, structured as they are; "
        f"got {weights!r}"
    )


def _is_several(part: Any) -> bool:
    return isinstance(part, (Mapping, Sequence)) and not isinstance(part, str)


def map_names(function: Callable[[Any], Any], part: Any) -> Any:
    """Apply a function to each name in inputs, targets or weights; the result is structured as they are."""
    if isinstance(part, Mapping):
        return {key: map_names(function, each) for key, each in part.items()}
    return tuple(map_names(function, each) for each in part) if _is_several(part) else function(part)


Output = Literal["dict", "tuple", "record"]
OUTPUTS = ("dict", "tuple", "record")


@attrs.frozen
class OutputOptions:
    """Form of the elements.

    Attributes:
        derived: the fields, and the inputs, targets and weights that the model takes.
        strategy: what makes the batches, and names their lengths, masks and seeds.
        output: `dict`, `tuple` in declaration order, or `record`.
        class_weight: by class, its weight; structured as the targets where these are several.
        counts: by target, the names of what is 0 or False where an entry of it does not count.
        index_name: name of the positions of records, or None.
        carried: what elements carry besides; None for single records.
        images: by name, the decoders of what is encoded images until an element is complete.
    """

    derived: DerivedFields
    strategy: Strategy
    output: Output
    class_weight: Any
    counts: Mapping[str, Sequence[str]]
    index_name: str | None
    carried: Carried | None
    images: Mapping[str, ImageDecoder]

    @property
    def sizes(self) -> dict[str, str]:
        """By name of the sizes of images, that of the images."""
        return {f"{name}_size": name for name, decoder in self.images.items() if decoder.size is None}

    def __attrs_post_init__(self) -> None:
        if self.output not in OUTPUTS:
            raise OptionError(f"output: expected one of {', '.join(OUTPUTS)}, got {self.output!r}")
        derived = self.derived
        if derived.inputs is None and (derived.targets is not None or derived.weights not in (None, False)):
            raise OptionError("targets and weights go with inputs: name the inputs of the model too")
        if self.class_weight is not None and (derived.targets is None or derived.weights is False):
            raise OptionError("class_weight: goes with targets, and with sample weights: leave weights=False out")
        if derived.inputs is not None and self.output != "dict":
            raise OptionError("inputs and targets shape the elements already: leave `output` out")


def mask_of(group: str, schema: Schema, options: OutputOptions) -> str:
    """Return the name of the mask of an alignment group."""
    return str(options.strategy.mask_name) if group == schema.groups[0] else f"{group}_{options.strategy.mask_name}"
