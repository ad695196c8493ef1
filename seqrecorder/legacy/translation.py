"""Translation of a queue graph, from its output tensors back to its readers, into a `tf.data.Dataset`."""

from __future__ import annotations

import functools
import random
from typing import TYPE_CHECKING, Any

import attrs

from seqrecorder.errors import LiftError
from seqrecorder.legacy.graph import (
    DEQUEUES,
    PYTHON,
    READS,
    Runners,
    SparseSlot,
    back_from,
    consumers,
    describe,
    is_pull,
    location_of,
    seeds,
    source_of,
    sources_of,
)
from seqrecorder.legacy.lifted import Stage, datasets_of
from seqrecorder.legacy.queues import (
    check_kept,
    count_rows,
    describe_put,
    explain_order,
    explain_values,
    fed_contents,
    flat,
    grouped,
    ordered,
    put,
)
from seqrecorder.legacy.readers import call_of, numbered, options_of, reading, shuffled
from seqrecorder.legacy.subgraph import are_apart, constants, cut_section, run_section, tensors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from seqrecorder.legacy.graph import Feed
    from seqrecorder.legacy.queues import ShuffleBuffer
    from seqrecorder.legacy.subgraph import Section, State


_RETURNED = "the returned tensors"
_MOST = 2**31 - 1


