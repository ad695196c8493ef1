"""Parsing of serialized records to tensors, in graphs.

`Parser` calls TensorFlow's parse ops and handles dtypes, step shapes, buffers, packing, sparsity, defaults and
presence. Decoding to record objects is in `decode`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.codec.columns import Column
from seqrecorder.codec.decode import find_features, fixed_values, of_graphs, presence_of, reconcile, with_absent
from seqrecorder.codec.elements import gather_numbered, tensor_buffers
from seqrecorder.codec.graph_ops import (
    MARGINS,
    Padding,
    ascending,
    check_items,
    checked,
    cropped_lengths,
    cropped_positions,
    cropped_stretches,
    decode_buffers,
    derive_columns,
    derived_schema,
    differences,
    first_of_sparse,
    kept_of,
    of_all_rows,
    pad_steps,
    padded,
    records_called,
    sources_of,
    sums_of_rows,
    to_declared,
    whole_buffers,
    whole_rows,
    with_shape,
    without_margins,
)
from seqrecorder.codec.images import ImageDecoder, decode_images, not_empty
from seqrecorder.codec.layouts import Specs, require_bounds
from seqrecorder.errors import OptionError, SchemaError
from seqrecorder.schema.field import DEFAULT_GROUP, value_features
from seqrecorder.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seqrecorder.codec.graph_ops import Crop, Derivation
    from seqrecorder.codec.layouts import Layout, Spec
    from seqrecorder.schema.field import Field


def column_of(field: Field, features: dict[str, Any], specs: Specs, crop: Crop) -> tuple[Column, Any]:
    """Decode a field to a flat column.

    Returns:
        The column, and the number of steps or values in each record before cropping.
    """
    if field.sparse is not None:
        return _sparse_column(field, features, crop)
    if not field.is_list:
        values, counts = _ragged_values(field, features[field.feature])
        return Column(values, counts=counts), counts
    if specs.layout != "steps" or field.packed:  # one feature has the whole list
        return _packed_column(field, features[field.feature], specs.layout, crop)
    return _list_column(field, features[field.feature], crop)


def fixed_values_of(field: Field, features: dict[str, Any], stated: Any, holds: Any) -> tuple[Any, Any]:
    """Decode a context field of known shape.

    Args:
        field: declaration of the field.
        features: output of the parse op.
        stated: presence flags of an optional field, as in `decode.presence_of`.
        holds: mask of the records that have the feature; None if a later check finds the missing ones.

    Returns:
        The values of the records that have one, and the mask of these records, bool `(n,)`.
    """
    or_none = True if holds is None else ~holds if stated is None else ~holds | (stated >= 0)
    ragged = features[field.feature]
    items = differences(ragged.row_splits)
    expected = 1 if field.in_items else field.count
    flat = check_items(ragged.values, field, items, expected, or_none=or_none)
    return with_shape(_elements(field, flat)[0], field), items > 0


def _packed_column(field: Field, ragged: Any, layout: Layout, crop: Crop) -> tuple[Column, Any]:
    """Decode a list that is stored as one feature per record.

    Returns:
        The column, and the number of steps in each record before cropping.
    """
    import tensorflow as tf

    if layout == "example":
        splits, flat = ragged.row_splits, ragged.values
    else:
        splits, flat = tf.gather(ragged.values.row_splits, ragged.row_splits), ragged.flat_values
    if crop and field.buffered:
        return _cut_buffers(field, splits, flat, crop)
    values, sizes = _elements(field, flat, whole=True)
    if sizes is not None:
        steps = sums_of_rows(sizes, splits)
    else:
        items = differences(splits)
        values, steps = (values, items) if field.in_items else whole_rows(values, field, items)
    values = with_shape(values, field)
    if not crop:
        return Column(values, steps=steps), steps
    kept, positions = cropped_positions(steps, crop)
    return Column(tf.gather(values, positions), steps=kept), steps


def _list_column(field: Field, ragged: Any, crop: Crop) -> tuple[Column, Any]:
    """Decode a list that is stored as one feature per step.

    Returns:
        The column, and the number of steps in each record before cropping.
    """
    whole = differences(ragged.row_splits)
    steps, inner = _crop_rows(whole, ragged.values, crop)  # one row per step
    if field.is_ragged:
        values, counts = _ragged_values(field, inner)
        return Column(values, steps=steps, counts=counts), whole
    expected = 1 if field.in_items else field.count
    flat = check_items(inner.values, field, differences(inner.row_splits), expected)
    return Column(with_shape(_elements(field, flat)[0], field), steps=steps), whole


def _sparse_column(field: Field, features: dict[str, Any], crop: Crop) -> tuple[Column, Any]:
    """Decode a sparse field to a column.

    Returns:
        The column, and the number of steps in each record before cropping, or of values for a context field.
    """
    import tensorflow as tf

    indices, values = (features[f"{field.feature}/{part}"] for part in ("indices", "values"))
    steps = whole = None
    expected = f"field {field.name!r}: as many indices as values are expected in {field.feature!r}, got"
    if field.is_list:
        whole, other = differences(indices.row_splits), differences(values.row_splits)
        whole = checked(whole, tf.equal(whole, other), expected, whole, other)
        steps, indices = _crop_rows(whole, indices.values, crop)
        values = _crop_rows(whole, values.values, crop)[1]
    elements, sizes = _elements(field, values.values)
    counts = differences(indices.row_splits)
    other = differences(values.row_splits) if sizes is None else sums_of_rows(sizes, values.row_splits)
    counts = checked(counts, tf.equal(counts, other), expected, counts, other)
    flat, elements = ascending(field, indices.values, elements, counts)
    return Column(elements, steps=steps, counts=counts, indices=flat), counts if whole is None else whole


def _cut_buffers(field: Field, splits: Any, buffers: Any, crop: Crop) -> tuple[Column, Any]:
    """Decode the kept steps of a list that is stored as buffers.

    The bytes before and after the kept steps are removed first.

    Args:
        field: field with whole sequences stored as buffers.
        splits: row splits of the buffers of each record, usually one buffer per record.
        buffers: buffers, string `(n,)`.
        crop: steps to keep.

    Returns:
        The column, and the number of steps in each record before cropping.
    """
    import tensorflow as tf

    buffers, sizes = whole_buffers(buffers, field)
    ends = tf.concat([[0], tf.cumsum(sizes)], 0)
    begins = tf.gather(ends, splits)
    whole = differences(begins)
    kept, first, step = cropped_stretches(whole, crop)
    last = tf.minimum(whole, first + kept * step)
    first = tf.minimum(first, last)
    before = ends[:-1] - tf.repeat(begins[:-1], differences(splits))  # number of steps in earlier buffers of the record

    def inside(positions: Any) -> Any:
        return tf.clip_by_value(tf.repeat(positions, differences(splits)) - before, 0, sizes)

    start, stop = inside(first), inside(last)
    width = field.element.itemsize * field.count
    kept_bytes = tf.strings.substr(buffers, start * width, (stop - start) * width)
    values = with_shape(_elements(field, kept_bytes, whole=True)[0], field)
    if step > 1:
        starts = tf.cumsum(last - first, exclusive=True)
        values = tf.gather(values, tf.ragged.range(starts, starts + kept * step - step + 1, step).flat_values)
    return Column(values, steps=kept), whole


def _ragged_values(field: Field, ragged: Any) -> tuple[Any, Any]:
    """Decode values of unknown length to flat values.

    Returns:
        The values, and the number of arrays of the known dimensions in each row of the ragged tensor.
    """
    values, sizes = _elements(field, ragged.values)
    if sizes is None:
        values, counts = whole_rows(values, field, differences(ragged.row_splits))
    else:
        counts = sums_of_rows(sizes, ragged.row_splits)
    return with_shape(values, field), counts


def _crop_rows(whole: Any, inner: Any, crop: Crop) -> tuple[Any, Any]:
    """Crop a tensor with one row per step.

    Returns:
        The number of kept steps in each record, and the rows of these steps.
    """
    import tensorflow as tf

    if not crop:
        return whole, inner
    steps, positions = cropped_positions(whole, crop)
    return steps, tf.gather(inner, positions)


def _elements(field: Field, flat: Any, *, whole: bool = False) -> tuple[Any, Any]:
    """Decode flat items to the declared dtype.

    Returns:
        The values, and the number of arrays of the known dimensions in each item. Instead of the numbers, None is
        returned if each item is exactly one array, or one element.
    """
    if field.is_image:
        return decode_images(flat, field), None
    if field.storage == "tensor":
        return decode_buffers(tensor_buffers(flat, field), field, fixed=not field.is_ragged)
    if field.buffered:
        return decode_buffers(flat, field, fixed=not (whole or field.is_ragged or field.sparse is not None))
    return to_declared(flat, field), None


def encoded_images(schema: Schema, resize: Mapping[str, Any] | None = None) -> tuple[Schema, dict[str, ImageDecoder]]:
    """Replace images of varying size, and images to resize, with their encoded bytes.

    Args:
        schema: schema of the records.
        resize: mapping of field name to (height, width), for the fields to resize.

    Returns:
        The new schema, and the decoder of each replaced field.

    Raises:
        OptionError: a field of `resize` has no images, or a size is invalid.
        SchemaError: a field of `resize` does not exist.
    """
    if not isinstance(resize or {}, Mapping):
        raise OptionError(f"resize: expected a mapping of field to (height, width), got {resize!r}")
    sizes = {name: _size(schema[name], size) for name, size in (resize or {}).items()}
    decoders = {f.name: ImageDecoder(f, sizes.get(f.name)) for f in schema.fields if f.any_size or f.name in sizes}
    if not decoders:
        return schema, {}
    fields = tuple(decoders[field.name].stored if field.name in decoders else field for field in schema.fields)
    return Schema(schema.name, fields, schema.record_class), decoders


def images_of(
    schema: Schema, sources: Mapping[str, str], decoders: Mapping[str, ImageDecoder]
) -> dict[str, ImageDecoder]:
    """Find the decoders of fields that are derived from encoded images, such as the image of the next step.

    Args:
        schema: schema with all fields.
        sources: mapping of the name of each derived field to that of its source field.
        decoders: mapping of the name of each source field to its decoder.
    """
    of_images = {name: source for name, source in sources.items() if source in decoders}
    return {
        field.name: decoders[of_images[field.name]]
        for field in schema.fields
        if field.name in of_images and field.element.is_text
    }


def _size(field: Field, size: Any) -> tuple[int, int]:
    if not field.is_image:
        raise OptionError(f"resize: expected fields with storage='png' or 'jpeg', got {field.name!r}")
    two = isinstance(size, (tuple, list)) and len(size) == 2  # noqa: PLR2004 - height and width
    if not two or not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in size):
        raise OptionError(f"resize: expected (height, width) for {field.name!r}, such as (64, 64), got {size!r}")
    return size[0], size[1]


SEQUENCE_LENGTH = "sequence_length"


def length_name(group: str) -> str:
    """Return the key for the lengths of an alignment group in a batch."""
    return SEQUENCE_LENGTH if group == DEFAULT_GROUP else f"{group}_length"


@attrs.frozen
class _Parsed:
    """Parsed and checked records.

    Attributes:
        features: output of the parse op.
        columns: mapping of field to flat column, for the fields that the op does not finish.
        whole: mapping of feature list to the number of steps of each record before cropping.
        lengths: mapping of feature list to the number of steps of each record after cropping, 0 if it has no value.
        present: mapping of optional field to the mask of the records with a value.
        of_group: mapping of alignment group to the length of each record after cropping.
    """

    features: dict[str, Any]
    columns: dict[str, Column] = attrs.field(factory=dict)
    whole: dict[str, Any] = attrs.field(factory=dict)
    lengths: dict[str, Any] = attrs.field(factory=dict)
    present: dict[str, Any] = attrs.field(factory=dict)
    of_group: dict[str, Any] = attrs.field(factory=dict)


class Parser:
    """Parser of serialized records of one schema and layout.

    Args:
        schema: schema of the records.
        layout: layout of sequences in the messages.
        crops: mapping of alignment group to the steps to keep; all steps of other groups are kept.
        where: label of the records in TensorFlow's errors; "" for none.
        derivations: derivations to apply, in order.
        images: mapping of field name to decoder, for encoded images; the parser adds decoders for images of any size.

    Attributes:
        stored: schema of the stored fields.
        schema: schema of the stored and derived fields.
        images: mapping of stored or derived field to the decoder of its images in complete batches.

    Raises:
        OptionError: the layout cannot store the bounds of ragged or sparse steps, or a derivation maps a field of
            images.
    """

    def __init__(
        self,
        schema: Schema,
        layout: Layout = "steps",
        crops: Mapping[str, Crop] | None = None,
        where: str = "",
        derivations: Sequence[Derivation] = (),
        *,
        images: Mapping[str, ImageDecoder] | None = None,
    ) -> None:
        schema, of_any_size = encoded_images(schema)
        require_bounds(schema.fields, layout)
        self.where = where
        self.stored = schema
        self.schema = derived_schema(schema, derivations)
        self.derivations = derivations
        self._numbered = [field for field in schema.fields if field.is_numbered]
        self.layout: Layout = layout
        self.crops: Mapping[str, Crop] = {group: crop for group, crop in (crops or {}).items() if crop}
        fields = {field.name for field in schema.fields}
        decoders = {**of_any_size, **{name: each for name, each in (images or {}).items() if name in fields}}
        mapped = [name for name in decoders if not self.schema[name].element.is_text]
        if mapped:
            raise OptionError(f"vocabulary: expected fields of text or numbers, got {mapped[0]!r}, which holds images")
        self.images = decoders | images_of(self.schema, sources_of(derivations), decoders)
        flat = {name for each in derivations for name in (each.source, each.beside) if name is not None}
        self.specs = Specs(schema, layout, self.crops, flat | set(decoders))
        # Derivations that use neighbouring steps need one additional step around a crop, which is dropped afterwards.
        self._sources = sources_of(derivations)
        around = {self._sources.get(each.source, each.source) for each in derivations if each.looks_around}
        self._wide = {field.name for field in schema.fields if field.name in around and field.group in self.crops}

    def cropped(self, crops: Mapping[str, Crop]) -> Parser:
        """Return a parser for the same fields with other crops."""
        return Parser(self.stored, self.layout, crops, self.where, self.derivations, images=self.images)

    def parse_columns(self, serialized: Any) -> tuple[dict[str, Column], dict[str, Any]]:
        """Parse every field to a flat column.

        The checks are the same as in `parse_batch`, which leaves more of the work to the parse op.

        Args:
            serialized: serialized records, string `(n,)`.

        Returns:
            The columns, and the lengths of the records in each alignment group.
        """
        import tensorflow as tf

        with records_called(self.where):
            parsed = self._parsed(serialized, self.specs.flat(), flat=True)
            columns = dict(parsed.columns)
            self._derive(columns, parsed)
        for field in self.schema.fields:
            if field.is_list:
                with tf.control_dependencies([parsed.of_group[field.group]]):
                    columns[field.name] = attrs.evolve(
                        columns[field.name], values=tf.identity(columns[field.name].values)
                    )
        return columns, parsed.of_group

    def parse_batch(self, serialized: Any, padding: Padding | None = None) -> dict[str, Any]:
        """Parse records to the tensors of a padded batch.

        Args:
            serialized: serialized records, string `(n,)`.
            padding: options of padding; None pads sequences at the end to the longest, and keeps ragged values ragged.

        Raises:
            SchemaError: a field has the same name as the lengths in a batch.
        """
        return self._batch(serialized, padding or Padding())[0]

    def parse(self, serialized: Any) -> dict[str, Any]:
        """Parse one record to tensors.

        It is parsed as a batch of one record, and the leading dimension is then removed.
        """
        import tensorflow as tf

        batch, lengths = self._batch(tf.reshape(serialized, [1]), Padding())
        out: dict[str, Any] = {}
        for field in self.schema.fields:
            value = batch[field.name]
            if field.sparse is not None and not field.dense:
                steps = [lengths[field.name][0]] if field.is_list else []
                out[field.name] = first_of_sparse(value, [*steps, field.sparse])
            elif field.is_list and isinstance(value, tf.Tensor):
                # A batch never has T = 0, but a single record may.
                out[field.name] = value[0, : lengths[field.name][0]]
            else:
                out[field.name] = value[0]
            if field.optional:
                out[f"{field.name}_present"] = batch[f"{field.name}_present"][0]
        return out

    def lengths(self, serialized: Any, group: str) -> Any:
        """Read the length of each record in an alignment group.

        Only one field is parsed if that is enough.
        """
        import tensorflow as tf

        members = self.stored.members(group)
        names = [field.name for field in members if not field.may_lack][:1] or [field.name for field in members]

        def parse(names: list[str], serialized: Any) -> Any:
            parser = Parser(self.stored.select(names), self.layout, self.crops, self.where, images=self.images)
            return parser.parse_columns(serialized)[1][group]

        lengths = parse(names, serialized)
        if len(names) == len(members):
            return lengths
        # Some strategies drop records without steps before all their fields are parsed.
        empty = tf.gather_nd(serialized, tf.where(tf.equal(lengths, 0)))
        if tf.executing_eagerly() and not empty.shape[0]:
            return lengths
        others = parse([field.name for field in members], empty)
        with tf.control_dependencies([others]):
            return tf.identity(lengths)

    # Batches --------------------------------------------------------------------------------------------------------

    def _batch(self, serialized: Any, padding: Padding) -> tuple[dict[str, Any], dict[str, Any]]:
        """Parse a batch, and pad it.

        Returns:
            The tensors of the batch, and the lengths of each feature list.
        """
        import tensorflow as tf

        fields = self.schema.fields
        serialized = tf.convert_to_tensor(serialized)
        with records_called(self.where):
            parsed = self._parsed(serialized, self.specs.batch())
        columns, lengths, of_group = parsed.columns, parsed.lengths, parsed.of_group
        self._derive(columns, parsed)
        added = [field for field in fields if field.is_list and field.name not in lengths]
        lengths |= {field.name: of_all_rows(columns[field.name], columns[field.name].steps) for field in added}
        widths = {group: padding.width(group, length) for group, length in of_group.items()}
        rows = tf.size(serialized, tf.int64)
        missing: dict[str, Any] = {}
        out: dict[str, Any] = {}
        for field in fields:
            if field.name in columns:
                value = padded(field, columns[field.name], rows, widths.get(field.group), padding)
            else:
                with records_called(self.where):
                    value = to_declared(parsed.features[field.feature], field)
                if field.is_list:
                    padded_as = field.name if field.may_lack else field.group  # the op pads to its own longest
                    if padded_as not in missing:
                        own = lengths[field.name] if field.may_lack else of_group[field.group]
                        missing[padded_as] = widths[field.group] - tf.maximum(tf.raw_ops.Max(input=own, axis=0), 0)
                    value = padding.fill(field, pad_steps(value, missing[padded_as]), lengths[field.name])
            if field.is_list and isinstance(value, tf.Tensor):
                value = padding.shift(field, value, of_group[field.group])
                value = tf.ensure_shape(value, [serialized.shape[0], padding.static.get(field.group), *value.shape[2:]])
            out[field.name] = value
            if field.optional:
                out[f"{field.name}_present"] = parsed.present[field.name]
        for group, value in of_group.items():
            if length_name(group) in out:
                raise SchemaError(
                    f"{self.schema.name} has a field {length_name(group)!r}, which is the name of a batch's lengths: "
                    "name the attribute otherwise (`name=` keeps the feature's name)"
                )
            out[length_name(group)] = value
        return out, lengths

    def _parsed(self, serialized: Any, spec: Spec, *, flat: bool = False) -> _Parsed:
        """Parse records with a spec, and check them.

        Columns that the parse op does not finish are decoded here.

        Args:
            serialized: serialized records, string `(n,)`.
            spec: features for the parse op.
            flat: whether to decode every field to a flat column.
        """
        import tensorflow as tf

        serialized = gather_numbered(serialized, self._numbered, self.layout) if self._numbered else serialized
        context, lists = (features or None for features in spec)
        names = tf.fill(tf.shape(serialized), f"({self.where})") if self.where else None
        parsed_context, sequences, steps = tf.io.parse_sequence_example(serialized, context, lists, example_names=names)
        features = {**parsed_context, **sequences}
        holds = self._find_features(serialized, features, steps)
        parsed = _Parsed(features)
        whole = parsed.whole
        excused: dict[str, Any] = {}
        for field in self.stored.fields:
            name = field.name
            if not flat and self.specs.whole_by_op(field):
                continue
            stated = features.get(field.presence or "")
            if field.feature in steps:
                sizes = tf.cast(steps[field.feature], tf.int64)
                sizes, presence = presence_of(of_graphs(), field, sizes, stated, holds.get(name))
                parsed.lengths[name] = whole[name] = sizes
            elif field.is_counted:
                column, sizes = column_of(field, features, self.specs, self._crop(field))
                column = attrs.evolve(column, values=self._not_empty(field, column.values))
                sizes, presence = presence_of(of_graphs(), field, sizes, stated, holds.get(name))
                with tf.control_dependencies([sizes]):
                    column = attrs.evolve(column, values=tf.identity(column.values))
                crop = self._crop(field)  # without random windows: `batching.Crop` rejects fields with a default
                kept = kept_of(len(field.default), crop) if crop and field.has_filling else slice(None)
                parsed.columns[name], sizes = with_absent(of_graphs(), field, column, sizes, presence, kept=kept)
                if field.is_list:
                    whole[name] = sizes
                    parsed.lengths[name] = of_all_rows(parsed.columns[name], parsed.columns[name].steps)
                if name in self._wide:
                    parsed.lengths[name] = cropped_lengths(sizes, self.crops[field.group], tf)
            else:
                values, have = fixed_values_of(field, features, stated, holds.get(name))
                values = self._not_empty(field, values)
                parsed.columns[name], presence = fixed_values(of_graphs(), field, values, have, stated)
            if presence.present is not None:
                parsed.present[name] = presence.present
            if presence.excused is not None:
                excused[name] = presence.excused
        for group in self.stored.groups:
            parsed.of_group[group] = reconcile(of_graphs(), self.stored.members(group), whole, excused, parsed.lengths)
        return parsed

    def _not_empty(self, field: Field, values: Any) -> Any:
        return not_empty(values, field) if field.name in self.images else values

    def _crop(self, field: Field) -> Crop:
        """Return the crop of a field, with margins if a derivation needs them."""
        crop = self.crops.get(field.group, ()) if field.is_list else ()
        return (*crop, MARGINS) if field.name in self._wide else crop

    def _derive(self, columns: dict[str, Column], parsed: _Parsed) -> None:
        """Add the columns of derived fields.

        Margins that were decoded for the derivations are then removed.
        """
        derive_columns(self.stored, columns, self.derivations)
        for field in self.schema.fields:
            source = self._sources.get(field.name, field.name)
            if source in self._wide:
                column, crop = columns[field.name], self._crop(self.stored[source])
                steps, values = without_margins(column.values, parsed.whole[source], crop, column.present)
                columns[field.name] = attrs.evolve(column, values=values, steps=steps)

    def _find_features(self, serialized: Any, features: dict[str, Any], steps: dict[str, Any]) -> dict[str, Any]:
        """Find the records that contain each field.

        The result leaves out the fields whose parsed values already show which records contain them.
        """
        import tensorflow as tf

        doubtful: dict[str, Any] = {}
        context: dict[str, Any] = {}
        lists: dict[str, Any] = {}
        asked: dict[str, list[str]] = {}
        for field in self.stored.fields:
            by_op = field.feature in steps
            is_shown = by_op or not field.is_counted  # a required feature without values raises an error anyway
            if is_shown and (not field.may_lack or (not by_op and not hasattr(features[field.feature], "row_splits"))):
                continue
            asked[field.name] = value_features(field)
            for name in asked[field.name]:
                sizes = steps[name] if by_op else differences(features[name].row_splits)
                doubtful[name] = tf.equal(sizes, 0)
                if field.presence in features:
                    doubtful[name] &= features[field.presence] < 0
                spec = tf.io.RaggedFeature(features[name].dtype, row_splits_dtype=tf.int64)
                (lists if field.is_list and self.layout != "example" else context)[name] = spec
        holds = find_features(serialized, doubtful, context, lists)
        return {field: functools.reduce(tf.logical_and, map(holds.get, names)) for field, names in asked.items()}
