"""Padding masks, and elements for `model.fit`: inputs, targets, and sample weights in the shape of the loss.

A sample weight is 1 for real steps and 0 for padding, multiplied by the user's weights and the weight of the class. It
is also 0 where the target has no next step, where its value is missing, and where it is None.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from seqrecorder.codec.graph_ops import checked, sources_of
from seqrecorder.codec.parse import length_name
from seqrecorder.errors import OptionError
from seqrecorder.reading.derived_fields import OutputOptions, id_of, map_names, mask_of, names_of, weight_names
from seqrecorder.reading.oversampling import is_weight

if TYPE_CHECKING:
    from collections.abc import Callable

    from seqrecorder.schema.schema import Schema


def fit_element(values: dict[str, Any], parsed: Schema, options: OutputOptions) -> Any:
    """Build an element for `model.fit`: inputs, plus targets and sample weights if there are any.

    Args:
        values: mapping from name to tensor.
        parsed: fields of the tensors.
        options: form of the elements.
    """
    import tensorflow as tf

    x = map_names(values.__getitem__, options.derived.inputs)
    if options.derived.targets is None:
        return x
    carried, names = options.carried, names_of(options.derived.targets)
    padded = carried is not None and carried.padded
    # A list that is None is padded with zeros to the length of its group, except in ragged batches.
    optional = [f.name for f in options.derived.stored.fields if f.optional and (padded or not f.is_list)]
    sources = {of + end: of for of in optional for end in ("", "_horizon")} | sources_of(options.derived.derivations)
    flags = {name: f"{sources[name]}_present" for name in names if sources.get(name) in optional}
    is_weighted = any(map(options.counts.get, names)) or options.class_weight is not None or bool(flags)
    weighted = *names, *weight_names(options.derived.weights), *flags.values()
    lengths = {name: _lengths_of(name, parsed, options) for name in weighted}
    shaped = {name: with_last_axis(values[name]) if padded and lengths[name] else values[name] for name in names}
    y = map_names(shaped.__getitem__, options.derived.targets)
    padding = carried is not None and (carried.vacant or carried.weighted or (padded and any(map(lengths.get, names))))
    if options.derived.weights is False or not (is_weighted or padding or options.derived.weights is not None):
        return x, y

    def weigh(name: str, own_weights: Any, classes: Any) -> Any:
        target = values[name]
        is_ragged = isinstance(target, tf.RaggedTensor)
        flat = {key: value.values for key, value in values.items() if isinstance(value, tf.RaggedTensor)}
        of = {**values, **flat} if is_ragged else values
        # Number of dimensions for records and steps: ragged batches share one for both; single records have only steps.
        outer = int(carried is not None) + int(lengths[name] is not None and (carried is None or padded))
        parts = [_counting(of[count], loss_rank(of[name], outer)) for count in options.counts.get(name, ())]
        if padded:
            parts += _real(values, name, lengths[name], parsed, options)
        own = [*weight_names(own_weights), *([flags[name]] if name in flags else [])]
        parts += [_fitting(of, (name, weight), lengths, outer, options) for weight in own]
        if classes is not None:
            parts.append(weights_of_classes(of[name], outer, classes, name))
        weights = loss_weights(of[name], outer, parts)
        return target.with_values(weights) if is_ragged else weights

    return x, y, _paired(options, weigh)


def _lengths_of(name: str, parsed: Schema, options: OutputOptions) -> str | None:
    """Look up which tensor contains the lengths of a padded tensor.

    These are the lengths in the second dimension. The result is None if that dimension is not padded.
    """
    carried = options.carried
    if carried is not None and name in carried.lengths:
        return carried.lengths[name]
    names = {group: length_name(group) for group in parsed.groups}
    if parsed.groups:
        names[parsed.groups[0]] = options.strategy.length_name
    for field in parsed.fields:
        if field.name == name and field.is_list:
            return names[field.group]
    for group, lengths in names.items():
        if options.strategy.mask_name and name == mask_of(group, parsed, options):
            return lengths
    return None if carried is None or name in (*names.values(), *carried.names) else carried.context


def _real(values: dict[str, Any], name: str, lengths: str | None, parsed: Schema, options: OutputOptions) -> list[Any]:
    """Compute the mask of the real entries of a target, bool over 1 or 2 dimensions.

    The result is a list with the mask. The list is empty if all entries are real.
    """
    import tensorflow as tf

    target, carried = values[name], options.carried
    field = next((field for field in parsed.fields if field.name == name), None)
    if field is not None and field.is_list:
        return [padding_mask(values, field.group, target, parsed, options)]
    if lengths is not None:
        return [tf.sequence_mask(values[lengths], tf.shape(target)[1])]
    return [values[options.strategy.length_name] > 0] if carried is not None and carried.vacant else []


def _counting(value: Any, rank: int) -> Any:
    """Convert a mask or numbers to bool, and reduce them to a given rank.

    A reduced value is False if any value in it is 0 or False.
    """
    import tensorflow as tf

    value = value if value.dtype == tf.bool else tf.not_equal(value, 0)
    return tf.reduce_all(value, axis=list(range(rank, value.shape.rank)))


def _fitting(
    values: dict[str, Any],
    names: tuple[str, str],
    lengths: Mapping[str, str | None],
    outer: int,
    options: OutputOptions,
) -> Any:
    """Bring the user's weights for a target into a shape that fits its loss.

    The dimensions of the result are the first ones of the loss: there is one weight per record, one per step, or one
    for each value of the loss.

    Raises:
        OptionError: the weights belong to other steps than those of the target, or have more dimensions than its loss.
    """
    import tensorflow as tf

    target, weight = names
    weights, of_weights, of_target = values[weight], lengths[weight], lengths[target]
    carried = options.carried
    where = f"weights: {weight!r} for the target {target!r}:"
    if not isinstance(weights, tf.Tensor) or not (
        weights.dtype.is_floating or weights.dtype.is_integer or weights.dtype.is_bool
    ):
        raise OptionError(f"{where} expected numbers, got {weights.dtype.name}")
    unpadded = carried is not None and not carried.padded
    if unpadded and of_target is not None and of_weights is None:
        weights, of_weights = tf.repeat(weights, values[of_target], axis=0), of_target
    segments = carried.places.get(of_target or "") if carried is not None else None
    if carried is not None and segments is not None and of_weights == carried.context:
        rate = tf.shape(values[target])[1] // tf.shape(values[segments])[1]  # above 1 for `per_step`
        weights = tf.gather(weights, tf.repeat(tf.maximum(values[segments] - 1, 0), rate, axis=1), batch_dims=1)
        of_weights = of_target
    if of_weights is not None and of_weights != of_target:
        expected = f"as many as the target, whose number is {of_target!r}" if of_target else "one for each record"
        advice = f"; name {weight + '_horizon'!r}" * target.endswith("_horizon")
        raise OptionError(f"{where} expected weights, {expected}; got one per step, number {of_weights!r}{advice}")
    inner = weights.shape[int(carried is not None) + (of_weights is not None and not unpadded) :]
    loss = values[target].shape[: loss_rank(values[target], outer)]
    if inner.rank and not (of_weights == of_target and weights.shape.is_compatible_with(loss)):
        raise OptionError(
            f"{where} expected one number for each {'step' if of_weights else 'record'}, got the shape {weights.shape}"
            f" beside a loss of the shape {loss}"
        )
    return weights


def _paired(options: OutputOptions, weigh: Callable[[str, Any, Mapping[int, float] | None], Any]) -> Any:
    """Call a function with each target, and with its weights and class weights.

    The results have the structure of the targets.

    Raises:
        OptionError: the weights and the targets differ in structure.
    """
    targets, weights, classes = options.derived.targets, options.derived.weights, options.class_weight
    if isinstance(targets, str):
        if isinstance(weights, Mapping):
            raise _unlike("weights", targets, weights)
        return weigh(targets, weights, _class_weight(targets, classes, options))
    places: list[Any] = list(targets if isinstance(targets, Mapping) else range(len(targets)))
    names = names_of(targets)
    each = [weights] * len(names) if isinstance(weights, str) else _by_place("weights", targets, weights, places)
    weighed = [
        weigh(name, one, _class_weight(name, of_classes, options))
        for name, one, of_classes in zip(names, each, _by_place("class_weight", targets, classes, places), strict=True)
    ]
    return dict(zip(places, weighed, strict=True)) if isinstance(targets, Mapping) else tuple(weighed)


def _by_place(option: str, targets: Any, value: Any, places: list[Any]) -> list[Any]:
    """Split an option into one value per target.

    Targets that the option does not cover get None.
    """
    if value is None:
        return [None] * len(places)
    if isinstance(value, Mapping) and isinstance(targets, Mapping) and set(value) <= set(targets):
        return [value.get(name) for name in places]
    sequences = isinstance(value, Sequence) and not isinstance(value, str) and not isinstance(targets, Mapping)
    if sequences and len(value) == len(places):
        return list(value)
    raise _unlike(option, targets, value)


def _unlike(option: str, targets: Any, value: Any) -> OptionError:
    one = "one name, or names" if option == "weights" else "a mapping of classes to weights for each target, structured"
    return OptionError(f"{option}: expected {one} as those of targets={targets!r}, got {value!r}")


def padding_mask(values: dict[str, Any], group: str, like: Any, parsed: Schema, options: OutputOptions) -> Any:
    """Compute the mask of real steps, bool `(B, T)`.

    T is the padded length of `like`. If `like` is None, a feature list of the group takes its place. If the group has
    no such list, T is the largest of the lengths, but at least 1.
    """
    import tensorflow as tf

    lengths = values[options.strategy.length_name if group == parsed.groups[0] else length_name(group)]
    if like is None:
        steps = [values[f.name] for f in parsed.fields if f.is_list and f.group == group]
        like = next((value for value in steps if isinstance(value, tf.Tensor)), None)
    width = tf.reduce_max(tf.concat([lengths, [1]], 0)) if like is None else tf.shape(like, tf.int64)[1]
    mask = tf.sequence_mask(lengths, width)
    left = options.carried is not None and group in options.carried.left
    mask = tf.reverse(mask, [1]) if left else mask
    return mask if like is None else tf.ensure_shape(mask, like.shape[:2])


# Weights of classes ---------------------------------------------------------------------------------------------------


def _class_weight(target: str, value: Any, options: OutputOptions) -> Mapping[int, float] | None:
    """Check the class weights of one target, and convert its classes from words to ids.

    Raises:
        OptionError: `value` is not a mapping from class to weight, or a word is not in the vocabulary.
    """
    if value is None:
        return None
    ids = options.derived.ids.get(target, {})
    weights = {id_of(key, ids, "class_weight"): key for key in value} if isinstance(value, Mapping) else {}
    is_named = bool(weights) and all(isinstance(key, numbers.Integral) and abs(int(key)) < 1 << 63 for key in weights)
    if is_named and all(map(is_weight, value.values())):
        return {int(key): float(value[name]) for key, name in weights.items()}
    classes = "(ints, or words of the vocabulary)" if ids else "(ints)"
    raise OptionError(
        f"class_weight: expected a mapping of classes {classes} to weights of 0 or more, such as {{0: 1.0, 1: 5.0}}; "
        f"for several targets one for each, structured as they are; got {value!r}"
    )


def weights_of_classes(target: Any, outer: int, class_weight: Mapping[int, float], name: str) -> Any:
    """Look up the weight of the class of each value of a target.

    Classes without a weight have the weight 1.

    >>> import tensorflow as tf
    >>> weights_of_classes(tf.constant([[3, 7], [0, 3]]), 2, {3: 0.5, 0: 4.0}, "tags").numpy().tolist()
    [[0.5, 1.0], [4.0, 0.5]]

    Args:
        target: one number or bool per record or step, with or without a last axis of size 1; or one-hot values or
            probabilities, with a last axis of classes. Then, as in Keras, the class is the index of the largest value;
            a row of zeros has no class.
        outer: number of dimensions for records and steps.
        class_weight: mapping from class to weight.
        name: name of the target, for errors.

    Raises:
        OptionError: the values are not classes, or `class_weight` has a class that one-hot values or bools cannot have.
        tf.errors.InvalidArgumentError: while iterating, a row has several classes.
    """
    import tensorflow as tf

    numeric = target.dtype.is_integer or target.dtype.is_floating or target.dtype == tf.bool
    if not isinstance(target, tf.Tensor) or not numeric or target.shape.rank not in (outer, outer + 1):
        text = f"one for each {'step' if outer > 1 else 'record'}, or one-hot, got {target.dtype.name}, {target.shape}"
        raise OptionError(f"class_weight: expected numbers or bools for the target {name!r}, {text}")
    one_hot = target.shape.rank == outer + 1 and target.shape[-1] != 1
    most = target.shape[-1] if one_hot else 2 if target.dtype == tf.bool else None
    if most and (beyond := [key for key in class_weight if not 0 <= key < most]):
        raise OptionError(f"class_weight: expected classes from 0 to {most - 1} of {name!r}, got {beyond[0]}")
    if one_hot:
        total = tf.reduce_sum(tf.cast(target, tf.float32), -1)
        message = f"class_weight: expected one class in each row of {name!r}, got several: weigh them in the loss"
        one = total < 1.1  # noqa: PLR2004 - probabilities, such as smoothed labels, sum to 1
        target = checked(tf.where(total > 0, tf.argmax(target, -1), -1), one, message)
    elif target.shape.rank == outer + 1:
        target = target[..., 0]
    keys = sorted(class_weight)
    classes, known = tf.cast(target, tf.int64), tf.constant(keys, tf.int64)
    at = tf.minimum(tf.searchsorted(known, tf.reshape(classes, [-1])), len(keys) - 1)
    at = tf.reshape(at, tf.shape(classes))
    weights = tf.gather(tf.constant([class_weight[key] for key in keys], tf.float32), at)
    named = tf.equal(tf.cast(tf.gather(known, at), target.dtype), target) if target.dtype.is_floating else True
    return tf.where(named & tf.equal(tf.gather(known, at), classes), weights, 1.0)


# Shapes of losses -----------------------------------------------------------------------------------------------------


def with_last_axis(target: Any) -> Any:
    """Reshape a target with one value per step from `(B, T)` to `(B, T, 1)`, unless its values are classes.

    >>> import tensorflow as tf
    >>> [with_last_axis(tf.zeros([2, 3], dtype)).shape.as_list() for dtype in (tf.float32, tf.bool, tf.int64)]
    [[2, 3, 1], [2, 3, 1], [2, 3]]

    Args:
        target: tensor whose second dimension is steps; other structures and ranks are returned unchanged.
    """
    import tensorflow as tf

    if not isinstance(target, tf.Tensor) or target.shape.rank != 2:  # noqa: PLR2004 - batch and steps
        return target
    return target[..., tf.newaxis] if target.dtype.is_floating or target.dtype == tf.bool else target


def loss_rank(target: Any, outer: int) -> int:
    """Compute the rank of a target's loss.

    The loss lacks the last axis of the target, unless that is an axis of records or steps.

    Args:
        target: tensor before `with_last_axis`.
        outer: number of dimensions for records and steps; classes and scalars have no other dimensions.
    """
    rank: int = target.shape.rank
    return max(outer, rank - 1)


def loss_weights(target: Any, outer: int, parts: Sequence[Any]) -> Any:
    """Compute sample weights as the product of factors, in the shape of a target's loss.

    >>> import tensorflow as tf
    >>> target, real = tf.zeros([2, 3]), tf.sequence_mask([3, 1])
    >>> loss_weights(target, 2, [tf.constant([2.0, 5.0]), real]).numpy().tolist()
    [[2.0, 2.0, 2.0], [5.0, 0.0, 0.0]]

    Args:
        target: tensor before `with_last_axis`.
        outer: number of dimensions for records and steps.
        parts: factors, which are numbers or bool masks; their dimensions are the first dimensions of the loss. False
            gives 0 even if a number is NaN or infinite. Without factors, the weights are 1.
    """
    import tensorflow as tf

    rank = loss_rank(target, outer)
    static = target.shape[:rank]
    shape = tf.shape(target)[:rank]

    def spread(part: Any) -> Any:
        more = [1] * (rank - part.shape.rank)
        return tf.broadcast_to(tf.reshape(part, tf.concat([tf.shape(part), more], 0)), shape)

    weights = tf.ones(shape)
    for part in parts:
        if part.dtype != tf.bool:
            weights *= spread(tf.cast(part, tf.float32))
    for part in parts:
        if part.dtype == tf.bool:
            weights = tf.where(spread(part), weights, 0.0)
    return tf.ensure_shape(weights, static)
