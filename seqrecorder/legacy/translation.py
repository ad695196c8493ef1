"""Translation of a queue graph, from its output tensors back to its readers, into a `tf.data.Dataset`."""

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
    location_of,
    seeds,
    source_of,
    sparse_slot,
)
from seqrecorder.legacy.lifted import Stage
from seqrecorder.legacy.queues import (
    check_kept,
    drawn,
    fed_contents,
    flat,
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
from seqrecorder.legacy.subgraph import Section, constants, cut_section, run_section, tensors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from seqrecorder.legacy.graph import Feed
    from seqrecorder.legacy.lifted import Lifted
    from seqrecorder.legacy.queues import ShuffleBuffer
    from seqrecorder.legacy.subgraph import Section, State


def sources(section: Section) -> set[str]:
    """Return the names of the sources of a section, including the queues of its readers."""
    return {source_of(handle).name for pull in section.pulls if is_pull(pull) for handle in handles_of(pull)}


def families(sections: Sequence[Section]) -> list[list[int]]:
    """Group the indices of sections so that sections sharing a source are in one group."""
    groups: list[tuple[set[str], list[int]]] = []
    for position, section in enumerate(sections):
        names, members = sources(section), [position]
        for group in [g for g in groups if g[0] & names]:
            groups.remove(group)
            names, members = names | group[0], group[1] + members
        groups.append((names, members))
    return [members for _, members in groups]


def are_apart(sections: Sequence[Section]) -> bool:
    """Check that no readers, queues or epoch limits are shared between sections."""
    own = [{source_of(pull.inputs[0]).name for pull in section.pulls if is_pull(pull)} for section in sections]
    limits = [op.name for section in sections for op in section.limits]
    return len(set(limits)) == len(limits) and len(set().union(*own)) == sum(map(len, own))


def have_one_pull_each(sections: Sequence[Section]) -> bool:
    """Check that each section has one pull, all of the same type."""
    return len({tuple(pull.type for pull in section.pulls) for section in sections}) == len(sections[0].pulls) == 1


def common_pulls(sections: Sequence[Section], feeds: Sequence[Feed], queue: Any) -> list[Any]:
    """Return the pull of each section; all must have the same type and queue.

    The pulls share one reader, or each has its own, and the readers have the same options.

    Raises:
        LiftError: the sections differ in their pulls, readers or feeds.
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
    """Check that all sections share the same pulls and fill the queue in the same way."""
    taken = {frozenset(pull.name for pull in section.pulls) for section in sections}
    puts = {(feed.many, feed.keep and feed.keep[1], len(feed.components)) for feed in feeds}
    limited = any(section.limits for section in sections)
    return len(taken) == len(puts) == 1 and len(sections[0].pulls) > 1 and not limited


def run_branch(sections: Sequence[Section], branch: Any, pulled: Sequence[Any], state: State) -> list[Any]:
    """Run one of the sections on pulled elements, and return its targets.

    Args:
        sections: sections that have the same pulls, or one pull each.
        branch: the index of the section.
        pulled: one element for each pull of the first section.
        state: the state of the graph.
    """
    import tensorflow as tf

    by_pull = {pull.name: row for pull, row in zip(sections[0].pulls, pulled, strict=True)}

    def runs(section: Section) -> Any:
        rows = [by_pull.get(pull.name, pulled[0]) for pull in section.pulls]
        return lambda: tuple(run_section(section, [[tf.identity(x) for x in row] for row in rows], state))

    outputs = tf.switch_case(tf.cast(branch, tf.int32), [runs(section) for section in sections])
    return list(outputs)


def reader_attributes(op: Any) -> tuple[Any, ...]:
    """Return the options of a reader in comparable form."""
    attributes = op.node_def.attr
    names = sorted(set(attributes) - {"_class", "shared_name", "container"})
    return tuple((name, attributes[name].SerializeToString(deterministic=True)) for name in names)


_MOST = 2**31 - 1


class SharedSources:
    """The users of each source, collected in one walk over a graph.

    Args:
        counts: the number of users of each shared source, as counted by an earlier walk.

    Attributes:
        seeds: the seeds of unseeded shuffles: all users of a shared source must see it in one order. Zeros reshuffle
            in each iteration.
    """

    def __init__(self, counts: dict[str, int]) -> None:
        self.seeds = (random.randint(1, _MOST), random.randint(1, _MOST)) if counts else (0, 0)  # noqa: S311 - no secret
        self._counts = counts
        self._users: dict[str, list[str]] = {}
        self._whole: dict[str, tuple[str, Any]] = {}

    @property
    def counts(self) -> dict[str, int]:
        """Number of users of each shared source."""
        return {name: len(users) for name, users in self._users.items() if len(users) > 1}

    @property
    def are_shared(self) -> bool:
        """Check that a source has several users."""
        return bool(self._counts)

    @property
    def names(self) -> frozenset[str]:
        """Names of all sources in use."""
        return frozenset(self._users)

    def take(
        self, source: Any, user: str, make: Callable[[], Any], way: str, note: Callable[[str, str, str], None]
    ) -> Any:
        """Return the elements of a source for one of its users: all of them, or every n-th for n users.

        Args:
            source: a queue, a reader, or an operation that stands for a dataset.
            user: a description of the user.
            make: makes the dataset of all elements; called once.
            way: how the user reads the source; all users must agree.
            note: called with the original, its translation and why the order is not fixed, if the source is shared.

        Raises:
            LiftError: the users read the source in different ways.
        """
        users = self._users.setdefault(source.name, [])
        users.append(user)
        if source.name not in self._whole:
            self._whole[source.name] = way, make()
        known, whole = self._whole[source.name]
        if known != way:
            raise LiftError(
                f"{describe(source)} is read in different ways, in {users[0]}, and in {user}",
                advice="read from it once, and use the result in both places",
                op=source.name,
            )
        count = self._counts.get(source.name, 1)
        if count == 1:
            return whole
        why = f"which of the {count} operations that empty it got which element was left to chance"
        note(
            f"{describe(source)} is emptied by {count} operations",
            f"number {len(users)} of every {count} elements, for {user}",
            why,
        )
        return whole.shard(count, len(users) - 1)

    def take_with_another(self, name: str, user: str, way: str) -> None:
        """Add a user of a source whose elements come with the dataset of another source."""
        self._users.setdefault(name, []).append(user)
        self._whole[name] = way, None


class Translation:
    """One walk over a graph, which records stages and notes.

    Args:
        graph: a `tf.Graph`.
        state: its variables, tables and placeholders.
        datasets: lifted datasets by the name of the operation that stands for them.
        shuffle_buffer: the buffer size of random queues.
        filled: datasets that fill queues, by the name of the queue.
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
        """Return a `tf.data.Dataset` of tuples: the values of the tensors, run after run.

        A first walk counts the users of each source. If a source is shared, a second walk gives each user its share.
        """
        dataset = self._outputs(tensors)
        if not self._sources.counts:
            return dataset
        self._sources = SharedSources(self._sources.counts)
        for collected in (self.stages, self.notes, self._lifted, self._sparse):
            collected.clear()
        return self._outputs(tensors)

    def _outputs(self, tensors: Sequence[Any]) -> Any:
        self._returned = {part.name for tensor in tensors for part in tensors_of(tensor)}
        section = self._cut(tensors)
        if not section.pulls:
            raise LiftError(
                "what the function returns depends on no queue or reader",
                advice="check that it returns what comes out of the queues; constants need no lifting",
            )
        self._check_stages(tensors)
        dataset = self._section(section, "what is returned", 1)
        if section.inner:
            original = f"{len(section.inner)} operations on what is taken"
            self._note_stage("outputs", original, "map", drawn=self._drawn([section], 1))
        self._note_competitors()
        return dataset

    def _check_stages(self, tensors: Sequence[Any]) -> None:
        """Refuse tensors that read one source at different stages, such as a record and its batch.

        A session can run one of them alone; a dataset reads all of them at each step.
        """
        emptied = {tensor.name: self._stages_of(tensors_of(tensor), 0, {}) for tensor in tensors}
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
        """Map each source behind the tensors to its stages: the number of queues between both."""
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
        """Names of all pulls."""
        return frozenset(self._taken)

    @property
    def sources(self) -> frozenset[str]:
        """Names of all queues, readers and operations that stand for datasets in use."""
        return self._sources.names

    # Sections ---------------------------------------------------------------------------------------------

    def _cut(self, targets: Sequence[Any], after: Sequence[Any] = ()) -> Section:
        section = cut_section(targets, after, self._datasets, self._state.feed)
        self._taken |= {pull.name for pull in section.pulls}
        return section

    def _section(self, section: Section, user: str, threads: int) -> Any:
        """Return a dataset of the results of a section, run after run."""
        import tensorflow as tf

        limits = [self._state.limit(op) for op in section.limits]
        parallel = None if section.stateful or threads < 2 else threads  # noqa: PLR2004
        if not section.pulls:
            return self._repeat(section, tf.data.Dataset.range(min(limits)) if limits else tf.data.Dataset.counter())
        pulled, unpack = self._pull_all(section.pulls, user)
        for limit in limits:
            pulled = pulled.take(limit)
        return self._run(section, pulled, unpack, parallel)

    def _run(self, section: Section, elements: Any, unpack: Any, parallel: int | None = None) -> Any:
        """Map a section over elements; `unpack` sorts the tensors of an element by pull."""
        return _map(
            elements, lambda *groups: tuple(run_section(section, unpack(groups), self._state)), [section], parallel
        )

    def _repeat(self, section: Section, times: Any) -> Any:
        """Return a dataset of the results of a section without pulls, one for each element of `times`."""
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

    def _pull_all(self, pulls: Sequence[Any], user: str) -> tuple[Any, Any]:
        """Zip the datasets of several pulls; also return a function that sorts an element by pull."""
        import tensorflow as tf

        if len(pulls) == 1:
            return self._pull(pulls[0], user), lambda tensors: [tensors]
        groups: dict[str, list[Any]] = {}
        for pull in pulls:
            is_dataset = pull.name in self._datasets
            way = [pull.name] if is_dataset else [source_of(pull.inputs[0]).name, *(x.name for x in pull.inputs[1:])]
            groups.setdefault(" ".join([pull.type, *way]), []).append(pull)
        datasets = [self._pull_group(group, user) for group in groups.values()]
        if len(datasets) > 1:
            names = ", ".join(describe(group[0]) for group in groups.values())
            self._note_stage(user, f"{names} side by side", "zip")
        order = {pull.name: (g, i) for g, group in enumerate(groups.values()) for i, pull in enumerate(group)}

        def unpack(elements: Any) -> list[Any]:
            return [elements[order[pull.name][0]][order[pull.name][1]] for pull in pulls]

        return tf.data.Dataset.zip(tuple(datasets)), unpack

    def _pull_group(self, pulls: Sequence[Any], user: str) -> Any:
        """Return a dataset with one tuple of tensors for each of several equal pulls from one source."""
        contents = self._pull(pulls[0], user)
        if len(pulls) == 1:
            return contents.map(lambda *tensors: (tensors,))
        why = "which of the operations that take from it at once came first was left to chance"
        self._note_stage(pulls[0].name, f"{len(pulls)} times {describe(pulls[0])} at once", "one after the other", why)
        return several_at_once(contents.map(lambda *tensors: tensors), len(pulls))

    # Sources ----------------------------------------------------------------------------------------------

    def _pull(self, pull: Any, user: str) -> Any:
        """Return the dataset of a pull: tuples, or values alone if the keys are not used."""
        if pull.name in self._datasets:
            return self._share(pull, user, lambda: self._pull_dataset(pull))
        if pull.type in READS:
            return self._read(pull, user)
        return self._dequeue(pull, user)

    def _pull_dataset(self, pull: Any) -> Any:
        lifted = self._datasets[pull.name]
        self.stages += lifted.stages
        self.notes += lifted.notes
        return flat(lifted.dataset)

    def _dequeue(self, pull: Any, user: str) -> Any:
        queue = source_of(pull.inputs[0])
        contents = self._ordered(queue, user)
        if pull.type == "QueueDequeueV2":
            return contents
        count = int(constants([pull.inputs[1]], self._state)[0])
        rest = pull.type == "QueueDequeueUpToV2"
        contents, done = grouped(queue, contents, count, rest=rest, sparse=self._sparse[queue.name])
        self._note_stage(pull.name, f"{DEQUEUES[pull.type]}({count}) of {describe(queue)}", done)
        return contents

    def _ordered(self, queue: Any, user: str) -> Any:
        """Return a dataset of the elements of a queue, in dequeue order."""

        def make() -> Any:
            contents, done, unfixed = ordered(
                queue, self._contents(queue), self._shuffle_buffer, self._sources.seeds[0]
            )
            if done:
                self._note_stage(queue.name, describe(queue), done, unfixed)
            return contents

        return self._share(queue, user, make)

    def _read(self, pull: Any, user: str) -> Any:
        reader, queue = source_of(pull.inputs[0]), source_of(pull.inputs[1])

        def make() -> Any:
            read, done = self._reading([pull])
            files = self._paths(queue, user)
            self._note_stage(pull.name, f"{READS[pull.type]} of {describe(reader)}", f"flat_map({done})")
            return files.flat_map(read)

        return self._share(reader, user, make, way=" ".join([pull.type, *(x.name for x in pull.inputs[1:])]))

    def _paths(self, queue: Any, user: str) -> Any:
        return self._ordered(queue, user).map(lambda path: path)  # strings instead of tuples of one string

    def _reading(self, pulls: Sequence[Any]) -> tuple[Any, str]:
        """Return a function from a path to the dataset of reads, and its description."""
        reads = [op for each in pulls for op in consumers(source_of(each.inputs[0])) if op.type in READS]
        keyed = any(op.outputs[0].consumers() or op.outputs[0].name in self._returned for op in reads)
        pull = pulls[0]
        read, done = reading(source_of(pull.inputs[0]), keyed=keyed)
        if pull.type == "ReaderReadV2":
            return read, done
        count = int(constants([pull.inputs[2]], self._state)[0])
        return (lambda path: read(path).batch(count)), f"{done}.batch({count})"

    def _share(self, source: Any, user: str, make: Callable[[], Any], way: str = "") -> Any:
        """Return the share of one user of a source (see `SharedSources.take`)."""
        return self._sources.take(source, user, make, way, lambda *noted: self._note_stage(source.name, *noted))

    # Feeds ------------------------------------------------------------------------------------------------

    def _contents(self, queue: Any) -> Any:
        """Return a dataset of the elements of a queue, in enqueue order."""
        import tensorflow as tf

        if queue.name in self._filled:
            contents = fed_contents(queue, self._filled[queue.name])
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
        user = f"what fills {describe(queue)}"
        groups = []
        for group in families(sections):
            branches = [sections[i] for i in group]
            groups += [[i] for i in group] if are_apart(branches) and not have_one_pull_each(branches) else [group]
        flows = []
        for group in groups:
            filling = [feeds[i] for i in group]
            raw = (
                self._section(sections[group[0]], user, filling[0].threads)
                if len(group) == 1
                else self._merge_feeds([sections[i] for i in group], filling, queue, user)
            )
            flows.append(put(raw, filling[0]))
        contents = flows[0]
        threads = sum(feed.threads for feed in feeds)
        raced = threads > 1 and queue.type != "RandomShuffleQueueV2"
        unfixed = f"{threads} threads filled the queue" if raced else None
        if len(flows) > 1:
            turns = tf.data.Dataset.range(len(flows)).repeat()
            contents = tf.data.Dataset.choose_from_datasets(flows, turns, stop_on_empty_dataset=False)
            self._note_stage(queue.name, f"{len(flows)} independent sources fill {describe(queue)}", "in turn", unfixed)
        values = self._drawn(sections, threads)
        if not any(section.pulls for section in sections) and len(feeds) == 1:
            original, done = self._producer(sections[0], feeds[0])
            self._note_stage(queue.name, original, done, unfixed or unseeded(sections[0]), values)
        else:
            inner = len(sections[0].inner)
            done = ".".join([f"map({inner} operations)"] * (inner > 0) + steps(feeds[0])) or "as it comes"
            self._note_stage(queue.name, f"{describe(queue)} is filled", done, unfixed, values)
        return contents

    def _merge_feeds(self, sections: Sequence[Section], feeds: Sequence[Feed], queue: Any, user: str) -> Any:
        """Merge the feeds of a queue that share their sources."""
        if take_alike(sections, feeds):
            pulled, unpack = self._pull_all(sections[0].pulls, user)
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
                paths = self._paths(source_of(pulls[0].inputs[1]), user)
                self._note_stage(pulls[0].name, f"{count} times {describe(pulls[0])}", f"interleave({done}, {count})")
                return paths.enumerate().interleave(
                    lambda i, path: read(path).map(lambda *row: (i % count, row)), cycle_length=count, block_length=1
                )

            way = " ".join(pull.name for pull in pulls)
            dealt = self._share(source_of(pulls[0].inputs[0]), user, make, way)
            for reader in (source_of(pull.inputs[0]).name for pull in pulls[1:]):
                self._sources.take_with_another(reader, user, way)
        else:
            dealt = self._pull(pulls[0], user)
            dealt = dealt.map(lambda *row: (row,)).enumerate().map(lambda i, row: (i % count, row[0]))
        return _map(dealt, lambda i, row: tuple(run_branch(sections, i, [row], self._state)), sections)

    def _producer(self, section: Section, feed: Feed) -> tuple[str, str]:
        """Describe a producer, which fills a queue from constants."""
        limit = min((self._state.limit(op) for op in section.limits), default=None)
        shuffles = [op for op in section.inner.values() if op.type == "RandomShuffle"]
        epochs = "for ever" if limit is None else f"{limit} times"
        drawn = [seeds(op) for op in shuffles]
        order = ""
        if drawn:
            order = ", shuffled each time, " + ("without a seed" if drawn[0] == (0, 0) else f"seeds {drawn[0]}")
        times = "counter()" if limit is None else f"range({limit})"
        count = rows(feed)
        original = f"a producer of {count} element{'s' * (count != 1)}, {epochs}{order}"
        done = "RandomShuffle" if shuffles else "the same"
        return original, ".".join([times, f"map({done})", *steps(feed)])

    # Notes ------------------------------------------------------------------------------------------------

    def _drawn(self, sections: Sequence[Section], threads: int) -> str | None:
        return drawn(sections, threads, unordered=any(stage.unfixed for stage in self.stages))

    def _note_stage(
        self, name: str, original: str, done: str, unfixed: str | None = None, drawn: str | None = None
    ) -> None:
        op = self._operations.get(name)
        self.stages.append(Stage(name, original, done, unfixed, drawn, location_of(op) if op is not None else None))

    def _note_competitors(self) -> None:
        """Note operations that shared a source with the lifted tensors but are not lifted."""
        for op in self._runners.running():
            for pull in filter(is_pull, back_from([op])) if op.name not in self._lifted else ():
                names = [source_of(handle).name for handle in handles_of(pull)]
                if not self.sources.isdisjoint(names):
                    self.notes.append(f"{op.name!r} took elements of {names[-1]!r} away, which now all come")


def _map(elements: Any, run: Callable[..., Any], sections: Sequence[Section], parallel: int | None = None) -> Any:
    """Map a function that runs sections; a Python function in them may end the dataset, as it closed the queue."""
    from tensorflow.python.data.ops import map_op

    if any(op.type in PYTHON for section in sections for op in section.inner.values()):
        # With the cardinality kept, its StopIteration would be an error and a shuffle would lose its buffer.
        return map_op._MapDataset(elements, run, preserve_cardinality=False)  # noqa: SLF001 - no public way
    return elements.map(run, num_parallel_calls=parallel)
