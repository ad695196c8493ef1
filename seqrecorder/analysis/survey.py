"""`survey`: the facts for a report, collected in one pass over the readable records of a dataset.

`seqrecorder.analysis.findings` judges the facts.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.analysis.leakage import leakage_of
from seqrecorder.analysis.stats import Stats, selections_of
from seqrecorder.codec.records import content_digest
from seqrecorder.dataset.record_store import Rows
from seqrecorder.dataset.selection import Selection, rows_of
from seqrecorder.dataset.selection import open as open_corpus
from seqrecorder.dataset.verify import verify
from seqrecorder.errors import ManifestError, OptionError, SeqrecorderError, check_count
from seqrecorder.reading.batching.bucket import Bucket
from seqrecorder.reading.batching.pack import Pack
from seqrecorder.reading.batching.pad import Pad
from seqrecorder.reading.batching.token_budget import TokenBudget
from seqrecorder.reading.plan import plan
from seqrecorder.storage.processes_and_signals import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from seqrecorder.analysis.leakage import Leakage
    from seqrecorder.analysis.numbers import Numbers
    from seqrecorder.codec.columns import Column
    from seqrecorder.codec.decode import RecordDecoder
    from seqrecorder.dataset.record_store import RecordStore
    from seqrecorder.dataset.verify import Problem
    from seqrecorder.reading.plan import PlanTable
    from seqrecorder.schema.field import Field


def compare(selection: Selection, batch_size: int = 64, *, shuffle: int = 0, seed: int | None = None) -> PlanTable:
    """Plan the batches of a selection with `Pad`, `Bucket`, `TokenBudget` and `Pack`.

    The options of each strategy are chosen so that its batches have a similar size. `Pack` is left out if the selection
    has feature lists that cannot be packed.

    Args:
        selection: records to plan for.
        batch_size: number of records per batch; step budgets are chosen to fit this number of records of average
            length.
        shuffle: size of the shuffle window in records, as in `read`; 0 keeps the order.
        seed: seed of the shuffled order, as in `read`.

    Raises:
        ShardReadError: the lengths cannot be read.
    """
    lengths = selection.lengths() if selection.schema.groups else np.zeros(1, np.int64)
    longest = max(1, int(lengths.max(initial=0)))
    budget = max(longest, -(-int(lengths.sum()) * batch_size // max(1, lengths.size)))
    others: list[Any] = [TokenBudget(budget)]
    lists = [field for field in selection.schema.fields if field.is_list]
    if not any(field.is_ragged or field.sparse is not None for field in lists):  # these steps cannot be packed
        firsts = {field.group: field.name for field in lists[::-1] if field.group not in selection.schema.rates}
        most = {name: max(1, int(selection.lengths(group).max(initial=0))) for group, name in reversed(firsts.items())}
        others.append(Pack(most if len(most) > 1 else longest, max(1, budget // longest)))
    buckets = Bucket(batch_size), Bucket(batch_size, boundaries="sorted")
    return plan(selection, Pad(batch_size), *buckets, *others, shuffle=shuffle, seed=seed)


BINS = 48
"""Number of step ranges in which missing values are counted; the last range has no end."""
WORST = 10
_CHUNK = 4096  # maximum number of records read at once
_DIGEST = np.dtype("V16")
_TAIL = 4
"""Number of zero steps at the end of a record that count as padding."""


@attrs.define
class Survey:
    """Facts about a dataset, for a report.

    Attributes:
        where: path or URL of the dataset.
        stats: statistics of all readable records, overall and by split.
        problems: problems of the files, as found by `verify`; empty for a selection.
        lost: number of unreadable records in each split, by name.
        width: number of steps in a bin; the last bin contains all later steps.
        missing: number of steps with a missing value in each bin, by feature list.
        padded: number of records that end in zeros, by feature list.
        worst: for each kind of extreme, the scores and positions of the ten most extreme records, the worst first.
        copies: positions of identical records within a split, one list per group of copies; only the largest groups.
        copied: number of records in each split that repeat an earlier one; splits without repeats are left out.
        backwards: number of records whose times go backwards, and the position of the first, by feature list and split.
        leakage: overlaps between splits; None for a single split.
        plans: name of the planned split, and the plans of the batching strategies; None if lengths cannot be read.
        store: store of the records; None if the manifest is unreadable.
    """

    where: str
    stats: Stats | None = None
    problems: tuple[Problem, ...] = ()
    lost: dict[str, int] = attrs.field(factory=dict)
    width: int = 1
    missing: dict[str, NDArray[np.int64]] = attrs.field(factory=dict)
    padded: dict[str, int] = attrs.field(factory=dict)
    worst: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = attrs.field(factory=dict)
    copies: list[list[int]] = attrs.field(factory=list)
    copied: dict[str, int] = attrs.field(factory=dict)
    backwards: dict[tuple[str, str], tuple[int, int]] = attrs.field(factory=dict)
    leakage: Leakage | None = None
    plans: tuple[str, PlanTable] | None = None
    store: RecordStore | None = None

    def steps_of_bins(self, sizes: Numbers) -> NDArray[np.float64]:
        """Count the steps in each bin, given the distribution of record lengths."""
        lengths, times = sizes.distributions[0].steps()
        widths = np.array([self.width] * (BINS - 1) + [np.inf])[:, np.newaxis]
        within = np.clip(lengths - np.arange(BINS)[:, np.newaxis] * self.width, 0, widths)
        return np.asarray(within @ times, np.float64)

    def record(self, position: int) -> Any:
        """Read the record at a position, or return None if it can no longer be read."""
        if self.store is None:
            return None
        try:
            if self.store.is_sought:
                return self.store.record(position)
            return next(Rows(self.store, np.array([position])).records())
        except (SeqrecorderError, OSError):
            return None

    def name_of(self, position: int) -> str:
        """Return the key of a record, or its position in its split if it has no key."""
        split, row = self.split_of(position)
        key = None if self.store is None else self.store.schema.key_field
        record = None if key is None else self.record(position)
        return f"record {row:,} of {split}" if key is None or record is None else str(getattr(record, key.name))

    def split_of(self, position: int) -> tuple[str, int]:
        """Find the split of a position, and the position within that split."""
        splits = {} if self.store is None else self.store.splits
        return next((name, position - places.start) for name, places in splits.items() if position in places)


def survey(
    source: Any, *, by: str | None = None, time: str | None = None, batch_size: int = 64, progress: bool | None = None
) -> Survey:
    """Survey the records of a dataset in one pass.

    Args:
        source: directory of a dataset, result of `seqrecorder.open`, or selection of its records.
        by: name of a context field whose values no two splits should share (see `leakage`).
        time: name of the field with the time of a record; splits should not overlap in time (see `leakage`).
        batch_size: batch size with which batching strategies are compared.
        progress: whether to show a progress bar; None shows one on terminals if tqdm is installed.

    Raises:
        DatasetNotFoundError: the dataset does not exist.
    """
    check_count("batch_size", batch_size)
    if isinstance(source, Selection):
        facts = Survey(rows_of(source).store.manifest.where)
    else:
        path = source if not hasattr(source, "manifest") else source.manifest.where
        facts = Survey(str(path), problems=verify(path, progress=progress).problems)
        try:
            source = open_corpus(path) if path is source else source
        except ManifestError:
            return facts
    splits = selections_of(source)
    if not any(map(len, splits.values())):
        raise OptionError(f"report: expected records, got none: {source!r}")
    facts.store = rows_of(next(iter(splits.values()))).store
    _ = [facts.store.schema[name] for name in (by, time) if name is not None]
    with contextlib.closing(Progress(progress, "report")) as bar:
        bar.expect(sum(map(len, splits.values())))
        whole = _survey_records(facts, splits, bar)
    if len(whole) > 1:
        readable = {name: Selection(Rows(facts.store, positions)) for name, (positions, _) in whole.items()}
        contents = {
            name: dict(zip(digests.tolist(), (positions - facts.store.splits[name].start).tolist(), strict=True))
            for name, (positions, digests) in whole.items()
        }
        facts.leakage = leakage_of(readable, contents, by=by, time=time)
    if facts.store.schema.groups:
        split = "train" if "train" in splits else max(splits, key=lambda name: len(splits[name]))
        with contextlib.suppress(SeqrecorderError, OSError):  # damaged lengths are reported as problems
            facts.plans = split, compare(splits[split], batch_size)
    return facts


def _survey_records(
    facts: Survey, splits: Mapping[str, Selection], bar: Progress
) -> dict[str, tuple[NDArray[np.int64], NDArray[Any]]]:
    """Read all records of the splits, and add what they contain to `facts`.

    The result maps each split to the ascending positions of its readable records, and to the digests of these records.
    """
    store = rows_of(next(iter(splits.values()))).store
    schema, decoder = store.schema, store.decoder(None)
    lengths = Counter[int]()
    for split in store.manifest.splits.values():
        for shard in split.shards:
            lengths.update(dict(shard.histogram))
    facts.width = max(1, -(-_usual(lengths) // BINS))
    total, whole = Stats.of_nothing(schema), {}
    for name, selection in splits.items():
        part, read, digests = Stats.of_nothing(schema), [np.empty(0, np.int64)], list[bytes]()
        for positions, data, columns in _readable(store, decoder, rows_of(selection).array()):
            part.add(columns, len(data))
            bar.advance(len(data))
            read.append(positions)
            digests += [content_digest(store.manifest.schema, record) for record in data]
            _survey_chunk(facts, name, schema.fields, columns, positions)
        there = np.concatenate(read)
        order = np.argsort(there)
        whole[name] = there[order], np.frombuffer(b"".join(digests), _DIGEST)[order]
        facts.lost[name] = len(selection) - there.size
        total += attrs.evolve(part, splits={name: part})
    facts.stats = total
    _find_copies(facts, whole)
    return whole


def _usual(lengths: Mapping[int, int]) -> int:
    """Compute the 99th percentile of record lengths."""
    ends = np.cumsum([lengths[length] for length in sorted(lengths)])
    return sorted(lengths)[int(np.searchsorted(ends, 0.99 * ends[-1]))] if lengths else 0


def _readable(
    store: RecordStore, decoder: RecordDecoder, positions: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], list[bytes], dict[str, Column]]]:
    """Yield the readable records at the given positions, in chunks.

    All records of a chunk are in one shard. A chunk consists of their positions, bytes and columns. Unreadable records
    are left out. In a compressed shard, these are all records from the first unreadable chunk on.
    """
    files, rows = store.order.find(positions)
    for number, here in store.by_shard(files, rows):
        own, again, size = store.forward(), store.forward(), store.window(_CHUNK)
        try:
            shard = own.shard(number)
            _ = getattr(shard, "starts", None)
        except (SeqrecorderError, OSError):
            continue
        ahead = [positions[here[at : at + size]] for at in range(0, here.size, size)][::-1]
        while ahead:
            chunk = ahead.pop()
            try:
                data = own.messages(chunk).rows()
                columns = again.columns(decoder, chunk)
            except (SeqrecorderError, OSError):
                if not own.is_sought:
                    break  # a compressed stream cannot be read past damage
                middle = chunk.size // 2
                ahead += [half for half in (chunk[middle:], chunk[:middle]) if middle]
                continue
            yield chunk, data, columns


def _survey_chunk(
    facts: Survey, split: str, fields: tuple[Field, ...], columns: Mapping[str, Column], positions: NDArray[np.int64]
) -> None:
    """Add the findings for one chunk: missing values, times that go backwards, stored padding, and extreme records."""
    missing, empty = np.zeros(positions.size, np.int64), np.zeros(positions.size, np.int64)
    longest = np.zeros(positions.size, np.int64)
    for field in fields:
        column = columns[field.name]
        here = np.arange(positions.size) if column.present is None else np.flatnonzero(column.present)
        empty[np.setdiff1d(np.arange(positions.size), here)] += 1
        sizes = column.counts if column.steps is None else column.steps
        if sizes is not None:
            empty[here[np.asarray(sizes) == 0]] += 1
        if column.steps is None:
            continue
        longest[here] = np.maximum(longest[here], column.steps)
        if field.is_ragged or field.sparse is not None or not column.values.size or column.values.dtype == object:
            continue  # text and images of any size have no missing values
        values = column.values.reshape(len(column.values), -1)
        starts = np.cumsum(column.steps) - column.steps
        if field.element.is_time and not field.shape:
            # All steps except the first of each record.
            late = np.flatnonzero(np.diff(np.repeat(here, column.steps)) == 0) + 1
            late = late[values[late, 0] < values[late - 1, 0]]
            owners = np.unique(positions[np.repeat(here, column.steps)[late]])
            if owners.size:
                count, first = facts.backwards.get((field.name, split), (0, owners[0]))
                facts.backwards[field.name, split] = count + owners.size, int(min(first, owners[0]))
        if field.element.numpy.kind in "fcmMV":
            gone = np.isnat(values) if field.element.is_time else np.isnan(values)
            steps = np.flatnonzero(gone.any(1)) if gone.any() else np.empty(0, np.int64)
            owner = np.searchsorted(starts + column.steps, steps, side="right")
            missing[here] += np.bincount(owner, minlength=here.size)
            bins = np.minimum((steps - starts[owner]) // facts.width, BINS - 1)
            counts = facts.missing.setdefault(field.name, np.zeros(BINS, np.int64))
            counts += np.bincount(bins, minlength=BINS)
        if field.element.numpy.kind in "fiu":
            long = column.steps >= 2 * _TAIL
            tail = (starts + column.steps)[long, np.newaxis] - np.arange(1, _TAIL + 1)
            ends = ~values[tail].any((1, 2)) & values[starts[long]].any(1)
            facts.padded[field.name] = facts.padded.get(field.name, 0) + int(ends.sum())
    for kind, scores in (("longest", longest), ("emptiest", (empty << 40) - longest), ("most missing", missing)):
        old = facts.worst.get(kind, (np.empty(0, np.int64),) * 2)
        every, places = np.concatenate([old[0], scores]), np.concatenate([old[1], positions])
        kept = np.lexsort((places, -every))[:WORST]
        kept = kept[every[kept] > 0] if kind == "most missing" else kept
        facts.worst[kind] = every[kept], places[kept]


def _find_copies(facts: Survey, whole: Mapping[str, tuple[NDArray[np.int64], NDArray[Any]]]) -> None:
    positions, digests = (np.concatenate(each) for each in zip(*whole.values(), strict=True))
    splits = np.repeat(np.arange(len(whole)), [part.size for part, _ in whole.values()])
    halves = digests.view("<u8").reshape(-1, 2)
    order = np.lexsort((positions, splits, halves[:, 1], halves[:, 0]))
    keys = np.column_stack([halves[order], splits[order].astype(np.uint64)])
    same = np.concatenate([[False], (keys[1:] == keys[:-1]).all(1)])[: order.size]
    counts = np.bincount(splits[order][same], minlength=len(whole)).tolist()
    facts.copied = {name: count for name, count in zip(whole, counts, strict=True) if count}
    firsts = np.flatnonzero(~same)
    sizes = np.diff(np.append(firsts, order.size))
    largest = np.lexsort((positions[order[firsts]], -sizes))[:WORST]
    facts.copies = [positions[order[firsts[at] : firsts[at] + sizes[at]]].tolist() for at in largest if sizes[at] > 1]
