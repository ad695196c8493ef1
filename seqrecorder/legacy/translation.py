"""Walking from tensors back over queues and readers, and building the `tf.data.Dataset` that gives the same."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.errors import LiftError
from seqrecorder.legacy.graph import (
    DEQUEUES,
    PYTHON,
    QUEUES,
    READS,
    Feed,
    Runners,
    back_from,
    consumers,
    describe,
    handles_of,
    is_pull,
    made_in,
    seeds,
    source_of,
    sparse_slot,
)
from seqrecorder.legacy.lifted import Stage
from seqrecorder.legacy.queues import (
    check_kept,
    drawn,
    flat,
    given_contents,
    grouped,
    keeps,
    ordered,
    put,
    rows,
    several_at_once,
    steps,
    unseeded,
)
from seqrecorder.legacy.readers import numbered, reading, shuffled
from seqrecorder.legacy.subgraph import Section, constants, cut_section, parts_of, run_section

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from seqrecorder.legacy.graph import Feed
    from seqrecorder.legacy.lifted import Lifted
    from seqrecorder.legacy.queues import ShuffleBuffer
    from seqrecorder.legacy.subgraph import Section, State


def sources(section: Section) -> set[str]:
    """Return the names of the sources that a section takes from; of readers, also the queues that they read."""
    return {source_of(handle).name for pull in section.pulls if is_pull(pull) for handle in handles_of(pull)}


def families(sections: Sequence[Section]) -> list[list[int]]:
    """Group sections, by position, so that those that share a source are in one group."""
    groups: list[tuple[set[str], list[int]]] = []
    for position, section in enumerate(sections):
        names, members = sources(section), [position]
        for group in [g for g in groups if g[0] & names]:
            groups.remove(group)
            names, members = names | group[0], group[1] + members
        groups.append((names, members))
    return [members for _, members in groups]


def are_apart(sections: Sequence[Section]) -> bool:
    """Check whether each section has readers and queues of its own, even of the same files."""
    own = [{source_of(pull.inputs[0]).name for pull in section.pulls if is_pull(pull)} for section in sections]
    limits = [op.name for section in sections for op in section.limits]
    return len(set(limits)) == len(limits) and len(set().union(*own)) == sum(map(len, own))


def have_one_pull_each(sections: Sequence[Section]) -> bool:
    """Check whether each of some sections takes from one source, by operations of one type."""
    return len({tuple(pull.type for pull in section.pulls) for section in sections}) == len(sections[0].pulls) == 1


def common_pulls(sections: Sequence[Section], feeds: Sequence[Feed], queue: Any) -> list[Any]:
    """Return the one pull of each section, all of one kind and of one queue, or raise `LiftError`.

    They are of one reader, or each of a reader of its own, and the readers are alike.
    """
    pulls = [pull for section in sections for pull in section.pulls]
    reading = [pull.type in READS for pull in pulls]
    readers = {source_of(pull.inputs[0]).name: source_of(pull.inputs[0]) for pull in pulls if pull.type in READS}
    kinds = {(pull.type, source_of(pull.inputs[reads]).name) for pull, reads in zip(pulls, reading, strict=True)}
    puts = {(feed.many, feed.keep and feed.keep[1], len(feed.components)) for feed in feeds}
    alike = len(kinds) == len(puts) == 1 and len({reader_attributes(reader) for reader in readers.values()}) < 2  # noqa: PLR2004
    apart = len(pulls) == len(sections) and len(readers) in {0, 1, len(pulls)}
    if not alike or not apart or any(section.limits for section in sections):
        raise LiftError(
            "operations that fill the queue share a source, and do not all do the same: "
            + ", ".join(map(describe, pulls)),
            advice="let one operation, run by as many threads, fill the queue; or read each source once, and only its "
            "producer limit the epochs",
            op=queue.name,
        )
    return pulls


def take_alike(sections: Sequence[Section], feeds: Sequence[Feed]) -> bool:
    """Check whether all sections take from the same sources, by the same operations, for one kind of feed."""
    taken = {frozenset(pull.name for pull in section.pulls) for section in sections}
    puts = {(feed.many, feed.keep and feed.keep[1], len(feed.components)) for feed in feeds}
    limited = any(section.limits for section in sections)
    return len(taken) == len(puts) == 1 and len(sections[0].pulls) > 1 and not limited


def run_branch(sections: Sequence[Section], branch: Any, pulled: Sequence[Any], state: State) -> list[Any]:
    """Run the section that a number names on what its pulls gave, and return its targets.

    Args:
        sections: which take from their sources by the same pulls, or by one each.
        branch: the number.
        pulled: what the pulls of the first section gave, or those in their place.
        state: of the graph.
    """
    import tensorflow as tf

    given = {pull.name: row for pull, row in zip(sections[0].pulls, pulled, strict=True)}

    def runs(section: Section) -> Any:
        rows = [given.get(pull.name, pulled[0]) for pull in section.pulls]
        return lambda: tuple(run_section(section, [[tf.identity(x) for x in row] for row in rows], state))

    found = tf.switch_case(tf.cast(branch, tf.int32), [runs(section) for section in sections])
    return list(found)


def reader_attributes(op: Any) -> tuple[Any, ...]:
    """Return the options in which readers of one kind may differ."""
    attributes = op.node_def.attr
    names = sorted(set(attributes) - {"_class", "shared_name", "container"})
    return tuple((name, attributes[name].SerializeToString(deterministic=True)) for name in names)


_MOST = 2**31 - 1


class SharedSources:
    """The consumers of each source, found in one walk over a graph.

    Args:
        counts: how many operations empty a source, by its name, where these are several; as a walk before this one
            found.

    Attributes:
        seeds: for what has none: several that share a source have to see it in one order. Zeros for another order in
            each iteration.
    """

    def __init__(self, counts: dict[str, int]) -> None:
        self.seeds = (random.randint(1, _MOST), random.randint(1, _MOST)) if counts else (0, 0)  # noqa: S311 - no secret
        self._counts = counts
        self._places: dict[str, list[str]] = {}
        self._whole: dict[str, tuple[str, Any]] = {}

    @property
    def counts(self) -> dict[str, int]:
        """How many operations were found that empty a source, by its name, where these are several."""
        return {name: len(places) for name, places in self._places.items() if len(places) > 1}

    @property
    def are_shared(self) -> bool:
        """Check whether some sources are known to be emptied by several operations."""
        return bool(self._counts)

    @property
    def names(self) -> frozenset[str]:
        """The names of all sources that were emptied."""
        return frozenset(self._places)

    def take(
        self, source: Any, place: str, make: Callable[[], Any], way: str, note: Callable[[str, str, str], None]
    ) -> Any:
        """Return a dataset of what a source gives to one of those that empty it: all, or what comes in its turn.

        Args:
            source: a queue, a reader, or an operation that stands for a dataset.
            place: where it is emptied.
            make: makes the dataset of all that it gives; is asked once.
            way: how it is emptied, if that can differ.
            note: takes what was found, what is done, and why the order is not fixed, where there are several.

        Raises:
            LiftError: it is emptied in different ways.
        """
        places = self._places.setdefault(source.name, [])
        places.append(place)
        if source.name not in self._whole:
            self._whole[source.name] = way, make()
        known, whole = self._whole[source.name]
        if known != way:
            raise LiftError(
                f"{describe(source)} is read in different ways, in {places[0]}, and in {place}",
                advice="read from it once, and use the result in both places",
                op=source.name,
            )
        count = self._counts.get(source.name, 1)
        if count == 1:
            return whole
        why = f"which of the {count} operations that empty it got which element was left to chance"
        note(
            f"{describe(source)} is emptied by {count} operations",
            f"number {len(places)} of every {count} elements, for {place}",
            why,
        )
        return whole.shard(count, len(places) - 1)

    def take_with_another(self, name: str, place: str, way: str) -> None:
        """Note that a source is emptied in a place where another's dataset holds what it gives."""
        self._places.setdefault(name, []).append(place)
        self._whole[name] = way, None


