"""Fields computed while reading: shifted steps, normalized values, vocabulary ids, and masks of missing values.

The structure of elements is in `elements`, masks and sample weights in `masks_and_weights`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import attrs
import numpy as np

from seqrecorder.codec.graph_ops import Derivation, derivations_of, derived_schema, sources_of
from seqrecorder.errors import OptionError, did_you_mean
from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.exact_values import Mismatch, exact_array
from seqrecorder.schema.field import Field

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from seqrecorder.codec.columns import Column
    from seqrecorder.codec.graph_ops import FieldMap
    from seqrecorder.codec.images import ImageDecoder
    from seqrecorder.reading.batching.strategy import Carried, Strategy
    from seqrecorder.schema.schema import Schema


@attrs.frozen
class Shifted:
    """Fields to shift, as selected by `next_step` or `previous_step`."""

    shifts: tuple[Shift, ...]
    is_one: bool


def next_step(field: str | Sequence[str]) -> Shifted:
    """Select the next step of a field, for `inputs`, `targets` and `weights` of `read`.

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

    The next step is taken from the stored record, even if a segment, window or crop ends before it, or if `steps` or
    `too_long` cut it off. If `steps` or `Crop` has a stride, the next step is one stride away; `Window` with a stride
    does not support next steps. The last step of a record has no next step: the value there is zero (or empty text),
    and its sample weight as a target is 0.

    Args:
        field: name of a feature list without ragged steps, or several names to select a tuple of fields.
    """
    return _shifted("next_step", field, 1, None)


def previous_step(field: str | Sequence[str], *, start: Any = None) -> Shifted:
    """Select the previous step of a field, for `inputs`, `targets` and `weights` of `read`.

    Use it for teacher forcing, in which the decoder gets the correct output of the previous step as input.

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

    At the start of a segment, window or crop, the previous step is taken from the stored record.

    Args:
        field: name of a feature list without ragged steps, or several names to select a tuple of fields.
        start: value before the first step of a record, broadcast to the shape of a step. None means zero, or empty
            text.
    """
    return _shifted("previous_step", field, -1, start)


def _shifted(function: str, field: Any, by: int, start: Any) -> Shifted:
    names = (field,) if isinstance(field, str) else tuple(field) if isinstance(field, Sequence) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise OptionError(f"{function}: expected the name of a feature list, or a sequence of names, got {field!r}")
    return Shifted(tuple(Shift(name, by, start) for name in names), isinstance(field, str))


@attrs.frozen
class Shift(Derivation):
    """Derivation of the next or the previous step of a feature list.

    `by` is 1 for the next step, and -1 for the previous step. Only the next step has a mask, whose name is in `real`.
    """

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
        """Name of the bool mask of the steps that have a next step.

        It is None for previous steps, which have no mask.
        """
        return f"has_next_step({self.source})" if self.by > 0 else None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the derived fields."""
        return (self.name,) if self.real is None else (self.name, self.real)

    def fields(self, field: Field) -> tuple[Field, ...]:
        """Return the field and the fields derived from it (see `Derivation`)."""
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
        """Return the column and the columns derived from it (see `Derivation`)."""
        import tensorflow as tf

        count = tf.shape(column.values, tf.int64)[0]
        ends = tf.cumsum(column.steps)
        edges = (ends - 1) if self.by > 0 else (ends - column.steps)
        edges = tf.boolean_mask(edges, column.steps > 0)[:, tf.newaxis]
        inside = tf.equal(tf.scatter_nd(edges, tf.ones_like(edges[:, 0]), count[tf.newaxis]), 0)
        start = tf.constant(self._start(field), field.element.graph, [1, *field.rest])
        # The start value is prepended, so all indices are one higher.
        at = tf.where(inside, tf.range(count) + 1 + self.by, 0)
        shifted = attrs.evolve(column, values=tf.gather(tf.concat([start, column.values], 0), at))
        return (column, shifted) if self.real is None else (column, shifted, attrs.evolve(column, values=inside))

    def _start(self, field: Field) -> NDArray[Any]:
        """Convert the start value to a step of the field.

        The result is an array of shape `(*shape)`, in the dtype that graphs use.
        """
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
    """Convert a word to its id in the vocabulary.

    A value that is not text is returned unchanged. So is every value if there is no vocabulary.

    Raises:
        OptionError: the vocabulary does not contain the word.
    """
    if not ids or not isinstance(word, (str, bytes)):
        return word
    if word not in ids:
        close = did_you_mean(str(word), map(str, ids))
        raise OptionError(
            f"{what}: {word!r} is no word of the vocabulary{close}: max_size or min_count left it out, or the "
            f"data lack it; leave it out here, or build the vocabulary without these limits or with reserved=[{word!r}]"
        )
    return ids[word]


