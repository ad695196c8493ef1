"""`read`, which opens a split as a `tf.data.Dataset`, and `info`, which reads the manifest of a dataset.

The strategies that make the batches are in `seqrecorder.reading.batching`.
"""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import attrs

from seqrecorder.codec.columns import check_threads_of_tensorflow, keep_freed_memory
from seqrecorder.codec.graph_ops import INDEX, SEED, check_steps, with_numbers
from seqrecorder.codec.parse import Parser, encoded_images
from seqrecorder.dataset.checked_shards import resolve
from seqrecorder.dataset.manifest import read_manifest
from seqrecorder.errors import OptionError, check_count, did_you_mean
from seqrecorder.reading.batching.bucket import Bucket
from seqrecorder.reading.batching.crop import Crop
from seqrecorder.reading.batching.groups import Groups
from seqrecorder.reading.batching.pack import Pack
from seqrecorder.reading.batching.pad import Pad
from seqrecorder.reading.batching.ragged import Ragged
from seqrecorder.reading.batching.strategy import WINDOW, Feed, Single, log_once, nothing_comes
from seqrecorder.reading.batching.token_budget import TokenBudget
from seqrecorder.reading.batching.unroll import Unroll
from seqrecorder.reading.batching.window import Window
from seqrecorder.reading.cardinality import with_cardinality
from seqrecorder.reading.elements import Elements
from seqrecorder.reading.order_and_seeds import Limits, StreamOptions, check_seed, record_length
from seqrecorder.reading.oversampling import oversampling

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    import tensorflow as tf

    from seqrecorder.codec.graph_ops import MapsField
    from seqrecorder.dataset.checked_shards import Check, OnCorrupt, Origin
    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.reading.batching.strategy import Strategy
    from seqrecorder.reading.derived_fields import Output
    from seqrecorder.schema.schema import Schema


def info(path: str | os.PathLike[str]) -> Manifest:
    """Read the manifest of a dataset.

    Args:
        path: directory or URL of the dataset.

    Raises:
        DatasetNotFoundError: there is no dataset at `path`.
        ManifestError: the manifest is damaged, or its format is newer than this release.
    """
    return read_manifest(path)


