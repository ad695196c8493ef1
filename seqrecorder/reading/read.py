"""Reading: a `tf.data.Dataset` of a split."""

from __future__ import annotations

import inspect
import numbers
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import attrs

from seqrecorder.codec.columns import check_threads_of_tensorflow, keep_freed_memory
from seqrecorder.codec.graph_ops import check_steps, with_number
from seqrecorder.codec.parse import Parser
from seqrecorder.dataset.manifest import read_manifest
from seqrecorder.dataset.shard_set import resolve
from seqrecorder.errors import OptionError, did_you_mean
from seqrecorder.reading.batching.bucket import Bucket
from seqrecorder.reading.batching.crop import Crop
from seqrecorder.reading.batching.pack import Pack
from seqrecorder.reading.batching.pad import Pad
from seqrecorder.reading.batching.ragged import Ragged
from seqrecorder.reading.batching.token_budget import TokenBudget
from seqrecorder.reading.batching.unroll import Unroll
from seqrecorder.reading.batching.window import Window
from seqrecorder.reading.elements import DerivedFields, OutputOptions, needed_fields
from seqrecorder.reading.strategy import WINDOW, Feed, Single, nothing_comes
from seqrecorder.reading.stream import Limits, StreamOptions, oversampling, record_length
from seqrecorder.reading.targets import shaper
from seqrecorder.reading.tfdata_ops import counted

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    import tensorflow as tf

    from seqrecorder.codec.graph_ops import MapsField
    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.dataset.shard_set import Check, OnCorrupt, Origin
    from seqrecorder.reading.elements import Output
    from seqrecorder.reading.strategy import Batches, Strategy
    from seqrecorder.schema.schema import Schema


def info(path: str | os.PathLike[str]) -> Manifest:
    """Return what a dataset contains.

    Args:
        path: the dataset's directory, or its URL.

    Raises:
        DatasetNotFoundError: there is no dataset.
        ManifestError: its manifest is damaged, or of a newer format.
    """
    return read_manifest(path)