class Translation:
    """One walk over a graph, which notes what it finds.

    Args:
        graph: a `tf.Graph`.
        state: its variables, tables and placeholders.
        datasets: what operations that stand for a dataset stand for, by their names.
        shuffle_buffer: how many elements a random queue chooses from.
        filled: datasets of what is put into queues, by their names.
    """

    def __init__(
        self,
        graph: Any,
        state: State,
        datasets: Mapping[str, Lifted],
        shuffle_buffer: ShuffleBuffer,
        filled: Mapping[str, Any],
    ) -> None:
        self.stages: list[Stage] = []
        self.notes: list[str] = []
        self._operations = {op.name: op for op in graph.get_operations()}
        self._state, self._datasets, self._filled = state, datasets, filled
        self._shuffle_buffer: ShuffleBuffer = shuffle_buffer
        self._runners = Runners(graph)
        self._returned: set[str] = set()
        self._sources = SharedSources({})
        self._lifted: set[str] = set()
        self._taken: set[str] = set()
        self._sparse: dict[str, tuple[bool, ...]] = {}

    def outputs(self, tensors: Sequence[Any]) -> Any:
        """Return a `tf.data.Dataset` of tuples: what running the tensors again and again gives.

        Sources that several operations empty are known after a first walk; in a second, each of those gets its share.
        """
        dataset = self._outputs(tensors)
        if not self._sources.counts:
            return dataset
        self._sources = SharedSources(self._sources.counts)
        for found in (self.stages, self.notes, self._lifted, self._sparse):
            found.clear()
        return self._outputs(tensors)

    def _outputs(self, tensors: Sequence[Any]) -> Any:
        self._returned = {part.name for tensor in tensors for part in parts_of(tensor)}
        section = self._cut(tensors)
        if not section.pulls:
            raise LiftError(
                "what the function returns depends on no queue or reader",
                advice="check that it returns what comes out of the queues; constants need no lifting",
            )
        self._check_stages(tensors)
        dataset = self._section(section, "what is returned", 1)
        if section.inner:
            found = f"{len(section.inner)} operations on what is taken"
            self._note_stage("outputs", found, "map", drawn=self._drawn([section], 1))
        self._note_competitors()
        return dataset

    def _check_stages(self, tensors: Sequence[Any]) -> None:
        """Refuse tensors that empty one source at different stages, such as a record beside the batch it goes into.

        A session may ask for one of them and leave the others out; a dataset takes all at each step.
        """
        emptied = {tensor.name: self._stages_of(parts_of(tensor), 0, {}) for tensor in tensors}
        for name, stages in emptied.items():
            for other, known in emptied.items():
                for source in stages.keys() & known.keys():
                    if stages[source] != known[source]:
                        raise LiftError(
                            f"{name} and {other} are returned together, and take elements of it at different stages: "
                            "a session that asks for one of them loses nothing, a dataset would take both at each step",
                            advice="return only the last of them (the batch holds the record), or give each a reader, "
                            "or a producer, of its own",
                            op=source,
                        )

    def _stages_of(self, tensors: Sequence[Any], stage: int, seen: dict[str, set[int]]) -> dict[str, set[int]]:
        """Return at which stages, in queues from the end, each source is emptied of what some tensors need."""
        for pull in filter(is_pull, back_from([tensor.op for tensor in tensors])):
            for handle in handles_of(pull):
                source = source_of(handle)
                if stage in seen.setdefault(source.name, set()):
                    continue
                seen[source.name].add(stage)
                if source.type in QUEUES and source.name not in self._filled:
                    for feed in self._runners.feeds(source):
                        self._stages_of([*feed.components, *keeps(feed)], stage + 1, seen)
        return seen

    @property
    def pulls(self) -> frozenset[str]:
        """The names of the operations that took from them."""
        return frozenset(self._taken)

    @property
    def sources(self) -> frozenset[str]:
        """The names of the queues, the readers, and what stands for datasets, that were emptied."""
        return self._sources.names

    # Sections ---------------------------------------------------------------------------------------------

    def _cut(self, targets: Sequence[Any], after: Sequence[Any] = ()) -> Section:
        section = cut_section(targets, after, self._datasets, self._state.feed)
        self._taken |= {pull.name for pull in section.pulls}
        return section

    def _section(self, section: Section, place: str, threads: int) -> Any:
        """Return a dataset of what running a section again and again gives."""
        import tensorflow as tf

        limits = [self._state.limit(op) for op in section.limits]
        parallel = None if section.stateful or threads < 2 else threads  # noqa: PLR2004
        if not section.pulls:
            return self._made(section, tf.data.Dataset.range(min(limits)) if limits else tf.data.Dataset.counter())
        pulled, unpack = self._pulled(section.pulls, place)
        for limit in limits:
            pulled = pulled.take(limit)
        return self._run(section, pulled, unpack, parallel)

    def _run(self, section: Section, elements: Any, unpack: Any, parallel: int | None = None) -> Any:
        """Return a dataset of what a section makes of elements, which a function sorts by pull."""
        return _map(
            elements, lambda *groups: tuple(run_section(section, unpack(groups), self._state)), [section], parallel
        )

    def _made(self, section: Section, times: Any) -> Any:
        """Return a dataset of what running a section without pulls gives, so many times."""
        kinds = [op.type for op in section.stateful]
        if kinds != ["RandomShuffle"]:
            return self._run(section, times, lambda _: [])
        [shuffle] = section.stateful
        before = self._cut([shuffle.inputs[0]])
        after = attrs.evolve(section, inner={name: op for name, op in section.inner.items() if op is not shuffle})

        known = seeds(shuffle) or (0, 0)
        drawn = known if any(known) else self._sources.seeds

        def make(run: Any, drawn: Any) -> Any:
            [values] = run_section(before, [], self._state)
            known = {shuffle.outputs[0].name: shuffled(values, run, drawn)}
            return tuple(run_section(after, [], self._state, known))

        return numbered(times, drawn).map(make)

    def _pulled(self, pulls: Sequence[Any], place: str) -> tuple[Any, Any]:
        """Return a dataset of what several pulls give at a time, and a function that sorts it by pull."""
        import tensorflow as tf

        if len(pulls) == 1:
            return self._pull(pulls[0], place), lambda tensors: [tensors]
        groups: dict[str, list[Any]] = {}
        for pull in pulls:
            given = pull.name in self._datasets
            way = [pull.name] if given else [source_of(pull.inputs[0]).name, *(x.name for x in pull.inputs[1:])]
            groups.setdefault(" ".join([pull.type, *way]), []).append(pull)
        parts = [self._pull_group(group, place) for group in groups.values()]
        if len(parts) > 1:
            names = ", ".join(describe(group[0]) for group in groups.values())
            self._note_stage(place, f"{names} side by side", "zip")
        order = {pull.name: (g, i) for g, group in enumerate(groups.values()) for i, pull in enumerate(group)}

        def unpack(elements: Any) -> list[Any]:
            return [elements[order[pull.name][0]][order[pull.name][1]] for pull in pulls]

        return tf.data.Dataset.zip(tuple(parts)), unpack

    def _pull_group(self, pulls: Sequence[Any], place: str) -> Any:
        """Return a dataset of tuples, with a tuple of tensors for each of the pulls, all alike from one source."""
        contents = self._pull(pulls[0], place)
        if len(pulls) == 1:
            return contents.map(lambda *tensors: (tensors,))
        why = "which of the operations that take from it at once came first was left to chance"
        self._note_stage(pulls[0].name, f"{len(pulls)} times {describe(pulls[0])} at once", "one after the other", why)
        return several_at_once(contents.map(lambda *tensors: tensors), len(pulls))

    # Sources ----------------------------------------------------------------------------------------------

    def _pull(self, pull: Any, place: str) -> Any:
        """Return a dataset of what one pull gives each time it runs: tuples, or values whose keys nothing uses."""
        if pull.name in self._datasets:
            return self._share(pull, place, lambda: self._given(pull))
        if pull.type in READS:
            return self._read(pull, place)
        return self._dequeue(pull, place)

    def _given(self, pull: Any) -> Any:
        lifted = self._datasets[pull.name]
        self.stages += lifted.stages
        self.notes += lifted.notes
        return flat(lifted.dataset)

    def _dequeue(self, pull: Any, place: str) -> Any:
        queue = source_of(pull.inputs[0])
        contents = self._ordered(queue, place)
        if pull.type == "QueueDequeueV2":
            return contents
        count = int(constants([pull.inputs[1]], self._state)[0])
        rest = pull.type == "QueueDequeueUpToV2"
        contents, done = grouped(queue, contents, count, rest=rest, sparse=self._sparse[queue.name])
        self._note_stage(pull.name, f"{DEQUEUES[pull.type]}({count}) of {describe(queue)}", done)
        return contents

    def _ordered(self, queue: Any, place: str) -> Any:
        """Return a dataset of what a queue holds, in the order in which it comes out."""

        def make() -> Any:
            contents, done, unfixed = ordered(
                queue, self._contents(queue), self._shuffle_buffer, self._sources.seeds[0]
            )
            if done:
                self._note_stage(queue.name, describe(queue), done, unfixed)
            return contents

        return self._share(queue, place, make)

    def _read(self, pull: Any, place: str) -> Any:
        reader, queue = source_of(pull.inputs[0]), source_of(pull.inputs[1])

        def make() -> Any:
            read, done = self._reading([pull])
            files = self._paths(queue, place)
            self._note_stage(pull.name, f"{READS[pull.type]} of {describe(reader)}", f"flat_map({done})")
            return files.flat_map(read)

        return self._share(reader, place, make, way=" ".join([pull.type, *(x.name for x in pull.inputs[1:])]))

    def _paths(self, queue: Any, place: str) -> Any:
        return self._ordered(queue, place).map(lambda path: path)  # a string, no longer a tuple of one

    def _reading(self, pulls: Sequence[Any]) -> tuple[Any, str]:
        """Return a function from a path to a dataset of what each of some reads gives, and what it is."""
        reads = [op for each in pulls for op in consumers(source_of(each.inputs[0])) if op.type in READS]
        keyed = any(op.outputs[0].consumers() or op.outputs[0].name in self._returned for op in reads)
        pull = pulls[0]
        read, done = reading(source_of(pull.inputs[0]), keyed=keyed)
        if pull.type == "ReaderReadV2":
            return read, done
        count = int(constants([pull.inputs[2]], self._state)[0])
        return (lambda path: read(path).batch(count)), f"{done}.batch({count})"

    def _share(self, source: Any, place: str, make: Callable[[], Any], way: str = "") -> Any:
        """Return a dataset of what a source gives in a place (see `SharedSources.take`)."""
        return self._sources.take(source, place, make, way, lambda *noted: self._note_stage(source.name, *noted))

    # Feeds ------------------------------------------------------------------------------------------------

    def _contents(self, queue: Any) -> Any:
        """Return a dataset of what is put into a queue, in order."""
        import tensorflow as tf

        if queue.name in self._filled:
            contents = given_contents(queue, self._filled[queue.name])
            self._sparse[queue.name] = (False,) * len(contents.element_spec)
            self._note_stage(queue.name, f"{describe(queue)} is filled from Python", "the dataset that is given")
            return contents
        feeds = self._runners.feeds(queue)
        self._lifted |= {feed.op.name for feed in feeds}
        slots = [tuple(sparse_slot(component) for component in feed.components) for feed in feeds]
        self._sparse[queue.name] = tuple(slot is not None for slot in slots[0])
        sections = [
            self._cut([slot or x for slot, x in zip(row, feed.components, strict=True)] + keeps(feed), feed.after)
            for feed, row in zip(feeds, slots, strict=True)
        ]
        if self._sources.are_shared:
            for feed, section in zip(feeds, sections, strict=True):
                check_kept(queue, feed, section)
        place = f"what fills {describe(queue)}"
        groups = []
        for group in families(sections):
            arms = [sections[i] for i in group]
            groups += [[i] for i in group] if are_apart(arms) and not have_one_pull_each(arms) else [group]
        parts = []
        for group in groups:
            filling = [feeds[i] for i in group]
            raw = (
                self._section(sections[group[0]], place, filling[0].threads)
                if len(group) == 1
                else self._shared([sections[i] for i in group], filling, queue, place)
            )
            parts.append(put(raw, filling[0]))
        contents = parts[0]
        threads = sum(feed.threads for feed in feeds)
        raced = threads > 1 and queue.type != "RandomShuffleQueueV2"
        unfixed = f"{threads} threads filled the queue" if raced else None
        if len(parts) > 1:
            turns = tf.data.Dataset.range(len(parts)).repeat()
            contents = tf.data.Dataset.choose_from_datasets(parts, turns, stop_on_empty_dataset=False)
            self._note_stage(queue.name, f"{len(parts)} independent sources fill {describe(queue)}", "in turn", unfixed)
        values = self._drawn(sections, threads)
        if not any(section.pulls for section in sections) and len(feeds) == 1:
            found, done = self._producer(sections[0], feeds[0])
            self._note_stage(queue.name, found, done, unfixed or unseeded(sections[0]), values)
        else:
            inner = len(sections[0].inner)
            done = ".".join([f"map({inner} operations)"] * (inner > 0) + steps(feeds[0])) or "as it comes"
            self._note_stage(queue.name, f"{describe(queue)} is filled", done, unfixed, values)
        return contents

    def _shared(self, sections: Sequence[Section], feeds: Sequence[Feed], queue: Any, place: str) -> Any:
        """Merge the feeds of a queue that share one source, or have several."""
        if take_alike(sections, feeds):
            pulled, unpack = self._pulled(sections[0].pulls, place)
            return _map(
                pulled.enumerate(),
                lambda i, rows: tuple(run_branch(sections, i % len(sections), unpack(rows), self._state)),
                sections,
            )
        pulls = common_pulls(sections, feeds, queue)
        count = len(pulls)
        names = {source_of(pull.inputs[0]).name for pull in pulls}
        if pulls[0].type in READS and len(names) > 1:

            def make() -> Any:
                read, done = self._reading(pulls)
                paths = self._paths(source_of(pulls[0].inputs[1]), place)
                self._note_stage(pulls[0].name, f"{count} times {describe(pulls[0])}", f"interleave({done}, {count})")
                return paths.enumerate().interleave(
                    lambda i, path: read(path).map(lambda *row: (i % count, row)), cycle_length=count, block_length=1
                )

            way = " ".join(pull.name for pull in pulls)
            dealt = self._share(source_of(pulls[0].inputs[0]), place, make, way)
            for reader in (source_of(pull.inputs[0]).name for pull in pulls[1:]):
                self._sources.take_with_another(reader, place, way)
        else:
            dealt = self._pull(pulls[0], place)
            dealt = dealt.map(lambda *row: (row,)).enumerate().map(lambda i, row: (i % count, row[0]))
        return _map(dealt, lambda i, row: tuple(run_branch(sections, i, [row], self._state)), sections)

    def _producer(self, section: Section, feed: Feed) -> tuple[str, str]:
        """Describe what fills a queue from nothing but constants."""
        limit = min((self._state.limit(op) for op in section.limits), default=None)
        shuffles = [op for op in section.inner.values() if op.type == "RandomShuffle"]
        epochs = "for ever" if limit is None else f"{limit} times"
        drawn = [seeds(op) for op in shuffles]
        order = ""
        if drawn:
            order = ", shuffled each time, " + ("without a seed" if drawn[0] == (0, 0) else f"seeds {drawn[0]}")
        times = "counter()" if limit is None else f"range({limit})"
        count = rows(feed)
        found = f"a producer of {count} element{'s' * (count != 1)}, {epochs}{order}"
        done = "RandomShuffle" if shuffles else "the same"
        return found, ".".join([times, f"map({done})", *steps(feed)])

    # Notes ------------------------------------------------------------------------------------------------

    def _drawn(self, sections: Sequence[Section], threads: int) -> str | None:
        return drawn(sections, threads, unordered=any(stage.unfixed for stage in self.stages))

    def _note_stage(
        self, name: str, found: str, done: str, unfixed: str | None = None, drawn: str | None = None
    ) -> None:
        made = self._operations.get(name)
        self.stages.append(Stage(name, found, done, unfixed, drawn, made_in(made) if made is not None else None))

    def _note_competitors(self) -> None:
        """Note what took from the same sources in the original and is not part of what was lifted."""
        for op in self._runners.running():
            for pull in filter(is_pull, back_from([op])) if op.name not in self._lifted else ():
                names = [source_of(handle).name for handle in handles_of(pull)]
                if not self.sources.isdisjoint(names):
                    self.notes.append(f"{op.name!r} took elements of {names[-1]!r} away, which now all come")


def _map(elements: Any, run: Callable[..., Any], sections: Sequence[Section], parallel: int | None = None) -> Any:
    """Map a function that runs sections; a Python function in them may end the dataset, as it closed a queue."""
    from tensorflow.python.data.ops import map_op

    if any(op.type in PYTHON for section in sections for op in section.inner.values()):
        # Keeping the cardinality would make an error of its StopIteration, and lose what a shuffle holds.
        return map_op._MapDataset(elements, run, preserve_cardinality=False)  # noqa: SLF001 - no public way
    return elements.map(run, num_parallel_calls=parallel)