class Translation:
    """Translator of a graph into a dataset.

    It walks over the graph, builds the dataset, and records stages and notes.

    Several sections may pull from the same operation: for example, one section computes a record, and another fills a
    queue of other records. Such sections share the elements: each of n sections gets every n-th element. The number n
    is only known after a first walk.

    Args:
        graph: a `tf.Graph`.
        state: its variables, tables and placeholders.
        shuffle_buffer: the buffer size of random queues.
        filled: mapping from queue names to the dataset that fills each queue.
        counts: mapping from shared sources to their numbers of users, as counted by an earlier walk.

    Attributes:
        stages: the stages found so far, in order from the source.
        notes: messages about operations that consumed elements in the original and no longer do.
        users: mapping from source names to descriptions of their users.
        pulls: the names of the operations that consume elements of the sources.
    """

    def __init__(
        self,
        graph: Any,
        state: State,
        shuffle_buffer: ShuffleBuffer,
        filled: Mapping[str, Any],
        counts: Mapping[str, int],
    ) -> None:
        self.stages: list[Stage] = []
        self.notes: list[str] = []
        self._operations = {op.name: op for op in graph.get_operations()}
        self._state, self._datasets, self._filled = state, datasets_of(graph), filled
        self._shuffle_buffer: ShuffleBuffer = shuffle_buffer
        self._runners = Runners(graph)
        self._returned: set[str] = set()
        self.users: dict[str, list[str]] = {}
        self._whole: dict[str, tuple[str, Any]] = {}
        self._counts = counts
        # All users of a shared source must see the same order. Zero seeds reshuffle in each iteration.
        self._seeds = (random.randint(1, _MOST), random.randint(1, _MOST)) if counts else (0, 0)  # noqa: S311 - no secret
        self._lifted: set[str] = set()
        self.pulls: set[str] = set()
        self._sparse: dict[str, tuple[bool, ...]] = {}

    def outputs(self, tensors: Sequence[Any]) -> Any:
        """Build the `tf.data.Dataset` of the values of the tensors.

        Each element is a tuple of the values of all tensors in one run.
        """
        self._returned = {part.name for tensor in tensors for part in tensors_of(tensor)}
        section = self._cut(tensors)
        if not section.pulls:
            advice = "return tensors that come out of a queue; constants need no lift"
            raise LiftError("the returned tensors depend on no queue or reader", advice=advice)
        dataset = self._section(section, _RETURNED, 1)
        if section.inner:
            original = f"{len(section.inner)} operations on the elements"
            self._note("outputs", original, "map", values=self._explain_values([section], 1))
        self._note_competitors()
        return dataset

    # Sections ---------------------------------------------------------------------------------------------

    def _cut(self, targets: Sequence[Any], after: Sequence[Any] = ()) -> Section:
        section = cut_section(targets, after, self._datasets, self._state.feed)
        self.pulls |= {pull.name for pull in section.pulls}
        return section

    def _section(self, section: Section, user: str, threads: int) -> Any:
        """Build the dataset of a section.

        Each element is a tuple of the results of one run of the section.
        """
        import tensorflow as tf

        limit = self._state.limit(section)
        parallel = None if section.stateful or threads < 2 else threads  # noqa: PLR2004
        if not section.pulls:
            times = tf.data.Dataset.counter() if limit is None else tf.data.Dataset.range(limit)
            return self._repeat(section, times)
        datasets = [self._pull(pull, user) for pull in section.pulls]
        if len(datasets) > 1:
            names = ", ".join(map(describe, section.pulls))
            self._note(section.pulls[0].name, f"{names} in one step", "zip")
            pulled = tf.data.Dataset.zip(tuple(each.map(lambda *tensors: tensors) for each in datasets))
        else:
            pulled = datasets[0]
        pulled = pulled if limit is None else pulled.take(limit)

        def run(*tensors: Any) -> Any:
            return tuple(run_section(section, tensors if len(datasets) > 1 else [tensors], self._state))

        return _map(pulled, run, [section], parallel)

    def _repeat(self, section: Section, times: Any) -> Any:
        """Build the dataset of a section that pulls from no source.

        The section runs once for each element of `times`. Its results are one element of the dataset, as a tuple.
        """
        kinds = [op.type for op in section.stateful]
        if kinds != ["RandomShuffle"]:
            return _map(times, lambda _: tuple(run_section(section, [], self._state)), [section])
        [shuffle] = section.stateful
        before = self._cut([shuffle.inputs[0]])
        after = attrs.evolve(section, inner={name: op for name, op in section.inner.items() if op is not shuffle})

        def make(run: Any, drawn: Any) -> Any:
            [values] = run_section(before, [], self._state)
            known = {shuffle.outputs[0].name: shuffled(values, run, drawn)}
            return tuple(run_section(after, [], self._state, known))

        known = seeds(shuffle) or (0, 0)
        return numbered(times, known if any(known) else self._seeds).map(make)

    # Sources ----------------------------------------------------------------------------------------------

    def _pull(self, pull: Any, user: str) -> Any:
        """Build the dataset of the elements of a pull.

        The elements are tuples, with one exception: if the keys of a reader are not used, and would be slow to compute,
        the elements are its values alone.
        """
        if pull.name in self._datasets:
            return self._take(pull, user, pull.name, lambda: self._pull_dataset(pull))
        source = source_of(pull.inputs[0])
        if pull.type in READS:
            return self._take(source, user, pull.name, lambda: self._read([pull], user))
        contents = self._take(source, user, pull.name, lambda: self._ordered(source))
        if pull.type == "QueueDequeueV2":
            return contents
        count = int(constants([pull.inputs[1]], self._state)[0])
        rest = pull.type == "QueueDequeueUpToV2"
        contents, translation = grouped(source, contents, count, rest=rest, sparse=self._sparse[source.name])
        self._note(pull.name, f"{DEQUEUES[pull.type]}({count}) of {describe(source)}", translation)
        return contents

    def _take(self, source: Any, user: str, pull: str, make: Callable[[], Any]) -> Any:
        """Return the elements of a source for one of its users.

        A single user gets all elements. If there are n users, each of them gets every n-th element.

        Args:
            source: a queue, a reader, or a registered dataset operation.
            user: a description of the user.
            pull: the name of the operation that consumes elements; it must be the same for all users.
            make: a function that builds the dataset of all elements; called once.

        Raises:
            LiftError: several operations take from the source, or its elements are both returned and used elsewhere; a
                session may run one operation alone, while a dataset runs all of them at each step.
        """
        users = self.users.setdefault(source.name, [])
        users.append(user)
        number = len(users)
        known, whole = self._whole.get(source.name) or (pull, make())
        self._whole[source.name] = known, whole
        if known != pull or (_RETURNED in users and set(users) != {_RETURNED}):
            places = " and for ".join(dict.fromkeys((users[0], user)))
            raise LiftError(
                f"several operations take from {describe(source)}, for {places}: a session may run one of them alone, "
                "a dataset would run all of them at each step",
                advice="take from it once and use the result in each place; return a batch without its records, or "
                "give each a reader, or a producer, of its own",
                op=source.name,
            )
        count = self._counts.get(source.name, 1)
        if count == 1:
            return whole
        why = f"thread timing decided which of the {count} operations got which element"
        translation = f"element {number} of every {count}, for {user}"
        self._note(source.name, f"{describe(source)} is read by {count} operations", translation, why)
        return whole.shard(count, number - 1)

    def _pull_dataset(self, pull: Any) -> Any:
        lifted = self._datasets[pull.name]
        self.stages += lifted.stages
        self.notes += lifted.notes
        return flat(lifted.dataset)

    def _ordered(self, queue: Any) -> Any:
        """Build the dataset of a queue, in dequeue order."""
        contents = self._contents(queue)
        contents, translation, why = ordered(queue, contents, self._shuffle_buffer, self._seeds[0])
        if translation:
            self._note(queue.name, describe(queue), translation, why)
        return contents

    def _read(self, pulls: Sequence[Any], user: str) -> Any:
        """Build the dataset of the elements that read operations return.

        With several readers, each element is a pair. It consists of the index of the file, and of what was read.
        """
        reads = [op for each in pulls for op in consumers(source_of(each.inputs[0])) if op.type in READS]
        keyed = any(op.outputs[0].consumers() or op.outputs[0].name in self._returned for op in reads)
        pull, count = pulls[0], len(pulls)
        reader, queue = sources_of(pull)
        size = None if pull.type == "ReaderReadV2" else int(constants([pull.inputs[2]], self._state)[0])
        translation = call_of(reader, "path") + ("" if size is None else f".batch({size})")

        def read(path: Any) -> Any:
            records = reading(reader, keyed=keyed)(path)
            return records if size is None else records.batch(size)

        paths = self._take(queue, user, "readers", lambda: self._ordered(queue))
        paths = paths.map(lambda path: path)  # plain strings instead of tuples of one string
        if count == 1:
            self._note(pull.name, f"{READS[pull.type]} of {describe(reader)}", f"flat_map({translation})")
            return paths.flat_map(read)
        self._note(pull.name, f"{count} times {describe(pull)}", f"interleave({translation}, {count})")
        return paths.enumerate().interleave(
            lambda i, path: read(path).map(lambda *row: (i, row)), cycle_length=count, block_length=1
        )

    # Feeds ------------------------------------------------------------------------------------------------

    def _contents(self, queue: Any) -> Any:
        """Build the dataset of a queue, in enqueue order."""
        import tensorflow as tf

        if queue.name in self._filled:
            contents = fed_contents(queue, self._filled[queue.name])
            self._sparse[queue.name] = (False,) * len(contents.element_spec)
            self._note(queue.name, f"{describe(queue)} is filled from Python", "the dataset in feed")
            return contents
        feeds = self._runners.feeds(queue)
        self._lifted |= {feed.op.name for feed in feeds}
        self._sparse[queue.name] = tuple(isinstance(component, SparseSlot) for component in feeds[0].components)
        user = f"the threads that fill {describe(queue)}"
        sections = [self._cut([*feed.selects, *feed.components], feed.after) for feed in feeds]
        if self._counts:
            for feed, section in zip(feeds, sections, strict=True):
                check_kept(queue, feed, section)
        if are_apart(sections):
            pairs = zip(sections, feeds, strict=True)
            flows = [put(self._section(section, user, feed.threads), feed) for section, feed in pairs]
        else:
            flows = [put(self._merge_feeds(sections, feeds, queue, user), feeds[0])]
        contents = flows[0]
        threads = sum(feed.threads for feed in feeds)
        raced = threads > 1 and queue.type != "RandomShuffleQueueV2"
        random_order = f"{threads} threads filled the queue" if raced else None
        if len(flows) > 1:
            turns = tf.data.Dataset.range(len(flows)).repeat()
            contents = tf.data.Dataset.choose_from_datasets(flows, turns, stop_on_empty_dataset=False)
            original = f"{len(flows)} independent sources fill {describe(queue)}"
            self._note(queue.name, original, "round-robin", random_order)
        values = self._explain_values(sections, threads)
        if not any(section.pulls for section in sections) and len(feeds) == 1:
            original, translation = self._producer(sections[0], feeds[0])
            self._note(queue.name, original, translation, random_order or explain_order(sections[0]), values)
        else:
            inner = len(sections[0].inner)
            translation = ".".join([f"map({inner} operations)"] * (inner > 0) + describe_put(feeds[0])) or "unchanged"
            self._note(queue.name, f"{describe(queue)} is filled", translation, random_order, values)
        return contents

    def _merge_feeds(self, sections: Sequence[Section], feeds: Sequence[Feed], queue: Any, user: str) -> Any:
        """Merge feeds that fill one queue from a common source.

        The common source is a queue or a reader. If each feed has its own reader, the common source is the queue of
        files from which all these readers take.

        Raises:
            LiftError: the feeds differ in their pulls, readers or enqueues.
        """
        import tensorflow as tf

        pulls = [pull for section in sections for pull in section.pulls]
        count = len(pulls)
        readers = dict.fromkeys(source_of(pull.inputs[0]) for pull in pulls if pull.type in READS)
        kinds = {(pull.type, sources_of(pull)[-1]) for pull in pulls}
        kinds |= {(reader.type, *options_of(reader).items()) for reader in readers}
        puts = {(feed.many, feed.keep and feed.keep[1], len(feed.components)) for feed in feeds}
        apart = count == len(sections) and len(readers) in {0, 1, count}
        if len(kinds) > 1 + bool(readers) or len(puts) > 1 or not apart or any(section.limits for section in sections):
            raise LiftError(
                f"operations that fill the queue share a source, but differ: {', '.join(map(describe, pulls))}",
                advice="let one operation, run by as many threads, fill the queue; or read each source once, and limit "
                "the epochs only in its producer",
                op=queue.name,
            )

        if len(readers) > 1:
            way = " ".join(pull.name for pull in pulls)
            dealt = self._take(source_of(pulls[0].inputs[0]), user, way, lambda: self._read(pulls, user))
        else:
            dealt = self._pull(pulls[0], user).map(lambda *row: row).enumerate()

        def run_one(section: Section, row: Any) -> Any:
            return tuple(run_section(section, [[tf.identity(part) for part in row]], self._state))

        def run(i: Any, row: Any) -> Any:
            branches = [functools.partial(run_one, section, row) for section in sections]
            return tuple(tf.switch_case(tf.cast(i % count, tf.int32), branches))

        return _map(dealt, run, sections)

    def _producer(self, section: Section, feed: Feed) -> tuple[str, str]:
        """Describe a producer in terms of TensorFlow 1 and of tf.data.

        A producer fills a queue from constants.
        """
        limit = self._state.limit(section)
        epochs = "forever" if limit is None else f"{limit} times"
        drawn = [seeds(op) for op in section.shuffles]
        orders = ["without a seed" if known == (0, 0) else f"seeds {known}" for known in drawn]
        order = f", shuffled each time, {orders[0]}" if orders else ""
        times = "counter()" if limit is None else f"range({limit})"
        count = count_rows(feed)
        original = f"a producer of {count} element{'s' * (count != 1)}, {epochs}{order}"
        translation = "RandomShuffle" if drawn else "the same"
        return original, ".".join([times, f"map({translation})", *describe_put(feed)])

    # Notes ------------------------------------------------------------------------------------------------

    def _explain_values(self, sections: Sequence[Section], threads: int) -> str | None:
        return explain_values(sections, threads, unordered=any(stage.random_order for stage in self.stages))

    def _note(
        self, name: str, original: str, translation: str, order: str | None = None, values: str | None = None
    ) -> None:
        """Record a `Stage`, with the location of its operation."""
        op = self._operations.get(name)
        self.stages.append(Stage(name, original, translation, order, values, op and location_of(op)))

    def _note_competitors(self) -> None:
        """Record a note for each operation that fills another queue from a source of the dataset.

        The operation took some of the elements of the source. The dataset contains all of them.
        """
        for op in dict.fromkeys(feed.op for feeds in self._runners.filled.values() for feed in feeds):
            for pull in filter(is_pull, back_from([op])) if op.name not in self._lifted else ():
                names = [source.name for source in sources_of(pull)]
                if not self.users.keys().isdisjoint(names):
                    self.notes.append(f"{op.name!r} took some elements of {names[-1]!r}; the dataset has all of them")


def _map(elements: Any, run: Callable[..., Any], sections: Sequence[Section], parallel: int | None = None) -> Any:
    """Map a function that runs sections over the elements of a dataset.

    A Python function inside the sections may end the dataset, just as it could close a queue in TensorFlow 1.
    """
    from tensorflow.python.data.ops import map_op

    if any(op.type in PYTHON for section in sections for op in section.inner.values()):
        # If the cardinality were preserved, its StopIteration would be an error, and a shuffle would lose its buffer.
        return map_op._MapDataset(elements, run, preserve_cardinality=False)  # noqa: SLF001 - no public way
    return elements.map(run, num_parallel_calls=parallel)
