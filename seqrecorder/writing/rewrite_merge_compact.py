"""Edits of existing datasets: rewrite in place, compact, and merge.

Where possible, encoded records are copied rather than encoded again.
"""

from __future__ import annotations

import collections
import logging
from typing import TYPE_CHECKING

import attrs
import numpy as np

from seqrecorder.dataset.manifest import read_statistics, splitting_of
from seqrecorder.dataset.record_store import Rows
from seqrecorder.dataset.selection import Selection, rows_of
from seqrecorder.dataset.selection import open as open_corpus
from seqrecorder.dataset.split_shares import Stratum
from seqrecorder.errors import DatasetError, OptionError
from seqrecorder.schema.evolution import source_of
from seqrecorder.schema.schema import Schema
from seqrecorder.storage.object_store import Place
from seqrecorder.writing.writer import Writer, shows_options

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from typing_extensions import Unpack

    from seqrecorder.dataset.manifest import Manifest, Splitting
    from seqrecorder.dataset.selection import Corpus
    from seqrecorder.writing.writer import WriteKeywords

_LOG = logging.getLogger("seqrecorder")

_DECIDED = ("splits", "split_by", "stratify", "time", "end", "straddling", "seed", "append", "overwrite")


def rewrite(
    path: str | os.PathLike[str],
    *,
    drop: Selection | None = None,
    keep: Selection | None = None,
    schema: object = None,
    **options: Unpack[WriteKeywords],
) -> Manifest:
    """Rewrite a dataset in place, to drop records or to change the record class.

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

    Records keep their splits, their order and their bytes. The splitting rule, metadata, assets and the number of
    skipped records stay, too. `drop` and `keep` also remove `skip_reasons` from the manifest, because the reasons may
    quote values of records. Keys are not checked again unless `schema` has a different key or chunk field, or
    `on_duplicate` is passed.

    The old files are removed once the new dataset is complete, so that no byte of a dropped record is left in the
    directory (bytes may be left in free disk blocks, snapshots and backups). At a URL, the old files stay until `clean`
    removes them. In the caches of readers, they stay until the caches are emptied.

    Args:
        path: directory or URL of the dataset.
        drop: selection of the records to drop.
        keep: selection of the records to keep; all others are dropped.
        schema: new record class, for which the records are encoded again; by default, the class stays the same. The
            values of a field that the new class lacks are lost, and a warning is logged.
        **options: fields of `WriteOptions`, except `append`, `overwrite` and the fields about splits.

    Returns:
        The manifest of the new dataset.

    Raises:
        OptionError: an option is invalid, `keep` is empty, or the selection belongs to another dataset.
        DatasetError: the dataset has changed since the selection was made, or during the rewrite.
        DatasetNotFoundError: there is no dataset.
        ShardReadError: a record to keep is damaged, or a shard was replaced by another; the dataset is unchanged.
    """
    if drop is not None and keep is not None:
        raise OptionError("rewrite: pass drop= or keep=, not both")
    if fixed := [name for name in _DECIDED if name in options]:
        raise OptionError(f"rewrite: {fixed[0]} cannot be changed in a rewrite; leave it out")
    corpus = open_corpus(path)
    old = corpus.manifest
    chosen = keep if drop is None else drop
    if chosen is not None:
        _check_selection(chosen, corpus)
    if keep is not None and not keep:
        raise OptionError("rewrite: keep= selects no record, so all would be lost; drop= of all records does that")
    if drop is not None and not drop:
        _LOG.warning("%s: nothing is dropped, since the selection is empty", old.where)
    unchanged: WriteKeywords = {"compression": old.compression, "metadata": old.metadata, "assets": old.assets}
    has_stats = read_statistics(old.path, old.to_json().encode()) is not None
    again: WriteKeywords = {**unchanged, "stats": has_stats, **options, "overwrite": True}
    writer = Writer(old.url or old.path, old.schema if schema is None else schema, **again)
    read = [source_of(field, old.schema.fields) for field in writer.schema.fields]
    history = old if chosen is None else attrs.evolve(old, skip_reasons=())
    keys = [{each.feature for each in of.fields if each.key or each.chunk} for of in (old.schema, writer.schema)]
    writer.keep_history(history, keys=keys[0] == keys[1] and "on_duplicate" not in options)
    with writer:
        for name in old.splits:
            kept = corpus[name]
            if chosen is not None:
                kept = kept[np.isin(rows_of(kept).array(), rows_of(chosen).array(), invert=drop is not None)]
            rows_of(kept).check_digests()
            writer.write_all({name: kept})
        if gone := ", ".join(repr(field.name) for field in old.schema.fields if field not in read):
            text = "%s: %s has no field for the stored %s, whose values go; declare renamed_from= where the name is new"
            _LOG.warning(text, old.where, writer.schema.name, gone)
    return writer.manifest