def read(
    path: Any,
    split: str | None = None,
    *,
    schema: object = None,
    batch: Pad | Bucket | TokenBudget | Ragged | Crop | Window | Unroll | Pack | None = None,
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
    output: Output = "dict",
    shard: tuple[int, int] | None = None,
    deterministic: bool = True,
    compression: str | None = None,
    layout: Literal["auto", "steps", "packed", "example"] = "auto",
    check: Check = "manifest",
    on_corrupt: OnCorrupt = "error",
    **unknown: NoReturn,
) -> tf.data.Dataset:
    """Return a split as a `tf.data.Dataset`, unbatched or in batches.

    >>> import tempfile, numpy as np, seqrecorder as sr
    >>> @sr.record
    ... class Sentence:
    ...     ids: np.ndarray = sr.feature_list("int64")
    >>> corpus = tempfile.mkdtemp()
    >>> _ = sr.write([Sentence([1, 2, 3]), Sentence([4])], corpus)
    >>> for batch in sr.read(corpus, "train", batch=sr.Pad(2)):
    ...     print(batch["ids"].numpy().tolist(), batch["sequence_length"].numpy().tolist())
    [[1, 2, 3], [4, 0, 0]] [3, 1]

    Args:
        path: a dataset's directory, or its URL, whose files come into a cache; a selection of its records; or bare
            shards (a path, a glob or a list), with `schema`. What is selected is read where it is, in the order of the
            selection; but records of less than 64 KiB that lie scattered, and those of GZIP shards, are copied to a
            temporary file once.
        split: name of the split; may be left out where there is only one, and of selections.
        schema: the record class to read as; needed for bare shards only. A dataset's own schema is the default.
        batch: `Pad(...)`, `Bucket(...)`, `TokenBudget(...)`, `Ragged(...)`, `Crop(...)`, `Window(...)`, `Unroll(...)`,
            `Pack(...)`, or None for single records.
        shuffle: how many records are permuted at a time; 0 keeps the order of the files. Up to 16 files, in random
            order, are mixed; within a window of that many records every order is equally likely, between windows
            nothing mixes. How far that goes: of 20,000 records with shuffle=1000, a record moves by 31 % of the split
            on average where it lies in 18 shards that were filled one after the other (33 % is perfect), and by 1.7 %
            where it lies in one, or in shards to which records were dealt in turn (`shards=16`), as each of these goes
            through the whole split. Data whose order matters are best written with `shuffle`, too. Two windows are
            in memory, and of up to 32 MiB three, since the next are read ahead; of large records a window is what fits
            256 MiB, however many are asked for.
        seed: of the order; the same seed gives the same orders, a new one each epoch. Each iteration over the dataset
            goes on with the epoch after the last one of the iteration before.
        epochs: how often all records come; None is for ever, and refused where it is known that nothing comes.
        epoch: which epoch of the seed comes first, so that a run which ended after some goes on with the next:
            `epoch=3` gives the order that the fourth epoch of an undisturbed run has.
        oversample: name of a context field of numbers, which says how often its record comes in an epoch: at 2.3 twice,
            and in three epochs of ten a third time, at 0.5 in every second, and at 0 never. Or weights by the values of
            a field, as in `{"label": {3: 5.0}}`, and 1 for those that are not named. Which records come once more is
            drawn anew for each epoch, by seed and position alone: all readers of `shard` together, and every strategy
            and order, give the same records. Copies come one behind the other, so shuffle; a window holds `shuffle`
            records and their copies. How many elements there are is not known.
        fields: names of the fields to parse; all by default.
        steps: the steps of each sequence that are kept, such as `slice(100)` or `slice(None, None, 4)`. Records are
            parsed whole; buffers and images of the other steps are not decoded. Lengths count what is kept.
        min_length: records with fewer steps are left out, which the lengths files tell without parsing: short for
            `train[train.lengths() >= min_length]`, and for bare shards too. Steps are those that the strategy goes by
            (of its `length_field`, the longest or the sum of several; of what it cuts, else of the first alignment
            group), before `steps` applies.
        max_length: likewise for more steps.
        index_name: name under which elements carry the position of their record in written order, int64: that in which
            `read_records` gives the records of the split. It goes with every order and strategy, so predictions can be
            put back into the order of their inputs: `results[np.argsort(index)]`. Of a selection it is the place in
            that. A place that holds no record has -1.
            It is refused while a shard is damaged (`on_corrupt="skip"`).
        inputs: what `model.fit` takes: a name, a sequence of names (a tuple), or a mapping of the model's input to
            a name.
        targets: likewise; elements are then `(inputs, targets, sample_weight)`. Beside fields there are
            `sequence_length`, all that a strategy adds and, if asked for, mask and index; and `sr.next_step("ids")` and
            `sr.previous_step("ids")`, in `inputs` and `weights` too. In batches a target of one
            float or bool per step is `(B, T, 1)`, since most losses of Keras average over the last axis. Integers, as
            classes, stay `(B, T)`; a loss that compares them as numbers takes them with
            `.map(lambda x, y, w: (x, y[..., None], w))`.
        weights: name of the sample weights, which are float32 of the shape that a loss makes of its target: that
            without its last axis, and `(B, T)` for classes. By default batches get them from the lengths, 1.0 for real
            steps and 0.0 for padding, where a target has steps. A name is that of weights of records, or of the
            target's steps, by which these are multiplied; a tuple of names, of them all. Of several targets they are
            structured as the targets are. False leaves them out, as losses of whole sequences want it (`CTC`, `Dice`).
            Keras averages a loss over padding too unless the loss
            is given `reduction="mean_with_sample_weight"`.
        class_weight: weights by class, `{0: 1.0, 3: 5.0}`, by which those of a target of ints or bools are multiplied,
            one for each record or step; of several targets, structured as they are.
        missing: `"mask"` gives float fields 0 for NaN, and `<field>_observed` beside them: float32 of their shape, 1
            where there was a value and 0 at NaN and padding. A target weighs 0 where any of its values was missing.
            `{"temperature": "mask"}` does so for the fields that it names.
        vocabulary: by field, a `seqrecorder.Vocabulary`: elements have the ids of its tokens, int64, for inputs and
            targets alike. Padding is 0 as everywhere.
        normalize: result of `seqrecorder.stats`: fields of floats lose their mean and are divided by their standard
            deviation, those that `stats["mfcc"]` shows. Or a mapping of field to statistics, such as `{"mfcc":
            stats["mfcc"]}`, for whole numbers too. What is made of a field (its horizon, its next step) is treated as
            the field is. Targets and weights stay as stored. Padding stays 0; what is missing is filled with 0
            afterwards.
        normalize_targets: whether targets are normalized as well; `stats["mfcc"].denormalize` is the inverse.
        output: `dict`; `tuple`, in declaration order; or `record`, the class with tensors for values. What batches
            carry besides the fields comes after them.
        shard: `(index, count)` for one of several readers, whose shares differ by one record at most, before any are
            left out for their length: whole files where these make such shares; else a stretch of the files, of which
            those at its ends are read by the neighbours too; else, of fewer files than readers, single records, before
            shuffling and batching. Together they read every record exactly once.
        deterministic: whether the order is the same each time; False may be faster.
        compression: of bare shards; found by itself.
        layout: of bare shards: one feature per step (`steps`), a sequence in one feature of its list (`packed`), a flat
            `tf.train.Example` (`example`), or `auto`.
        check: what is looked at first: `manifest` (sizes, the SHA-256 of the files of lengths, and the lengths of all
            frames, so that no forged one reaches TensorFlow: once in a process for a file that stays the same; of bare
            shards the CRCs of the frames' lengths too), `full` (each time anew, the CRC of every record and the SHA-256
            of every shard too, so that any damage is named before the first record), or `none`. Where a reader has more
            than 4,096 files, `manifest` leaves each to its turn: a missing file, a damaged record, and one too many or
            too few end the iteration then; but a forged length of a frame may end the process.
        unknown: none: what is not listed here is refused, options of a strategy with the way to give them.
        on_corrupt: `error`; or `skip` to leave out damaged records, and only those. It reads every shard once before
            the first record, and logs a warning on the logger `seqrecorder` with the shard, the offsets, the records
            and their number. What is whole of a damaged shard is copied to a temporary directory and read there.
            Damaged is what has not the manifest's SHA-256; a shard of which nothing is broken, and which is not the one
            that was written, is refused. No record comes twice, whatever bytes are doubled. Sound shards keep the
            written order; what is left of damaged ones follows, file by file. Around bytes that the disk cannot read
            up to 64 KiB are lost.

    Returns:
        A `tf.data.Dataset` whose cardinality is known to `tf.data` where it does not depend on the order. It has no
        Python function inside, so it can be saved and resumed with `tf.train.Checkpoint(iterator=iter(dataset))`. Under
        tf.data's service with `ShardingPolicy.DYNAMIC` every record comes once an epoch: the workers share the files,
        each with incomplete batches of its own; or, of what is shuffled, the epochs, so that one worker has all of one.
        To have several share that, shuffle what the service gives. Under tf.distribute each worker reads everything and
        takes its share of the batches (`AutoShardPolicy.DATA`; `FILE` cannot deal these pipelines), which takes the
        same `seed` in all of them where records are shuffled; each reads its own share alone with
        `strategy.distribute_datasets_from_function(lambda context: sr.read(...,
        shard=(context.input_pipeline_id, context.num_input_pipelines)))`.
        Sessions of TensorFlow 1 run it, too, where it is made in their graph
        (`tf.compat.v1.data.make_initializable_iterator`).
        Some elements are made ahead: four for each core, of large ones as many as hold 128 MiB of records and two at
        least, and 64 small dense ones, of up to 16 KiB.
        Autotuning and the default rewritings of `tf.data` are off, for what is chained behind it too: give your own
        stages numbers (`num_parallel_calls=2`), or set the options again (`with_options`).

    Raises:
        DatasetNotFoundError: there is no dataset, split or file of that name.
        SchemaMismatchError: the data cannot be read as `schema`; each field that disagrees is named.
        ShardReadError: a shard is missing, cut, or of another compression.
        OptionError: options make no sense.
        tf.errors.InvalidArgumentError: while iterating, wherever that is done: a record is damaged, or there are not as
            many as expected; shard, record, byte and the commands to run next are named. Of a record that is whole and
            is not what the schema says the error names the dataset alone; `read_records` and `verify` tell its place.
        tf.errors.NotFoundError: while iterating: a shard is gone, as after an overwrite, which the error says.
        RecordError: one of the first records of bare shards is not what the class says.
    """
    import tensorflow as tf

    check_threads_of_tensorflow("read")
    if unknown:
        raise _unknown(next(iter(unknown)), batch)
    if batch is not None and not isinstance(batch, _STRATEGIES):
        raise OptionError(f"batch: expected Pad(...), Bucket(...) or another strategy, or None, got {batch!r}")
    strategy: Strategy = batch or Single()
    _check_counts(shuffle, epochs, epoch)
    _check_order(seed, deterministic)
    keep_freed_memory()
    origin = resolve(
        path, split, schema=schema, compression=compression, layout=layout, check=check, on_corrupt=on_corrupt
    )
    origin, deal = origin.take_shard(shard)
    origin.fetch()
    origin.check_lengths()
    for file in origin.files if not origin.is_large else ():
        origin.check_frames(file)
    chosen = origin.schema.select(fields)
    made = strategy.carried(origin.schema)
    derived = DerivedFields.of(
        origin.schema,
        chosen,
        inputs=inputs,
        targets=targets,
        weights=weights,
        missing=missing,
        vocabulary=vocabulary,
        normalize=normalize,
        normalize_targets=normalize_targets,
        horizons=made.names if made else {},
    )
    carried = strategy.carried(derived.schema)
    options = OutputOptions(
        output=output,
        inputs=derived.inputs,
        targets=derived.targets,
        weights=derived.weights,
        class_weight=class_weight,
        counts=derived.counts(carried.names if carried else {}),
        length_name=strategy.length_name,
        mask_name=strategy.mask_name,
        index_name=index_name,
        carried=carried,
    )
    wanted = needed_fields(derived.schema, options, derived.choose(chosen))
    parsed, derivations = derived.of_fields(wanted)
    origin.check_first(parsed)
    stored = parsed if index_name is None else with_number(parsed, index_name)
    crops = {} if steps is None else dict.fromkeys(origin.schema.groups, check_steps(steps))
    feed = Feed(
        origin,
        Parser(stored, origin.layout, crops, origin.record, derivations),
        shaper(origin.schema, derived.choose(parsed), options),
        StreamOptions(
            WINDOW,
            shuffle,
            seed,
            epochs,
            epoch,
            None,
            deal,
            crops,
            _limits(origin, parsed, strategy, min_length, max_length),
            number=_numbered(origin, index_name),
            oversampling=None if oversample is None else oversampling(origin, oversample),
        ),
    )
    # Everything traced below is plain TensorFlow, which AutoGraph would only slow down.
    batches = tf.autograph.experimental.do_not_convert(strategy.read)(feed)
    if batches.count == 0 and feed.records:
        raise nothing_comes(feed, f"by {strategy!r}")
    settings = tf.data.Options()
    settings.autotune.enabled = False  # with it, destroying an iterator can block for seconds
    settings.deterministic = deterministic
    # They find nothing to do here, and take time to find it, each time that a new pipeline is first iterated over.
    settings.experimental_optimization.apply_default_optimizations = False
    # By files tf.distribute cannot deal these pipelines: it looks for the files, and stops on its way there.
    settings.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    # The one external state is that of assertions, and there is nothing in it to save.
    settings.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    return _with_cardinality(batches, epochs, origin.where, known=oversample is None).with_options(settings)


