"""Output of the command line: text for people, and JSON for programs.

Text from files may be hostile, so terminal control characters are escaped.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.dataset.manifest import FORMAT_VERSION, SplitInfo
from seqrecorder.errors import SeqrecorderError, printable
from seqrecorder.schema.display import bytes_text, columns_of, cut, fit, number_of, text_table
from seqrecorder.schema.exact_values import SparseVector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from seqrecorder.cli.inspect import Head, ShardDescription
    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.dataset.salvage import Salvage
    from seqrecorder.dataset.verify import VerifyReport
    from seqrecorder.schema.field import Field
    from seqrecorder.sources.foreign.convert import Conversion
    from seqrecorder.sources.foreign.infer import Inference

WIDTH = 80
"""Maximum width of the text, in columns."""

_METADATA_LINES = 24
_PROBLEMS = 50
_DEFAULT_WIDTH = 24
_LEAST_WIDTH = 8
_CELL = 32


def show_result(document: Any, text: str, code: int = 0, *, as_json: bool) -> int:
    """Print the result of a command, as JSON or as text, and return its exit code."""
    print(to_json(document) if as_json else "\n".join(map(printable, text.split("\n"))))
    return code


# JSON -----------------------------------------------------------------------------------------------------


def to_json(value: Any) -> str:
    """Serialize a document as JSON with only ASCII characters.

    NaN and infinities become strings. Bytes become an object `{"base64": ...}`.
    """
    text = json.dumps(_plain(value), indent=1, allow_nan=False)
    return text.replace("\x7f", "\\u007f")  # the one control character that JSON does not escape


def _plain(value: Any) -> Any:  # noqa: C901 - one return per type
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value] if value.ndim else _plain(value[()])
    if isinstance(value, (np.datetime64, np.timedelta64, Path)):
        return str(value)
    if isinstance(value, np.generic):
        kind = value.dtype.kind  # Python has one float type, which represents the narrower floats exactly
        value = complex(value) if kind == "c" else value.item() if kind in "biu" else float(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, complex):
        return [_plain(value.real), _plain(value.imag)]
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, SparseVector):
        return {"indices": _plain(value.indices), "values": _plain(value.values), "size": value.size}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    return {name: _plain(getattr(value, name)) for name in attrs.fields_dict(type(value))}


def _lengths_by_group(manifest: Manifest) -> dict[str, dict[str, Any]]:
    """Compute the smallest, median and largest length of each group in each split.

    The lengths of a split with a damaged file are None. If there is only one group, the result is empty, because the
    manifest contains its lengths. If there are several groups, the length files are read.
    """
    groups = manifest.schema.groups
    if len(groups) < 2:  # noqa: PLR2004 - the manifest has the lengths of one group
        return {}
    figures: dict[str, dict[str, Any]] = {}
    for name, split in manifest.splits.items():
        try:
            lengths = [manifest.lengths(name, shard) for shard in split.shards]
        except SeqrecorderError:
            lengths = []
        figures[name] = {group: _lengths(_bins([rows[:, at] for rows in lengths])) for at, group in enumerate(groups)}
    return figures


def manifest_summary(manifest: Manifest) -> dict[str, Any]:
    """Convert a manifest to the document of `info --json`."""
    groups = _lengths_by_group(manifest)
    return {
        "path": manifest.where,
        "format": "seqrecorder",
        "format_version": FORMAT_VERSION,
        "compression": manifest.compression,
        "generation": manifest.generation,
        "fingerprint": manifest.fingerprint,
        "schema": manifest.schema.to_dict(),
        "records": manifest.records,
        "steps": manifest.steps,
        "bytes": manifest.bytes,
        "skipped": manifest.skipped,
        "skip_reasons": list(manifest.skip_reasons),
        "splits": {
            name: {
                "records": split.records,
                "steps": split.steps,
                "bytes": split.bytes,
                "shards": len(split.shards),
                "lengths": _lengths(split.bins),
                **({"lengths_by_group": groups[name]} if groups else {}),
            }
            for name, split in manifest.splits.items()
        },
        "metadata": manifest.metadata,
        "assets": {name: info.sha256 for name, info in manifest.asset_infos.items()},
    }


def verification_summary(report: VerifyReport) -> dict[str, Any]:
    """Convert the result of a verification to the document of `verify --json`."""
    return {"ok": report.ok, **_plain(report)}


def salvage_summary(salvage: Salvage) -> dict[str, Any]:
    """Convert the result of a salvage to the document of `salvage --json`.

    A number that is unknown is -1 in the document.
    """
    totals = {name: getattr(salvage, name) for name in ("complete", "records", "lost", "lost_bytes")}
    return {**totals, **_plain(salvage)}


def _bins(lengths: Sequence[NDArray[np.int64]]) -> list[tuple[int, int]]:
    """List pairs `(length, records)` for all lengths that occur, in ascending order."""
    values, counts = np.unique(np.concatenate([np.empty(0, np.int64), *lengths]), return_counts=True)
    return list(zip(values.tolist(), counts.tolist(), strict=True))


def _lengths(bins: Sequence[tuple[int, int]]) -> dict[str, int] | None:
    """Compute the smallest, median and largest length, or return None if there are no records."""
    if not bins:
        return None
    ends = list(itertools.accumulate(records for _, records in bins))
    median = next(length for (length, _), end in zip(bins, ends, strict=True) if 2 * end >= ends[-1])
    return {"min": bins[0][0], "median": median, "max": bins[-1][0]}


# Text -----------------------------------------------------------------------------------------------------


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> str:
    """Format a table with a header and a rule, and right-align the columns named in `right`."""
    cells = [[printable(cell) for cell in row] for row in (header, *rows)]
    rule = ["-" * max(map(columns_of, column)) for column in zip(*cells, strict=True)]
    return indented(text_table([cells[0], rule, *cells[1:]], right=right).split("\n"))


def indented(lines: Sequence[str]) -> str:
    """Indent lines by two columns."""
    return "\n".join(f"  {line}".rstrip() for line in lines)


def manifest_text(manifest: Manifest) -> str:
    """Format the manifest of a dataset for `info`."""
    packed = manifest.compression or "no compression"
    facts = [f"seqrecorder dataset, format {FORMAT_VERSION}", packed, f"generation {manifest.generation}"]
    if manifest.skipped:
        why = f" ({'; '.join(map(printable, manifest.skip_reasons))})" if manifest.skip_reasons else ""
        facts.append(f"{manifest.skipped:,} source records skipped{why}")
    schema = manifest.schema
    blocks = [
        f"{printable(manifest.where)}\n{', '.join(facts)}",
        f"{printable(schema.name)} (schema {manifest.fingerprint[:12]})\n"
        + table(
            ("field", "kind", "dtype", "shape", "storage", "options"),
            [(f.name, f.kind, f.element.name, _shape(f), _storage(f), _options(f)) for f in schema.fields],
        ),
        _splits(manifest),
        *_groups(manifest),
    ]
    if manifest.metadata is not None:
        lines = json.dumps(manifest.metadata, indent=2, ensure_ascii=False).split("\n")
        shown = [cut(printable(line), WIDTH - 2) for line in lines[:_METADATA_LINES]]
        if len(lines) > _METADATA_LINES:
            shown.append(f"... {len(lines) - _METADATA_LINES:,} more lines; --json gives all")
        blocks.append("metadata\n" + indented(shown))
    if manifest.assets:
        rows = [(name, _size(path)) for name, path in manifest.assets.items()]
        blocks.append(table(("asset", "size"), rows, right=["size"]))
    return "\n\n".join(blocks)


def _splits(manifest: Manifest) -> str:
    splits = list(manifest.splits.values())
    if len(splits) > 1:
        splits.append(SplitInfo("all", tuple(shard for split in splits for shard in split.shards)))
    rows = [
        (
            split.name,
            f"{split.records:,}",
            f"{split.steps:,}",
            bytes_text(split.bytes),
            f"{len(split.shards):,}",
            *_shown_lengths(_lengths(split.bins)),
        )
        for split in splits
    ]
    header = ("split", "records", "steps", "size", "shards", "shortest", "median", "longest")
    return table(header, rows, right=header[1:])


def _groups(manifest: Manifest) -> list[str]:
    """Format a table of the lengths in each alignment group.

    The result is a list that contains the table as one text. It is empty if there is only one group.
    """
    rows = [
        (name, group, *_shown_lengths(lengths))
        for name, groups in _lengths_by_group(manifest).items()
        for group, lengths in groups.items()
    ]
    header = ("split", "group", "shortest", "median", "longest")
    return [table(header, rows, right=header[2:])] if rows else []


def _shown_lengths(lengths: dict[str, int] | None) -> list[str]:
    return [f"{lengths[key]:,}" if lengths else "-" for key in ("min", "median", "max")]


def _shape(field: Field) -> str:
    if field.sparse is not None:
        sizes = [str(field.sparse)]
    else:
        sizes = ["n" if size is None else str(size) for size in field.shape]
    if field.is_list:
        sizes.insert(0, "T")
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})" if sizes else "scalar"


def _storage(field: Field) -> str:
    return "sparse" if field.sparse is not None else field.storage


def _options(field: Field) -> str:
    options = [name for name in ("key", "chunk", "optional", "deferred", "dense") if getattr(field, name)]
    if field.default is not attrs.NOTHING:
        value = field.default
        text = str(value.item()) if isinstance(value, np.generic) and value.dtype.kind != "V" else repr(value)
        options.append(f"default={cut(printable(' '.join(text.split())), _DEFAULT_WIDTH)}")
    if field.is_list and field.align != "default":
        options.append(f"align={field.align}")
    if field.per_step is not None:
        options.append(f"per_step={field.per_step}")
    if field.feature != field.name:
        options.append(f"name={cut(repr(field.feature), _DEFAULT_WIDTH)}")
    return ", ".join(options)


def head_text(head: Head) -> str:
    """Format records for `head`, with one line per field."""
    blocks = [_opening(head)]
    for position, record in enumerate(head.records):
        rows = [(printable(name), value) for name, value in record.items()]
        width = max((columns_of(name) for name, _ in rows), default=0)
        lines = text_table([(name, _value(value, WIDTH - width - 4)) for name, value in rows]) if rows else ""
        blocks.append(f"record {position}\n{indented(lines.splitlines())}")
    return "\n\n".join(blocks)


def head_table(head: Head) -> str:
    """Format records for `head --table`, with one line per record and values cut to the width of their columns."""
    if not head.records:
        return _opening(head)
    names = list(dict.fromkeys(name for record in head.records for name in record))
    rows = [
        [str(position), *(_value(record[name], _CELL) if name in record else "" for name in names)]
        for position, record in enumerate(head.records)
    ]
    return f"{_opening(head)}\n\n{table(['record', *names], rows, ['record'])}"


def _opening(head: Head) -> str:
    of = "" if head.total is None else f" of {head.total:,}"
    shown = f", the first {len(head.records):,}{of} records" if head.records else ": no records"
    return printable(head.where) + shown


def _value(value: Any, width: int) -> str:
    """Format a value on one line.

    An array is shown as its dtype, its shape and its first elements.
    """
    if isinstance(value, SparseVector):
        about = f"sparse {_dtype(value.values)} ({value.size},)  "
        pairs = (f"{i}: {_item(v)}" for i, v in zip(value.indices.tolist(), value.values, strict=True))
        return about + _bracketed("{", pairs, "}", width - len(about))
    if isinstance(value, list):
        about = f"{number_of(len(value), 'step')} of {_dtype(value[0])}  " if value else ""
        steps = (_bracketed("[", map(_item, np.ravel(_dense(step))), "]", width - len(about)) for step in value)
        return about + _bracketed("[", steps, "]", width - len(about))
    if isinstance(value, np.ndarray) and value.ndim:
        about = f"{_dtype(value)} {value.shape}  "
        return about + _bracketed("[", map(_item, value.flat), "]", width - len(about))
    return cut(_item(value), width)


def _dense(value: Any) -> Any:
    return value.to_dense() if isinstance(value, SparseVector) else value


def _dtype(value: Any) -> str:
    array = value.values if isinstance(value, SparseVector) else np.asarray(value)
    if array.dtype != object:
        return str(array.dtype)
    return type(array.flat[0]).__name__ if array.size else "text"


def _item(value: Any) -> str:
    """Format one element.

    Texts and bytes are shown as their `repr`, which escapes unprintable characters.
    """
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return str(value)
    if isinstance(value, (str, bytes)) or value is None:
        return repr(value)
    return f"{value:g}" if isinstance(value, (float, np.floating)) else printable(value)


def _bracketed(opening: str, items: Iterable[str], closing: str, width: int) -> str:
    """Format items between brackets.

    If there is not enough space for all items, an ellipsis replaces the last ones.
    """
    room = width - len(opening) - len(closing)
    shown: list[str] = []
    for item in items:
        shown.append(item)
        if columns_of(", ".join(shown)) <= room:
            continue
        while len(shown) > 1 and columns_of(", ".join([*shown, "..."])) > room:
            shown.pop()
        # Show at least part of the first item.
        shown = [*shown, "..."] if columns_of(shown[0]) <= room else [cut(shown[0], max(room, _LEAST_WIDTH))]
        break
    return opening + ", ".join(shown) + closing


def shard_text(shard: ShardDescription) -> str:
    """Format the description of a bare shard for `info`."""
    facts = [shard.compression or "no compression", number_of(shard.records, "record"), bytes_text(shard.bytes)]
    about = f"TFRecord file without a manifest, {', '.join(facts)}"
    blocks = [f"{printable(shard.path)}\n{about}\nmessage type: {printable(shard.message)}"]
    if shard.problem:
        blocks.append(f"damaged: {printable(shard.problem)}")
    if shard.features:
        rows = [
            (
                feature.name,
                feature.kind,
                feature.dtype or "(no value)",
                str(feature.steps or "-"),
                str(feature.values or "-") + (" per step" if feature.steps and feature.values else ""),
                "all" if feature.present == shard.peeked else f"{feature.present:,} of {shard.peeked:,}",
            )
            for feature in shard.features
        ]
        looked = "all" if shard.peeked == shard.records else f"the first {shard.peeked:,}"
        blocks += [
            f"features of {looked} records\n" + table(("feature", "kind", "dtype", "steps", "values", "present"), rows),
            "a class to begin with, for `sr.read(path, schema=Record)`:\n" + indented(shard.draft.split("\n")),
        ]
    return "\n\n".join(blocks)


def inference_summary(inference: Inference) -> dict[str, Any]:
    """Convert an inferred schema to the document of `schema --json`."""
    return {
        "message": inference.message,
        "layout": inference.layout,
        "records": inference.records,
        "schema": inference.schema.to_dict(),
        "undeclared": dict(inference.undeclared),
        "draft": inference.draft,
    }


def inference_text(inference: Inference) -> str:
    """Format an inferred schema for `schema`, as the source code of a module."""
    count = number_of(inference.records, "record")
    about = f"# Inferred from {count} of {inference.message}; layout={inference.layout!r}."
    return f"{about}\nimport numpy as np\n\nimport seqrecorder as sr\n\n\n{inference.draft}"


def conversion_summary(done: Conversion) -> dict[str, Any]:
    """Build the document that `convert --json` prints."""
    inference = None if done.inference is None else inference_summary(done.inference)
    return {"dataset": manifest_summary(done.manifest), "inference": inference}


def manifest_line(manifest: Manifest) -> str:
    """Format the path of a dataset and the number of records in each split, on one line."""
    records = ", ".join(f"{split.records:,} {name}" for name, split in manifest.splits.items())
    return f"{printable(manifest.where)}: {number_of(manifest.records, 'record')} ({records})"


def conversion_text(done: Conversion) -> str:
    """Format the result of a conversion for `convert`."""
    text = manifest_line(done.manifest)
    return text if done.inference is None else f"{text}\n\n{inference_text(done.inference)}"


_CHECKED = {"quick": "sizes and manifest", "full": "every byte and every record", "frames": "frames, not contents"}


def verification_text(report: VerifyReport) -> str:
    """Format the result of a verification for `verify`."""
    about = f"{number_of(report.shards, 'shard')}, {number_of(report.records, 'record')}, {bytes_text(report.bytes)}"
    if report.ok:
        return fit(f"{printable(report.path)}: ok ({about}; checked {_CHECKED[report.level]})")
    count = number_of(len(report.problems), "problem")
    return f"{printable(report.path)}: {count} ({about})\n{_listed(report.problems)}"


def salvage_text(salvage: Salvage) -> str:
    """Format the result of a salvage for `salvage`."""
    lost = "an unknown number of records" if salvage.lost < 0 else number_of(salvage.lost, "record")
    about = f"{number_of(salvage.records, 'record')} recovered, {lost} lost"
    lines = [f"{shard.path}: {loss}" for shard in salvage.shards for loss in shard.losses] + [*salvage.problems]
    opening = f"{printable(salvage.destination)}: {about}"
    return f"{opening}\n{_listed(lines)}" if lines else opening


def _listed(problems: Sequence[object]) -> str:
    more = len(problems) - _PROBLEMS
    rest = [f"... and {more:,} more; --json gives all"] if more > 0 else []
    return indented([*map(printable, problems[:_PROBLEMS]), *rest])


def _size(path: Path) -> str:
    try:
        return bytes_text(path.stat().st_size)
    except OSError:
        return "missing"
