"""Records of datasets that stand already: copied as they are encoded, rewritten in place, merged, compacted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import numpy as np

from seqrecorder.dataset.manifest import read_statistics
from seqrecorder.dataset.record_store import Rows
from seqrecorder.dataset.selection import Selection, rows_of
from seqrecorder.dataset.selection import open as open_corpus
from seqrecorder.dataset.splits import Stratum
from seqrecorder.errors import DatasetError, OptionError
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.places import Place
from seqrecorder.writing.writer import Writer, shows_options

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from typing_extensions import Unpack

    from seqrecorder.dataset.manifest import Manifest, Splitting
    from seqrecorder.writing.writer import WriteKeywords

_DECIDED = ("splits", "split_by", "stratify", "time", "end", "straddling", "seed", "append", "overwrite")


def rewrite(
    path: str | os.PathLike[str],
    *,
    drop: Selection | None = None,
    keep: Selection | None = None,
    schema: object = None,
    **options: Unpack[WriteKeywords],
) -> Manifest:
    """Write a dataset again in its place, without some of its records, or as another class.

    >>> import tempfile, seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str)
    ...     speaker: str = sr.context(str)
    >>> path = tempfile.mkdtemp()
    >>> _ = sr.write([Word("to", "s1"), Word("be", "s7"), Word("or", "s1")], path)
    >>> manifest = sr.rewrite(path, drop=sr.open(path).all().where(speaker="s7"))
    >>> [record.text for record in sr.read_records(path)]
    ['to', 'or']

    Records stay in their splits and in their written order, encoded as they are. Until the new dataset is complete the
    old one stands; then its files are removed, so that no byte of a dropped record is left at the path. (Blocks of a
    disk, snapshots and backups are not what a program can wipe.) The rule of the splits, metadata and assets stay.

    Args:
        path: the dataset's directory.
        drop: the records that are left out.
        keep: the records that stay; all others are left out.
        schema: the record class to write them as; records are encoded anew then.
        **options: the fields of `WriteOptions`, but for those of splits, `append` and `overwrite`.

    Returns:
        What stands there now.

    Raises:
        OptionError: options make no sense, or a selection is of another dataset.
        DatasetError: the dataset was changed since the selection was made, or while it was rewritten.
        DatasetNotFoundError: there is no dataset.
        ShardReadError: a record that stays is damaged; the dataset stands as it was.
    """
    if drop is not None and keep is not None:
        raise OptionError("rewrite: name what is dropped or what is kept, not both")
    given = [name for name in _DECIDED if name in options]
    if given:
        raise OptionError(f"rewrite: {given[0]} stays what it is in the dataset; leave it out")
    corpus = open_corpus(path)
    old = corpus.manifest
    some = keep if drop is None else drop
    if some is not None and not isinstance(some, Selection):
        raise OptionError(f"rewrite: expected a selection of the dataset's records, got {some!r:.100}")
    if some is not None and not rows_of(some).store.manifest.is_at(Place.of(old.url) if old.url else old.path):
        raise OptionError(f"rewrite: expected a selection of {old.where}, got {some!r}")
    if some is not None and rows_of(some).store.pieces:
        raise OptionError(f"rewrite: expected a selection of whole records, got {some!r}")
    if some is not None and rows_of(some).store.digest != rows_of(corpus.all()).store.digest:
        raise DatasetError(f"{old.where} was changed since the selection was made; select again", path=old.where)
    unchanged: WriteKeywords = {"compression": old.compression, "metadata": old.metadata, "assets": old.assets}
    if read_statistics(old.path, old.to_json().encode()) is not None:
        unchanged["stats"] = True
    again: WriteKeywords = {**unchanged, **options, "overwrite": True}
    writer = Writer(old.url or old.path, old.schema if schema is None else schema, **again)
    writer.keep_splitting(old.splitting)
    with writer:
        for name in old.splits:
            part = corpus[name]
            if some is not None:
                part = part[np.isin(rows_of(part).array(), rows_of(some).array(), invert=drop is not None)]
            writer.write_all({name: part})
    return writer.manifest


def compact(path: str | os.PathLike[str], **options: Unpack[WriteKeywords]) -> Manifest:
    """Write a dataset again in its place in few shards: what many appends made of many small ones.

    >>> import tempfile, seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str)
    >>> path = tempfile.mkdtemp()
    >>> for number, text in enumerate(["to", "be", "or"]):
    ...     _ = sr.write([Word(text)], path, append=number > 0)
    >>> len(sr.compact(path).splits["train"].shards)
    1

    Args:
        path: the dataset's directory.
        **options: as for `rewrite`; `shards` or `shard_bytes` say how many there are to be.

    Raises:
        DatasetError: the dataset was changed meanwhile.
        DatasetNotFoundError: there is no dataset.
        ShardReadError: a record is damaged; the dataset stands as it was.
    """
    return rewrite(path, **options)


@shows_options
def merge(
    paths: Sequence[str | os.PathLike[str] | Selection],
    destination: str | os.PathLike[str],
    *,
    schema: object = None,
    **options: Unpack[WriteKeywords],
) -> Manifest:
    """Write the records of several datasets as one, each in the split that it is in.

    >>> import tempfile, seqrecorder as sr
    >>> @sr.record
    ... class Word:
    ...     text: str = sr.context(str)
    >>> paths = [tempfile.mkdtemp() for _ in range(3)]
    >>> for path, text in zip(paths, ["to", "be"]):
    ...     _ = sr.write([Word(text)], path)
    >>> sr.merge(paths[:2], paths[2]).records
    2

    Args:
        paths: directories of datasets, or selections; in this order.
        destination: as for `write`.
        schema: the record class to write them as; by default that of the first.
        **options: the fields of `WriteOptions`; `on_duplicate="first"` leaves out records whose keys came before. With
            `splits`, records find new splits. Without, the rule that all datasets have (shares, seed, `split_by`,
            `stratify`, `time`) is that of the new one, so that an append goes on with it.

    Raises:
        OptionError: options make no sense, or there is nothing to merge.
        SchemaMismatchError: a dataset cannot be read as the class.
        DuplicateKeyError: two records have one key.
        DatasetExistsError: something stands at the destination.
    """
    if isinstance(paths, (str, bytes)) or not hasattr(paths, "__len__") or not len(paths):
        raise OptionError(f"merge: expected a list of datasets or selections, got {paths!r:.100}")
    parts = [rows_of(item if isinstance(item, Selection) else open_corpus(item).all()) for item in paths]
    wanted = parts[0].store.manifest.schema if schema is None else Schema.of(schema).written
    parts = [part if part.store.manifest.schema.fields == wanted.fields else part.read_as(wanted) for part in parts]
    routed = options.get("splits") is not None
    writer = Writer(destination, wanted, **options)
    rule = None if routed or options.get("append") else _common_rule(parts)
    if rule is not None:
        writer.keep_splitting(rule)
    with writer:
        for part in parts:
            if routed:
                writer.write_all(Selection(part))
                continue
            own = part.by_split()
            for name, split in part.store.splits.items():
                if name in own or not split:
                    writer.write_all({name: Selection(own.get(name, Rows(part.store, split)))})
    return writer.manifest


def _common_rule(parts: Sequence[Rows]) -> Splitting | None:
    """Return the rule by which the records of all datasets found their splits, None where there are several."""
    rules = list({part.store.digest: part.store.manifest.splitting for part in parts}.values())
    plain = [attrs.evolve(rule, sources=0, strata=None, groups=rule.groups and {}) for rule in rules]
    groups, strata = dict[str, set[int]](), dict[int, Stratum]()
    for rule in rules:
        for name, members in (rule.groups or {}).items():
            groups.setdefault(name, set()).update(members)
        for value, part in (rule.strata or {}).items():
            counts = strata[value].counts if value in strata else [0] * len(part.counts)
            strata[value] = Stratum(part.name, [sum(pair) for pair in zip(counts, part.counts, strict=True)])
    is_dealt_twice = sum(map(len, groups.values())) > len(set[int]().union(*groups.values()))
    if is_dealt_twice or any(each != plain[0] for each in plain):
        return None
    return attrs.evolve(
        rules[0],
        sources=sum(rule.sources for rule in rules),
        groups=rules[0].groups and {name: tuple(sorted(members)) for name, members in groups.items()},
        strata=rules[0].strata and strata,
    )
