"""What in a directory belongs to its dataset, by its manifest or by the names that only a dataset gives.

Everything else is the user's, and stays: an overwrite removes what is listed here and nothing more.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
from typing import TYPE_CHECKING

from seqrecorder.dataset.manifest import FORMAT
from seqrecorder.dataset.read_manifest import parse_manifest
from seqrecorder.errors import ManifestError
from seqrecorder.storage.names import ASSETS, BESIDE_MANIFEST, EXAMPLES_CSV, MANIFEST, generation_of, lengths_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.storage.locks import Held

CSV_HEAD = b"shard,index,steps"
"""How the `examples.csv` of a dataset begins."""

ASSET_GENERATION = re.compile("g([0-9]{4,})")
"""The name of a directory of assets that came with a later generation."""

_NOTE = re.compile(r"\.manifest\.json\.files-[0-9a-f]{16}")
_RECORDS, _LENGTHS = ".tfrecord", ".lengths"


def is_manifest_of_ours(data: bytes, held: Held) -> bool:
    """Whether a `manifest.json` is that of a dataset, if only of a damaged one.

    It is where it says `"format": "seqrecorder"`. Where it is not even JSON, it may have said so: then it is where
    shards lie beside it with their files of lengths, which nobody else writes.

    Args:
        data: its bytes.
        held: the directory.
    """
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return f'"format": "{FORMAT}"'.encode() in data or bool(by_names(held))
    return isinstance(content, dict) and content.get("format") == FORMAT


def named(manifest: Manifest) -> set[str]:
    """Return the paths of the files that a manifest names, relative to the dataset, but for itself."""
    paths = {info.relative(name) for name, info in manifest.asset_infos.items()}
    for split in manifest.splits.values():
        for shard in split.shards:
            paths |= {f"{split.name}/{shard.name}", f"{split.name}/{shard.lengths_name}"}
    return paths


def belongings(held: Held, manifest: Manifest) -> set[str]:
    """Return the paths of the files that belong to a dataset.

    They are those that it names, its listings, the index of its keys, its statistics, and what killed writers have
    left. All but the first have names that are given to nothing else.
    """
    found = named(manifest) | (held.entries().keys() & BESIDE_MANIFEST)
    for split in manifest.splits:
        for name in held.entries(split):
            path = f"{split}/{name}"
            if generation_of(split, name) is not None and (name != EXAMPLES_CSV or is_listing(held, path)):
                found.add(path)
    for name in held.entries(ASSETS):
        match = ASSET_GENERATION.fullmatch(name)
        if match and int(match[1]) > manifest.generation:
            found |= {f"{ASSETS}/{name}/{inner}" for inner in held.entries(f"{ASSETS}/{name}")}
    return found


def strays(held: Held, manifest: Manifest) -> set[str]:
    """Return the paths of the files that belong to a dataset and are no part of it: killed writers left them."""
    listings = {
        f"{split}/{name}"
        for split in manifest.splits
        for name in held.entries(split)
        if name.endswith(".csv") and (generation_of(split, name) or 0) <= manifest.generation
    }
    return belongings(held, manifest) - named(manifest) - listings


def by_names(held: Held) -> set[str]:
    """Return the paths of the files that a dataset has left whose manifest cannot be read.

    They are shards in a directory of their split's name, with their files of lengths beside them or of a later
    generation, listings beside such, the index of its keys, and its statistics.
    """
    found: set[str] = held.entries().keys() & BESIDE_MANIFEST
    for split, kind in held.entries().items():
        if kind != "directory" or split == ASSETS or split.startswith("."):
            continue
        names = {name for name in held.entries(split) if generation_of(split, name) is not None}
        ours = {
            name
            for name in names
            if name.endswith(_LENGTHS)
            or (name.endswith(_RECORDS) and (generation_of(split, name) or lengths_name(name) in names))
        }
        if ours:
            ours |= {
                name
                for name in names
                if name.endswith(".csv") and (name != EXAMPLES_CSV or is_listing(held, f"{split}/{name}"))
            }
        found |= {f"{split}/{name}" for name in ours}
    return found


def is_listing(held: Held, relative: str) -> bool:
    """Whether a CSV is one of what went where."""
    return held.read(relative, len(CSV_HEAD)) == CSV_HEAD


def others(held: Held, ours: Iterable[str]) -> list[str]:
    """Return the paths of what is in a directory besides some files, their directories and the manifest."""
    files = {*ours, MANIFEST}
    parents = {path.rpartition("/")[0] for path in files}
    parents |= {path.rpartition("/")[0] for path in parents} - {""}
    found: list[str] = []

    def look(directory: str) -> None:
        for name, kind in held.entries(directory).items():
            path = f"{directory}/{name}" if directory else name
            if kind == "directory" and path in parents:
                look(path)
            elif (path not in files or kind == "directory") and (directory or not _NOTE.fullmatch(name)):
                found.append(path)

    look("")
    return sorted(found)


# Notes ------------------------------------------------------------------------------------------------------------


def note_name() -> str:
    """Return a name for the text of a manifest beside that of the dataset, while its files come or go.

    Should their writer be killed meanwhile, the note proves which files were ours.
    """
    return f".{MANIFEST}.files-{secrets.token_hex(8)}"


def clean_up(held: Held, manifest: Manifest | None) -> None:
    """Remove what a writer that was killed in the middle of a publication has left, by its notes.

    Args:
        held: the directory.
        manifest: of what stands there; None for nothing that can be read.
    """
    for note in held.entries():
        if not _NOTE.fullmatch(note):
            continue
        with contextlib.suppress(ManifestError):  # of one that was not complete nothing had begun
            noted = parse_manifest(held.read(note) or b"", held.path)
            if manifest is None or noted.to_json() != manifest.to_json():
                held.remove(_noted(held, noted, manifest))
        held.remove([note])


def _noted(held: Held, noted: Manifest, manifest: Manifest | None) -> set[str]:
    """Return the paths of the files of a manifest that was, or should have been, and of no other."""
    first = noted.generation if manifest is not None and noted.generation > manifest.generation else 0
    listings = {
        f"{split}/{name}"
        for split in noted.splits
        for name in held.entries(split)
        if name.endswith(".csv") and first <= (generation_of(split, name) or 0) <= noted.generation
    }
    ours = {path for path in listings if is_listing(held, path)}
    return named(noted) - (set() if manifest is None else named(manifest)) | ours


def has_notes(directory: Path) -> bool:
    """Whether a writer was killed in the middle of a publication here."""
    return any(_NOTE.fullmatch(path.name) for path in directory.glob(f".{MANIFEST}.files-*"))