def name_shifts(option: str, part: Any, vocabulary: Any = None) -> tuple[Any, list[Shift]]:
    """Replace `next_step` and `previous_step` in an option with field names.

    The result is the new option, and the shifts that were replaced.

    Args:
        option: name of the option: inputs, targets or weights.
        part: value of the option.
        vocabulary: mapping from field to the vocabulary of its start value.

    Raises:
        OptionError: several fields are listed where one is expected, or a start value is not in the vocabulary.
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
    """Fields of a dataset, and the fields derived from them.

    Attributes:
        stored: fields of the records.
        derivations: derivations from these fields, in order of application.
        inputs: option of `read`, with names instead of `next_step` and `previous_step`.
        targets: option of `read`, in the same form as `inputs`.
        weights: option of `read`, in the same form as `inputs`.
        ids: for each name derived from a field with a vocabulary, the mapping from word to id.
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
        """Build the derivations that the options of `read` require.

        Args:
            schema: fields of the records.
            chosen: fields that the option `fields` selects.
            inputs: inputs of `model.fit`; see `read`.
            targets: targets of `model.fit`; see `read`.
            weights: names of fields with sample weights; see `read`.
            missing: treatment of NaN; see `read`.
            vocabulary: mapping from field to its `Vocabulary`; see `read`.
            normalize: statistics to normalize fields with; see `read`.
            normalize_targets: whether to normalize targets, too.
            horizons: mapping from each tensor that the strategy adds to its source field (see `Carried.names`).

        Raises:
            SchemaError: an option names a field that does not exist.
            OptionError: a field does not fit an option.
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
        shifted = {shift.name for shift in shifts["targets"]}
        for name in set(names_of(parts["targets"])) - shifted if weights is False else ():
            source = made_of.get(name)
            mask = f"{masks[source].name}{name.removeprefix(source)}" if source in masks else None
            if mask is not None and mask not in {*names_of(parts["inputs"]), *names_of(parts["targets"])}:
                raise OptionError(
                    f"weights=False: the target {name!r} is 0 where its value is missing, which only weights tell: "
                    f"leave weights out, or name {mask!r} among the inputs or targets, for a loss of your own"
                )
        ids, scales = field_maps(schema, vocabulary, normalize)
        scaled = set(made_of.values()) if inputs is None else used["inputs"]
        scaled = scaled | used["targets"] if normalize_targets else scaled
        scales = {name: scale for name, scale in scales.items() if name in scaled}
        for scale in scales.values():
            if weights is not False and scale.beside is not None and scale.beside in used["targets"]:
                raise OptionError(f"normalize: statistics by {scale.beside!r}, a target, would hide it: pass others")
        if normalize_targets and normalize is None:
            raise OptionError("normalize_targets: goes with normalize, the statistics to use")
        if normalize is not None and not scales and None not in scaled:  # None for a name that `Elements` may reject
            listed = ", ".join(sorted(map(str, scaled)))
            raise OptionError(
                f"normalize: expected statistics of a field that is read, of {listed[:200] or 'none'}. "
                "Statistics of a dataset normalize its fields of floats; name whole numbers, as in "
                "normalize={'sound': stats['sound']}. Targets stay as stored without normalize_targets=True"
            )
        stored = ("weights",) if normalize_targets else ("targets", "weights")
        # If a normalized input is also a target or weight, the target or weight needs a copy that stays as stored.
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
        # Maps come first, so that missing values become the mean and the next step of a token is an id. Normalization
        # precedes ids, because ids may replace the field whose value selects a record's statistics.
        maps = [*(attrs.evolve(scale, stored=copies.get(name)) for name, scale in scales.items()), *ids.values()]
        words = {name: vocabulary[source].ids for name, source in made_of.items() if source in ids}
        derivations = (*maps, *masks.values(), *unique.values())
        return cls(schema, derivations, parts["inputs"], parts["targets"], parts["weights"], words)

    @property
    def schema(self) -> Schema:
        """Schema of all fields that elements may have."""
        return derived_schema(self.stored, self.derivations)

    def choose(self, chosen: Schema) -> Schema:
        """Add to the chosen stored fields all fields that are derived from them."""
        return derived_schema(chosen, derivations_of(chosen, self.derivations))

    def made_of(self, wanted: Schema) -> set[str]:
        """Return the names of the stored fields from which the wanted fields are derived."""
        sources = sources_of(self.derivations)
        return {sources.get(field.name, field.name) for field in wanted.fields}

    def of_fields(self, wanted: Schema) -> tuple[Schema, list[Derivation]]:
        """Return the stored fields from which the wanted fields are derived, and the derivations to apply."""
        names = self.made_of(wanted)
        used = derivations_of(self.stored.select(names), self.derivations)
        stored = self.stored.select([*names, *(each.beside for each in used if each.beside is not None)])
        return stored, used

    def counts(self, carried: Mapping[str, str | None]) -> dict[str, tuple[str, ...]]:
        """Map each target to the names of its masks.

        The masks are 0 or False for the entries that a loss must ignore.

        Args:
            carried: mapping from each tensor that the strategy adds to its source field (see `Carried.names`).

        Raises:
            OptionError: a target with missing values has ragged steps.
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
                # A strategy adds the same tensors for the mask as for the field.
                of.append(_observed(shift, mask).name if shift else f"{mask.name}{name.removeprefix(mask.source)}")
            counts[name] = tuple(of)
        return counts