_STRATEGIES = (Pad, Bucket, TokenBudget, Ragged, Crop, Unroll, Window, Pack)


def _unknown(name: str, batch: Any) -> Exception:
    """Return the error of a keyword that `read` does not have."""
    owners = [each.__name__ for each in _STRATEGIES if name in attrs.fields_dict(each)]
    owners = [type(batch).__name__] if type(batch).__name__ in owners else owners
    if owners:
        calls = [f"batch={owner}(..., {name}=...)" for owner in owners]
        return OptionError(f"read: {name} is an option of strategies: pass {' or '.join(calls)}")
    known = list(inspect.signature(read).parameters)
    return TypeError(f"read() got an unexpected keyword argument {name!r}{did_you_mean(name, known)}")


def _numbered(origin: Origin, index_name: str | None) -> bool:
    """Check whether records get numbers, which takes knowing how many there are."""
    if index_name is None:
        return False
    if origin.records < 0:
        raise OptionError("index_name: check='none' leaves the positions of records unknown; leave `check` out")
    damaged = [file.path for file in origin.files if file.is_damaged]
    if damaged:
        raise OptionError(
            f"index_name: {damaged[0].name} is damaged, so the positions of its records are unknown; leave index_name "
            "out, or salvage the dataset first: then positions count what was recovered"
        )
    return True


