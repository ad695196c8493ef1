"""Writing and reading datasets with Apache Beam.

This module needs `pip install apache-beam`. Workers encode the records, and assign each of them to a shard by a hash of
its bytes. Each shard is one part. Beam may write a part several times, so only the last step commits the parts.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import attrs

from seqrecorder.codec.columns import is_table
from seqrecorder.dataset.selection import open as open_corpus
from seqrecorder.errors import OptionError, RecordError, SourceError
from seqrecorder.schema.schema import Schema
from seqrecorder.writing.commit import commit_pieces
from seqrecorder.writing.part import (
    EncodedPiece,
    PieceEncoder,
    check_unsorted,
    pieces_of,
    same_everywhere,
    write_pieces,
)
from seqrecorder.writing.shuffle import SortedSpill

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.writing.writer import WriteOptions

_TOGETHER = 1024


class WriteDataset(beam.PTransform):  # type: ignore[misc]  # Beam has no types
    """Transform that writes a PCollection of records, dictionaries or Arrow batches as a dataset.

    >>> with beam.Pipeline() as pipeline:  # doctest: +SKIP
    ...     sentences = pipeline | beam.Create([Sentence("a", [1, 2]), Sentence("b", [3])])  # doctest: +SKIP
    ...     sentences | WriteDataset("corpus", Sentence, splits={"train": 0.9, "eval": 0.1})  # doctest: +SKIP

    The complete dataset appears when the pipeline ends. Splits are the same as with `seqrecorder.write`. Records are
    ordered by a hash of their bytes, so the same records give the same files. Beam counters in the namespace of this
    class count records, bytes, and sources that hooks skipped.

    Args:
        destination: directory of the dataset, or its URL; all workers must have access to it.
        schema: the record class, or its schema.
        splits: proportions of the splits, as in `write`. Without it, the input can be a dictionary from split names to
            PCollections.
        split_by: field or function to split by, as in `write`; required with proportions if the class has no key,
            because the elements of a PCollection have no positions.
        shards: number of shards of each split; a split of few records may have fewer.
        **options: `seed`, `compression`, `params`, `metadata`, `assets` and `overwrite`, as in `write`.

    Returns:
        A PCollection of one element, the manifest.

    Raises:
        OptionError: the options contradict each other.
    """

    def __init__(
        self,
        destination: str | os.PathLike[str],
        schema: object,
        *,
        splits: Any = None,
        split_by: Any = None,
        shards: int = 16,
        **options: Any,
    ) -> None:
        super().__init__()
        self._destination, self._schema = same_everywhere(destination), Schema.of(schema)
        unchecked = {**options, "splits": splits, "split_by": split_by, "shards": shards}
        self._options = check_unsorted(self._schema, unchecked)

    def expand(self, elements: Any) -> Any:
        """Build the steps that encode records, write shards and commit the dataset."""
        options, schema = self._options, self._schema
        if isinstance(elements, dict):
            if options.splits is not None:
                raise OptionError("the dictionary names the splits already: leave `splits` out")
            pieces = [
                each | f"Encode {name}" >> beam.ParDo(_Encode(schema, options, name)) for name, each in elements.items()
            ] | beam.Flatten()
        else:
            pieces = elements | "Encode" >> beam.ParDo(_Encode(schema, options, None))
        written = (
            pieces | beam.GroupByKey() | "Write shard" >> beam.ParDo(_WriteShard(self._destination, schema, options))
        )
        numbers = beam.pvalue.AsList(written)
        return (
            written.pipeline
            | "Once" >> beam.Create([None])
            | "Commit" >> beam.Map(_commit, numbers, self._destination, schema, options)
        )


class _Encode(beam.DoFn):  # type: ignore[misc]  # as above
    """Step that encodes elements into pieces, and yields each piece with the number of its shard."""

    def __init__(self, schema: Schema, options: WriteOptions, split: str | None) -> None:
        super().__init__()
        self._encoder, self._split, self._shards = PieceEncoder(schema, options), split, options.shards or 1
        self._waiting: list[Any] = []
        self._skipped = beam.metrics.Metrics.counter(WriteDataset, "skipped")

    def start_bundle(self) -> None:
        self._waiting = []

    def process(self, element: Any) -> Iterator[tuple[int, tuple[Any, ...]]]:
        if is_table(element):
            yield from self._encode([element])
            return
        self._waiting.append(element)
        if len(self._waiting) >= _TOGETHER:
            waiting, self._waiting = self._waiting, []
            yield from self._encode(waiting)

    def finish_bundle(self) -> Iterator[Any]:
        waiting, self._waiting = self._waiting, []
        for pair in self._encode(waiting):
            yield beam.transforms.window.GlobalWindows.windowed_value(pair)

    def _encode(self, elements: list[Any]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        before = self._encoder.skipped
        with _whole_messages():
            for piece in self._encoder.encode(elements, self._split):
                # The lowest bits choose the shard, because the highest bits order the records inside it.
                yield piece.tag % self._shards, tuple(piece)
        self._skipped.inc(self._encoder.skipped - before)


class _WriteShard(beam.DoFn):  # type: ignore[misc]  # as above
    """Step that writes the pieces of a shard in order, and yields the number of the shard."""

    def __init__(self, destination: str, schema: Schema, options: WriteOptions) -> None:
        super().__init__()
        self._destination, self._schema, self._options = destination, schema, attrs.evolve(options, shards=1)
        self._records = beam.metrics.Metrics.counter(WriteDataset, "records")
        self._bytes = beam.metrics.Metrics.counter(WriteDataset, "bytes")

    def process(self, group: tuple[int, Iterable[tuple[Any, ...]]]) -> Iterator[int]:
        number, pieces = group
        with tempfile.TemporaryDirectory() as scratch:
            spill = SortedSpill(Path(scratch) / "pieces")
            for tag, split, *rest in pieces:
                spill.add(tag, (split.encode(), *rest))
            ordered = (EncodedPiece(0, split.decode(), *rest) for split, *rest in spill.drain())
            with _whole_messages():
                manifest = write_pieces(ordered, self._destination, self._schema, number, self._options)
        self._records.inc(manifest.records)
        self._bytes.inc(manifest.bytes)
        yield number


def _commit(_: None, numbers: list[int], destination: str, schema: Schema, options: WriteOptions) -> Manifest:
    with _whole_messages():
        return commit_pieces(numbers, destination, schema, options)


@contextlib.contextmanager
def _whole_messages() -> Iterator[None]:
    """Convert record errors to `SourceError`.

    Beam rebuilds an error from its first argument. For a `SourceError`, this is the complete message. A record error
    would lose the position, the key and the problems of the record.
    """
    try:
        yield
    except RecordError as error:
        raise SourceError(str(error)) from error


class ReadDataset(beam.PTransform):  # type: ignore[misc]  # as above
    """Transform that reads the records of a split as an unordered PCollection.

    >>> with beam.Pipeline() as pipeline:  # doctest: +SKIP
    ...     pipeline | ReadDataset("corpus", "train", schema=Sentence) | beam.Map(print)  # doctest: +SKIP

    Each task reads a range of records of one shard.

    Args:
        path: directory of the dataset; all workers must have access to it.
        split: name of the split; None if there is only one.
        schema: the record class; None derives one from the manifest.

    Raises:
        DatasetNotFoundError: the dataset or the split does not exist.
        SchemaMismatchError: the dataset cannot be read as the class.
    """

    def __init__(self, path: str | os.PathLike[str], split: str | None = None, *, schema: object = None) -> None:
        super().__init__()
        self._path, self._schema = same_everywhere(path), None if schema is None else Schema.of(schema)
        manifest = open_corpus(path, schema=self._schema).manifest
        self._split = manifest.split(split)

    def expand(self, begin: Any) -> Any:
        """Build the steps that read the split.

        Ranges of records are distributed to the workers, which read them.
        """
        return (
            begin
            | beam.Create(list(pieces_of(self._split.shards)))
            | beam.Reshuffle()
            | beam.ParDo(_ReadPiece(self._path, self._split.name, self._schema))
        )


class _ReadPiece(beam.DoFn):  # type: ignore[misc]  # as above
    def __init__(self, path: str, split: str, schema: Schema | None) -> None:
        super().__init__()
        self._path, self._split, self._schema = path, split, schema
        self._corpus: Any = None

    def process(self, piece: tuple[int, int, int]) -> Iterator[Any]:
        if self._corpus is None:
            self._corpus = open_corpus(self._path, schema=self._schema)
        yield from self._corpus[self._split][range(*piece)]