def _check_selection(chosen: Selection, corpus: Corpus) -> None:
    old = corpus.manifest
    place = Place.of(old.url) if old.url else old.path
    if not isinstance(chosen, Selection) or not rows_of(chosen).store.manifest.is_at(place):
        got = repr(chosen)[:200] if isinstance(chosen, Selection) else type(chosen).__name__
        raise OptionError(f"rewrite: expected a selection of {old.where}, as open(path).all().where(...), got {got}")
    if rows_of(chosen).store.pieces:
        raise OptionError(f"rewrite: expected a selection of whole records, got {chosen!r}")
    if rows_of(chosen).store.digest != rows_of(corpus.all()).store.digest:
        raise DatasetError(f"{old.where} was changed since the selection was made; select again", path=old.where)


def compact(path: str | os.PathLike[str], **options: Unpack[WriteKeywords]) -> Manifest:
    """Rewrite a dataset in place with fewer shards, to join the small shards of many appends.

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
        path: directory or URL of the dataset.
        **options: the same as for `rewrite`; `shards` or `shard_bytes` determines the number of shards.

    Raises:
        DatasetError: the dataset was changed during the rewrite.
        DatasetNotFoundError: there is no dataset.
        ShardReadError: a record is damaged, or a shard was replaced by another; the dataset is unchanged.
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
    """Merge several datasets into one; each record stays in its split.

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
        paths: directories of datasets, or selections; their records are written in this order.
        destination: directory of the new dataset, or its URL, as for `write`.
        schema: record class of the new dataset; default: the class of the first dataset.
        **options: the fields of `WriteOptions`; `on_duplicate="first"` keeps only the first record with a key. With
            `splits`, records are assigned to new splits. Otherwise, if all datasets have the same splitting rule
            (shares, seed, `split_by`, `stratify`, `time`), the new dataset inherits it for later appends. If only some
            records of a dataset are merged, no counts of strata are inherited.

    Raises:
        OptionError: an option is invalid, or there is nothing to merge.
        SchemaMismatchError: a dataset cannot be read as the record class of the new dataset.
        DuplicateKeyError: two records share a key.
        ShardReadError: a record is damaged, or a shard was replaced by another; nothing is published.
        DatasetExistsError: the destination exists and is not empty.
    """
    if isinstance(paths, (str, bytes)) or not hasattr(paths, "__len__") or not len(paths):
        raise OptionError(f"merge: expected a list of datasets or selections, got {paths!r:.100}")
    inputs = [rows_of(item if isinstance(item, Selection) else open_corpus(item).all()) for item in paths]
    wanted = inputs[0].store.manifest.schema if schema is None else Schema.of(schema).written
    inputs = [rows if rows.store.manifest.schema.fields == wanted.fields else rows.read_as(wanted) for rows in inputs]
    routed = options.get("splits") is not None
    writer = Writer(destination, wanted, **options)
    rule = None if routed or options.get("append") else _common_rule(inputs)
    if rule is not None:
        writer.keep_splitting(rule)
    writer.keep_chunks([rows.store.manifest.schema for rows in inputs])
    with writer:
        for rows in inputs:
            rows.check_digests()
            if routed:
                writer.write_all(Selection(rows))
                continue
            own = rows.by_split()
            for name, split in rows.store.splits.items():
                if name in own or not split:
                    writer.write_all({name: Selection(own.get(name, Rows(rows.store, split)))})
    return writer.manifest


def _common_rule(inputs: Sequence[Rows]) -> Splitting | None:
    """Combine the splitting rules of all datasets into one.

    The result is None if the rules differ.
    """
    rules = list({rows.store.digest: splitting_of(rows.store.manifest, rows.schema) for rows in inputs}.values())
    plain = [attrs.evolve(rule, sources=0, strata=None, groups=rule.groups and {}) for rule in rules]
    groups, strata = dict[str, set[int]](), dict[int, Stratum]()
    for rule in rules:
        for name, members in (rule.groups or {}).items():
            groups.setdefault(name, set()).update(members)
        for value, stratum in (rule.strata or {}).items():
            counts = strata[value].counts if value in strata else [0] * len(stratum.counts)
            strata[value] = Stratum(stratum.name, [sum(pair) for pair in zip(counts, stratum.counts, strict=True)])
    is_dealt_twice = sum(map(len, groups.values())) > len(set[int]().union(*groups.values()))
    if is_dealt_twice or any(each != plain[0] for each in plain):
        if by := next((rule.by for rule in rules if rule.by), None):
            _LOG.warning("merge: the splitting rules differ: records with an equal %s may be in several splits", by)
        return None
    taken = collections.Counter[str]()
    for rows in inputs:
        taken[rows.store.digest] += len(rows)
    if any(taken[rows.store.digest] < rows.store.manifest.records for rows in inputs):
        strata = {}  # the manifests say nothing about the strata of a selection
    sources, dealt = sum(rule.sources for rule in rules), strata if rules[0].stratify else None
    grouped = rules[0].groups and {name: tuple(sorted(members)) for name, members in groups.items()}
    return attrs.evolve(rules[0], sources=sources, groups=grouped, strata=dealt)