def _observed(shift: Shift, mask: Observed) -> Shift:
    """Shift a mask of observed values in the same way as the values.

    A start value counts as observed.
    """
    return Shift(mask.name, shift.by, 1.0 if shift.by < 0 else None)


@attrs.frozen
class Observed(Derivation):
    """Derivation that replaces NaN in a float field with 0, and adds a mask of the observed values.

    The mask has the shape of the field, and is 1 for observed values and 0 for others. It is float32 because models
    concatenate it to the values, multiply by it, or use it as sample weights.
    """

    @property
    def name(self) -> str:
        """Name of the mask of observed values."""
        return f"{self.source}_observed"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the derived fields."""
        return (self.name,)

    @property
    def padded_alike(self) -> tuple[str, ...]:
        """Names of derived fields that are padded like the source.

        There are none, because padding counts as missing.
        """
        return ()

    def fields(self, field: Field) -> tuple[Field, ...]:
        """Return the field and the fields derived from it (see `Derivation`)."""
        if field.sparse is not None or not is_float(field):
            what = "is sparse" if field.sparse is not None else f"is of {field.element.name}, which has no NaN"
            raise OptionError(f"missing: expected a float field, but {field.name!r} {what}; name others in missing=")
        mask = Field(self.name, self.name, field.kind, element_type("float32"), field.shape, align=field.group)
        return field, mask

    def columns(self, field: Field, column: Column) -> tuple[Column, ...]:  # noqa: ARG002 - a parameter of all derivations
        """Return the column and the columns derived from it (see `Derivation`)."""
        import tensorflow as tf

        missing = tf.math.is_nan(column.values)
        filled = tf.where(missing, tf.zeros([], column.values.dtype), column.values)
        return attrs.evolve(column, values=filled), attrs.evolve(column, values=tf.cast(~missing, tf.float32))


def mask_missing(schema: Schema, missing: Any) -> list[Observed]:
    """Build the masks that the option `missing` requests.

    `"mask"` requests one for every float field that is not sparse.

    Raises:
        OptionError: a field does not contain floats, or another field has the name of its mask.
        SchemaError: an option names a field that does not exist.
    """
    if missing is None:
        return []
    if isinstance(missing, Mapping) and all(how == "mask" for how in missing.values()):
        names = [schema[name].name for name in missing]
    elif isinstance(missing, str) and missing == "mask":
        names = [field.name for field in schema.fields if is_float(field) and field.sparse is None]
        if not names:
            raise OptionError(f"missing: {schema.name} has no float field that is not sparse, and others have no mask")
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
    """Check whether a field contains real floats, in which NaN can mean a missing value."""
    return field.element.has_nan and field.element.numpy.kind != "c"


def field_maps(schema: Schema, vocabulary: Any, normalize: Any) -> tuple[dict[str, FieldMap], dict[str, FieldMap]]:
    """Build the derivations of vocabulary ids and of normalized values.

    Args:
        schema: stored fields.
        vocabulary: mapping from field to its vocabulary; None for no ids.
        normalize: statistics of a dataset, or mapping from field to statistics; None for no normalization.

    Raises:
        OptionError: an argument has the wrong type, or a field has both a vocabulary and statistics.
        SchemaError: an option names a field that does not exist.
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
    """List the names in inputs or targets.

    Raises:
        OptionError: a value is not a name.
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
    """List the names in the option `weights`.

    A target may have one name, several names, None or False.

    Raises:
        OptionError: a value is not a name.
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
    """Apply a function to each name in inputs, targets or weights.

    The result has the same structure as the names.
    """
    if isinstance(part, Mapping):
        return {key: map_names(function, each) for key, each in part.items()}
    return tuple(map_names(function, each) for each in part) if _is_several(part) else function(part)


Output = Literal["dict", "tuple", "record"]
OUTPUTS = ("dict", "tuple", "record")


@attrs.frozen
class OutputOptions:
    """Options that determine the form of the elements.

    Attributes:
        derived: stored and derived fields, with the inputs, targets and weights of the model.
        strategy: strategy that makes the batches and names their lengths, masks and seeds.
        output: `dict`, `tuple` (in declaration order) or `record`.
        class_weight: mapping from class to weight; for several targets, a structure of such mappings.
        counts: mapping from target to the names of its masks, which are 0 or False for entries to ignore.
        index_name: name of the tensor with the positions of records; None for no such tensor.
        carried: description of the tensors that the strategy adds; None for single records.
        images: mapping from image tensor to its decoder; images stay encoded until an element is complete.
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
        """Mapping from the name of each tensor of image sizes to the name of its image tensor."""
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