def read(
    path: Any,
    split: str | None = None,
    *,
    schema: object = None,
    batch: int | Pad | Bucket | TokenBudget | Ragged | Crop | Window | Unroll | Pack | Groups | None = None,
    shuffle: int = 0,
    seed: int | None = None,
    epochs: int | None = 1,
    epoch: int = 0,
    oversample: str | Mapping[str, Mapping[Any, float]] | None = None,
    fields: Sequence[str] | None = None,
    steps: slice | None = None,
    min_length: int = 0,
    max_length: int | None = None,
    index_name: str | None = None,
    inputs: Any = None,
    targets: Any = None,
    weights: Any = None,
    class_weight: Any = None,
    missing: Literal["mask"] | Mapping[str, Literal["mask"]] | None = None,
    vocabulary: Mapping[str, MapsField] | None = None,
    normalize: Any = None,
    normalize_targets: bool = False,
    resize: Mapping[str, tuple[int, int]] | None = None,
    output: Output = "dict",
    shard: tuple[int, int] | None = None,
    deterministic: bool = True,
    compression: str | None = None,
    layout: Literal["auto", "steps", "packed", "example"] = "auto",
    check: Check = "manifest",
    on_corrupt: OnCorrupt = "error",
    **unknown: NoReturn,
) -> tf.data.Dataset:
    """Read a split as a `tf.data.Dataset`, unbatched or in batches.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Sentence([1, 2, 3]), Sentence([4])], corpus)
    >>> for batch in sr.read(corpus, "train", batch=sr.Pad(2)):
    ...     print(batch["ids"].numpy().tolist(), batch["sequence_length"].numpy().tolist())
    [[1, 2, 3], [4, 0, 0]] [3, 1]

    The guide explains the options at length on the pages Reading, Batches, Training with Keras, When files are damaged,
    and Training on several machines.

    Args:
        path: directory or URL of a dataset; or a selection; or bare shards (a path, a glob or a list).
        split: name of the split; optional for a dataset with one split, and for selections.
        schema: record class to read as; required for bare shards, optional for a dataset, which stores its own.
        batch: batching strategy, such as `Bucket(64)`; 64 means `Pad(64)`; None for single records.
        shuffle: size of the shuffle window, in records; 0 keeps the written order (see "Order" in Reading).
        seed: seed of the order. Each epoch has a different order, and each new iteration continues with the next epoch.
        epochs: number of passes over the records; None repeats forever.
        epoch: number of the first epoch, to continue a finished run: 3 starts with the order of the fourth epoch.
        oversample: context field with the number of copies of a record per epoch (2.3 means two, or three in 30% of
            epochs), or a number for each value of a field: `{"label": {3: 5.0}}` (see "Some records more often").
        fields: names of the fields to parse; default: all.
        steps: slice of the steps to read, such as `slice(100)`; lengths count only these steps.
        min_length: minimum number of steps of a record before `steps` applies; shorter records are left out.
        max_length: maximum number of steps of a record; longer ones are left out, and not parsed if lengths are stored.
        index_name: name of an int64 tensor to add, with the position of each record in written order or in the
            selection, and -1 for no record.
        inputs: inputs of `model.fit`: a name, a tuple of names, or a mapping from model input to name. A name may be a
            field, `sequence_length`, a tensor of the strategy, `sr.next_step("ids")` or `sr.previous_step("ids")`.
        targets: targets of `model.fit`, in the same form. Elements become `(inputs, targets, sample_weight)`. A target
            with one float or bool per step gets the shape `(B, T, 1)`.
        weights: field with a weight per record or step, `sr.next_step("w")` for next steps, or a tuple to multiply.
            They multiply the default float32 weights: 0 for padding and None, otherwise 1. False means no weights.
        class_weight: mapping from class to a factor for sample weights, such as `{3: 5.0}`; targets must be classes.
        missing: `"mask"` replaces NaN with 0 in dense float fields and adds `<field>_observed`; a mapping names fields.
        vocabulary: mapping from field to a `Vocabulary`, which converts the tokens of the field to int64 ids.
        normalize: result of `stats`, or mapping from field to such a result or to `stats[field]`, to subtract the mean
            and divide by the standard deviation. Padding stays 0; missing values become 0 after normalization.
        normalize_targets: whether to normalize targets, too; `stats["mfcc"].denormalize` reverses it.
        resize: mapping from field to image height and width, `{"image": (64, 64)}` (bilinear). By default, images of
            varying size are padded to the largest in the batch, and `<field>_size` contains their sizes.
        output: `dict`, `tuple` (in declaration order) or `record` (an instance of the class, with tensors as values).
        shard: `(index, count)` of this reader, if `count` readers together read each record once.
        deterministic: whether to keep the order of elements; False may be faster.
        compression: compression of bare shards; detected by default.
        layout: layout of bare shards: `steps` (a feature per step), `packed` (one per sequence), `example` or `auto`.
        check: checks before the first record: `manifest` (sizes, lengths, frames), `full` (also all digests) or `none`
            (see "What reading checks").
        on_corrupt: `error`, or `skip` to log damaged records and leave them out (see "Reading what is left").
        unknown: any other keyword raises an error; for an option of a strategy, the error says where to pass it.

    Returns:
        A `tf.data.Dataset` without Python functions, so it can be checkpointed, saved and distributed. Its cardinality
        is known unless it depends on the order. Autotuning is off: set parallelism explicitly in stages that you add.

    Raises:
        DatasetNotFoundError: there is no such dataset, split or file.
        SchemaMismatchError: the data cannot be read as `schema`; the message lists the fields that disagree.
        ShardReadError: a shard is missing or truncated, or has a different compression.
        OptionError: an option is invalid, or contradicts another.
        RecordError: one of the first records of bare shards does not match the class.
        tf.errors.InvalidArgumentError: while iterating, a record is damaged, or the number of records is wrong; the
            message names the shard, the record, the byte and the command to run next.
        tf.errors.NotFoundError: while iterating, a shard is gone, for example after an overwrite.
    """
    import tensorflow as tf

    check_threads_of_tensorflow("read")
    if unknown:
        raise _unknown(next(iter(unknown)), batch)
    if isinstance(batch, int) and not isinstance(batch, bool):
        batch = Pad(batch)
    if batch is not None and not isinstance(batch, _STRATEGIES):
        raise OptionError(f"batch: expected an int, Pad(...) or another strategy, or None, got {batch!r}")
    strategy: Strategy = batch or Single()
    check_count("shuffle", shuffle, 0)
    check_count("epoch", epoch, 0)
    if epochs is not None:
        check_count("epochs", epochs)
    if not isinstance(deterministic, bool):
        raise OptionError(f"deterministic: expected True or False, got {deterministic!r}")
    seed = check_seed(seed)
    keep_freed_memory()
    origin = resolve(
        path, split, schema=schema, compression=compression, layout=layout, check=check, on_corrupt=on_corrupt
    )
    origin, deal = origin.take_shard(shard)
    origin.fetch()
    origin.check_lengths()
    for file in origin.files if not origin.is_large else ():
        origin.check_frames(file)
    schema, images = encoded_images(origin.schema, resize)
    origin = attrs.evolve(origin, schema=origin.schema.in_one_rate())
    elements = Elements.of(
        schema,
        strategy,
        fields=fields,
        images=images,
        output=output,
        class_weight=class_weight,
        index_name=index_name,
        inputs=inputs,
        targets=targets,
        weights=weights,
        missing=missing,
        vocabulary=vocabulary,
        normalize=normalize,
        normalize_targets=normalize_targets,
    )
    origin.check_first(origin.schema.select([field.name for field in elements.stored.fields]))
    stored = with_numbers(elements.stored, {INDEX: index_name, SEED: strategy.seed_name})
    crops = {} if steps is None else dict.fromkeys(origin.schema.groups, check_steps(steps))
    feed = Feed(
        origin,
        Parser(stored, origin.layout, crops, origin.record, elements.derivations, images=elements.images),
        elements.shape,
        StreamOptions(
            WINDOW,
            shuffle,
            seed,
            epochs,
            epoch,
            None,
            deal,
            crops,
            _limits(origin, elements.stored, strategy, min_length, max_length),
            number=_numbered(origin, "index_name", index_name),
            seeds=_numbered(origin, "seed_name", strategy.seed_name),
            oversampling=None if oversample is None else oversampling(origin, oversample),
        ),
    )
    if inputs is not None:
        _warn_of_shapes(strategy)
    # Everything traced below is plain TensorFlow, which AutoGraph would only slow down.
    batches = tf.autograph.experimental.do_not_convert(strategy.read)(feed)
    if batches.count == 0 and feed.records:
        raise nothing_comes(feed, f"by {strategy}")
    settings = tf.data.Options()
    settings.autotune.enabled = False  # otherwise, destroying an iterator can block for seconds
    settings.deterministic = deterministic
    # Graph rewrites improve nothing here, and would delay the first element of each new pipeline.
    settings.experimental_optimization.apply_default_optimizations = False
    # tf.distribute cannot shard these pipelines by file: its search for the file source fails.
    settings.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    # The only external state is assertions, which have nothing to save.
    settings.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    return with_cardinality(batches, epochs, origin.where, known=oversample is None).with_options(settings)