def _limits(origin: Origin, parsed: Schema, strategy: Strategy, least: Any, most: Any) -> tuple[Limits, ...]:
    for name, value in (("min_length", least), ("max_length", most)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise OptionError(f"{name}: expected an int of 0 or more, got {value!r}")
    if not least and most is None:
        return ()
    if not origin.schema.groups:
        raise OptionError(
            f"{origin.schema.name} has no feature list, so no lengths that min_length and max_length limit"
        )
    if isinstance(strategy, Crop):
        return (Limits(record_length(origin.schema, strategy.length_field), least, most),)
    if isinstance(strategy, (Bucket, TokenBudget)):
        return (Limits(record_length(origin.schema, strategy.length_field, strategy.length_of), least, most),)
    cuts = isinstance(strategy, (Unroll, Window, Pack)) and parsed.groups  # the fields that are read, of one length
    return (Limits((parsed if cuts else origin.schema).groups[0], least, most),)


def _check_counts(shuffle: Any, epochs: Any, epoch: Any) -> None:
    for name, value, least in (("shuffle", shuffle, 0), ("epochs", epochs, 1), ("epoch", epoch, 0)):
        if value is None and name == "epochs":
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise OptionError(f"{name}: expected an int of {least} or more, got {value!r}")


def _check_order(seed: Any, deterministic: Any) -> None:
    if not isinstance(deterministic, bool):
        raise OptionError(f"deterministic: expected True or False, got {deterministic!r}")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, numbers.Integral)):
        raise OptionError(f"seed: expected an int or None, got {seed!r}")


def _with_cardinality(made: Batches, epochs: int | None, where: str, *, known: bool) -> Any:
    if epochs is None and made.count == 0:
        raise OptionError(f"epochs=None: {where} gives nothing in an epoch, and would be looked through for ever")
    if epochs is None:
        return counted(made.dataset, -1)
    return made.dataset if made.count < 0 or not known else counted(made.dataset, made.before + made.count * epochs)