def _warn_of_shapes(strategy: Strategy) -> None:
    """Warn once if Keras runs on JAX and batches have many lengths, because JAX compiles the model for each length."""
    keras = sys.modules.get("keras")
    if keras is None or keras.backend.backend() != "jax":
        return
    remedy = ""
    if isinstance(strategy, Pad) and strategy.length is None:
        remedy = "give Pad the length of all batches: Pad(..., length=...)"
    elif isinstance(strategy, TokenBudget) or (isinstance(strategy, Bucket) and not strategy.pad_to_bucket_boundary):
        remedy = "Bucket(..., pad_to_bucket_boundary=True) has one length for each bucket"
    if remedy:
        log_once(f"Keras runs on JAX, which compiles the model for nearly every batch of {strategy}: {remedy}")


_STRATEGIES = (Pad, Bucket, TokenBudget, Ragged, Crop, Unroll, Window, Pack, Groups)


def _unknown(name: str, batch: Any) -> Exception:
    """Build the error for an unknown keyword of `read`."""
    owners = [each.__name__ for each in _STRATEGIES if name in inspect.signature(each).parameters]
    owners = [type(batch).__name__] if type(batch).__name__ in owners else owners
    if owners:
        calls = [f"batch={owner}(..., {name}=...)" for owner in owners]
        return OptionError(f"read: {name} is an option of strategies: pass {' or '.join(calls)}")
    known = list(inspect.signature(read).parameters)
    return TypeError(f"read() got an unexpected keyword argument {name!r}{did_you_mean(name, known)}")


def _numbered(origin: Origin, option: str, name: str | None) -> bool:
    """Check whether the stream must add positions to the records.

    Raises:
        OptionError: the positions of the records are unknown.
    """
    if name is None:
        return False
    if origin.records < 0:
        raise OptionError(f"{option}: check='none' leaves the positions of records unknown; leave `check` out")
    damaged = [file.path for file in origin.files if file.is_damaged]
    if damaged:
        raise OptionError(
            f"{option}: {damaged[0].name} is damaged, so the positions of its records are unknown; leave {option} "
            "out, or salvage the dataset first: then positions count what was recovered"
        )
    return True


def _limits(origin: Origin, parsed: Schema, strategy: Strategy, least: Any, most: Any) -> tuple[Limits, ...]:
    check_count("min_length", least, 0)
    if most is not None:
        check_count("max_length", most, 0)
    if not least and most is None:
        return ()
    if not origin.schema.groups:
        raise OptionError(f"{origin.schema.name} has no feature list, so min_length and max_length limit nothing")
    if isinstance(strategy, (Crop, Bucket, TokenBudget)):
        length_of: Any = getattr(strategy, "length_of", "longest")
        return (Limits(record_length(origin.schema, strategy.length_field, length_of), least, most),)
    cuts = isinstance(strategy, (Unroll, Window, Pack)) and parsed.groups  # they read fields of one group only
    return (Limits((parsed if cuts else origin.schema).groups[0], least, most),)
