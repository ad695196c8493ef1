"""Publishing: what was staged becomes a dataset, or a part of one that exists.

Where nothing else is at the destination, a directory takes its place at once (see `seqrecorder.storage.publish`). Else
new files go beside the old ones, and then the manifest is replaced at once. File names carry the generation, so nothing
that a reader may hold open changes, and until the manifest is replaced the new files belong to nothing.

A writer knows from its beginning what stood at the destination, and publishes only where that still stands there: of
two writers at once the first one wins, and the other has an error. The text of the manifest tells, which holds the
digests of all files: where it is the same, what it stands for is the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import re
import secrets
from typing import TYPE_CHECKING, NoReturn

import attrs

from seqrecorder.dataset.manifest import FORMAT, files_of, manifest_bytes, parse_manifest
from seqrecorder.errors import (
    DatasetError,
    DatasetExistsError,
    DatasetNotFoundError,
    ManifestError,
    OptionError,
    SchemaMismatchError,
)
from seqrecorder.schema.evolution import source_of
from seqrecorder.storage.files import (
    ASSETS,
    BESIDE_MANIFEST,
    EXAMPLES_CSV,
    MANIFEST,
    examples_name,
    generation_of,
    lengths_name,
    sync_tree,
    write_file,
    writing,
)
from seqrecorder.storage.locks import exclusive

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from seqrecorder.dataset.manifest import Manifest
    from seqrecorder.schema.schema import Schema
    from seqrecorder.storage.locks import Held
    from seqrecorder.storage.publish import Staging
    from seqrecorder.storage.tfrecord import Compression


CSV_HEAD = b"shard,index,steps"
"""First bytes of the `examples.csv` of a dataset."""

ASSET_GENERATION = re.compile("g([0-9]{4,})")
"""The name of a directory of assets that came with a later generation."""

_NOTE = re.compile(r"\.manifest\.json\.files-[0-9a-f]{16}")
_RECORDS, _LENGTHS, _CSV = ".tfrecord", ".lengths", ".csv"


def is_manifest_of_ours(data: bytes, held: Held) -> bool:
    """Check whether a `manifest.json` is that of a dataset, if only of a damaged one.

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
    return {file.name for file in files_of(manifest)}


def _of_writers(held: Held, split: str) -> dict[str, int]:
    """Map the names in a split's directory that only a writer of datasets gives to their generations."""
    names = {name: generation_of(split, name) for name in held.entries(split)}
    return {
        name: generation
        for name, generation in names.items()
        if generation is not None and (name != EXAMPLES_CSV or held.read(f"{split}/{name}", len(CSV_HEAD)) == CSV_HEAD)
    }


def _listings(held: Held, manifest: Manifest, first: int = 0) -> set[str]:
    """Return the paths of the listings in the splits of a manifest, from a generation on up to its own."""
    return {
        f"{split}/{name}"
        for split in manifest.splits
        for name, generation in _of_writers(held, split).items()
        if name.endswith(_CSV) and first <= generation <= manifest.generation
    }


def belongings(held: Held, manifest: Manifest) -> set[str]:
    """Return the paths of the files that belong to a dataset.

    They are those that it names, its listings, the index of its keys, its statistics, and what killed writers have
    left. All but the first have names that are given to nothing else.
    """
    ours = named(manifest) | (held.entries().keys() & BESIDE_MANIFEST)
    ours |= {f"{split}/{name}" for split in manifest.splits for name in _of_writers(held, split)}
    for name in held.entries(ASSETS):
        match = ASSET_GENERATION.fullmatch(name)
        if match and int(match[1]) > manifest.generation:
            ours |= {f"{ASSETS}/{name}/{inner}" for inner in held.entries(f"{ASSETS}/{name}")}
    return ours


def strays(held: Held, manifest: Manifest) -> set[str]:
    """Return the paths of the files that belong to a dataset and are no part of it: killed writers left them."""
    return belongings(held, manifest) - named(manifest) - _listings(held, manifest)


def by_names(held: Held) -> set[str]:
    """Return the paths of the files that a dataset has left whose manifest cannot be read.

    They are shards in a directory of their split's name, with their files of lengths beside them or of a later
    generation, listings beside such, the index of its keys, and its statistics.
    """
    ours: set[str] = held.entries().keys() & BESIDE_MANIFEST
    for split, kind in held.entries().items():
        if kind != "directory" or split == ASSETS or split.startswith("."):
            continue
        names = _of_writers(held, split)
        shards = {
            name
            for name, generation in names.items()
            if name.endswith(_LENGTHS) or (name.endswith(_RECORDS) and (generation or lengths_name(name) in names))
        }
        listings = {name for name in names if shards and name.endswith(_CSV)}
        ours |= {f"{split}/{name}" for name in shards | listings}
    return ours


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
    return named(noted) - (set() if manifest is None else named(manifest)) | _listings(held, noted, first)


def has_notes(directory: Path) -> bool:
    """Check whether a writer was killed in the middle of a publication here."""
    return any(_NOTE.fullmatch(path.name) for path in directory.glob(f".{MANIFEST}.files-*"))


class ChangedError(DatasetError):
    """Somebody else was faster; nothing was changed."""


@attrs.frozen
class Standing:
    """State of a destination when a write began.

    Attributes:
        text: of its manifest; None where there was no dataset.
        manifest: the same, None where it cannot be read as well.
        generation: of what is written.
    """

    text: bytes | None = None
    manifest: Manifest | None = None
    generation: int = 0

    def check_opened(self, digest: str, where: object) -> None:
        """Raise unless this is the dataset that was opened, whose records replace it: an append may have come between.

        What is published compares itself with this, so that both together compare with what was opened.

        Args:
            digest: SHA-256 of the manifest that was opened, in hexadecimal.
            where: the destination, for the message.

        Raises:
            DatasetError: it is another one, or gone.
        """
        if self.text is None or hashlib.sha256(self.text).hexdigest() != digest:
            raise DatasetError(
                f"{where} was changed since its records were selected, and is left as it is; open it and write again",
                path=str(where),
            )

    def raise_changed(self, where: object) -> NoReturn:
        """Raise the error of a writer whose destination somebody else has changed."""
        kind, what = (DatasetExistsError, "came to be") if self.text is None else (ChangedError, "was changed")
        raise kind(f"{where} {what} while this was written, and is left as it is; write again", path=str(where))


NOTHING = Standing()
"""An empty directory, or none."""

_LOG = logging.getLogger("seqrecorder")
_BESIDE = "|".join(map(re.escape, sorted(BESIDE_MANIFEST)))
_HIDDEN = re.compile(rf"\..*\.(?:incomplete|replacing|files)-[0-9a-f]{{16}}|{_BESIDE}")
"""Names of what writers have in a directory that is empty for everybody else."""


def standing(dataset: Path, schema: Schema, *, append: bool, overwrite: bool, compression: Compression) -> Standing:
    """Look at the destination of a write.

    Args:
        dataset: its directory.
        schema: of what is to be written.
        append: whether it is added to what stands there.
        overwrite: whether it replaces that.
        compression: of what is to be written.

    Raises:
        DatasetExistsError: what shall be overwritten is no dataset.
        DatasetNotFoundError: there is nothing to append to.
        OptionError: what stands there is compressed in another way.
        SchemaMismatchError: it has other fields, and not only fewer that records may lack.
    """
    if append:
        text = manifest_bytes(dataset)
        old = parse_manifest(text, dataset)
        if old.compression != compression:
            raise OptionError(f"append=True: the dataset has compression={old.compression!r}; pass the same")
        if schema.fields != old.schema.fields and not schema.extends(old.schema):
            # New fields that records may lack are no obstacle where their alignment group is there.
            new = [field for field in schema.fields if source_of(field, old.schema.fields) is None]
            fitting = {field.name for field in new if not field.is_list or field.group in old.schema.groups}
            every = schema.changes_since(old.schema)
            obstacles = [change for change in every if not (change.compatible and change.field in fitting)] or every
            raise SchemaMismatchError(
                f"append=True: {dataset} was written with other fields; new ones may be added that are optional or "
                "have a default, in alignment groups that are there. Change the class, or write the dataset again "
                "(seqrecorder.rewrite(path, schema=...)):",
                list(map(str, obstacles)),
            )
        return Standing(text, old, old.generation + 1)
    if overwrite and (dataset / MANIFEST).exists():
        with exclusive(dataset) as held:
            return _overwritable(held)
    return NOTHING


def _overwritable(held: Held) -> Standing:
    data = held.read(MANIFEST)
    if data is None:
        return NOTHING
    # It may be damaged, which is what overwriting is for.
    with contextlib.suppress(DatasetError):
        old = parse_manifest(data, held.path)
        return Standing(data, old, old.generation + 1)
    if not is_manifest_of_ours(data, held):
        raise DatasetExistsError(
            f"{held.path} holds a {MANIFEST} that is not of seqrecorder, so it is no dataset to overwrite; choose "
            "another destination",
            path=held.path,
        )
    return Standing(data, None, next_generation(held))


def next_generation(held: Held) -> int:
    """Return a generation that no file in a directory belongs to, where no manifest says which it is."""
    splits = [name for name, kind in held.entries().items() if kind == "directory"]
    return max((generation for split in splits for generation in _of_writers(held, split).values()), default=-1) + 1


def clean_destination(destination: Path) -> None:
    """Remove what a writer that was killed in the middle of a publication has left, if any."""
    if not has_notes(destination):
        return
    with contextlib.suppress(DatasetNotFoundError), exclusive(destination) as held:
        clean_up(held, _manifest(held))


def publish(
    staging: Staging, new: Manifest, old: Standing = NOTHING, *, keep: bool = False, outer: Held | None = None
) -> Manifest:
    """Make what was staged the dataset at the destination, or a part of it.

    Args:
        staging: directory with the new files.
        new: what the dataset shall be.
        old: what must still stand there; for an overwrite, there may be nothing by now.
        keep: whether the old files stay, because the new manifest names them too. Else they go once it is there: those
            that the old manifest names, and those whose names only a writer of the dataset gives. Everything else in
            the directory stays.
        outer: the destination, where the caller has locked it and `keep` is true.

    Returns:
        The new manifest, as it was written: its assets may have moved.

    Raises:
        DatasetError: somebody else changed the dataset in the meantime; nothing was changed.
        DatasetExistsError: something has come to the destination meanwhile.
        ShardWriteError: a file could not be written or moved; what stood there is as it was.
    """
    if not keep:
        write_file(staging.path / MANIFEST, new.to_json().encode())

    def over(held: Held) -> set[str] | None:
        _check_unchanged(held, old)
        clean_up(held, old.manifest)
        ours = _all_of(held, old)
        return None if others(held, ours) else ours

    if not keep and staging.publish(over):
        return new
    staging.take_after()
    return merge_into(staging.destination, staging.path, new, old, keep=keep, outer=outer) or new


def publish_files(staging: Staging) -> None:
    """Make what was staged the contents of the destination, where nothing is: files without a manifest.

    Raises:
        DatasetExistsError: something has come to the destination meanwhile.
        ShardWriteError: a file could not be written or moved.
    """
    if not staging.publish():
        merge_into(staging.destination, staging.path, None, NOTHING)


def merge_into(
    dataset: Path,
    staging: Path,
    new: Manifest | None,
    old: Standing,
    *,
    keep: bool = False,
    outer: Held | None = None,
) -> Manifest | None:
    """Move the files of a staging directory into a directory, and replace its manifest.

    Args:
        dataset: the directory.
        staging: directory with the new files, on the same file system.
        new: see `publish`, as for the others; None for files without a manifest.
        old: see `publish`.
        keep: see `publish`.
        outer: see `publish`.

    Returns:
        See `publish`.

    Raises:
        DatasetError: see `publish`.
        ShardWriteError: a file could not be moved; the directory is as it was.
    """
    if new is not None and old.text is not None and not keep:
        new = _renamed(staging, new)
    text = None if new is None else new.to_json().encode()
    if text is not None:
        write_file(staging / MANIFEST, text)
    sync_tree(staging)
    with exclusive(dataset, outer) as held:
        _check_unchanged(held, old)
        clean_up(held, old.manifest)
        replaced = set() if keep else _all_of(held, old)
        if old.manifest is not None:
            if keep:
                _check_complete(held, old.manifest)
            held.remove(strays(held, old.manifest))
        _check_room(held, staging)
        # An overwrite notes its old files too: killed before it has removed them, nothing else says whose they are.
        notes = {note_name(): noted for noted in (text, old.manifest and not keep and old.text) if noted}
        moved, made = list[str](), list[str]()
        try:
            for name, noted in notes.items():
                held.replace(name, noted, like=MANIFEST)
            _move(held, staging, moved, made)
            if text is not None:
                held.replace(MANIFEST, text)
            if not held.is_in_place:
                old.raise_changed(held.path)
        except BaseException:
            # A caller that gets an error must find the old dataset, and nothing beside it.
            _restore(held, old.text)
            held.remove([*moved, *notes], made)
            raise
        # The new dataset is there whatever becomes of the old files: what stays now, the next writer removes.
        left = held.remove(replaced - set(moved))
        if left:
            _LOG.warning("%s was overwritten, but old files of it could not be removed: %s", dataset, ", ".join(left))
        held.remove(notes)
    return new


def _all_of(held: Held, old: Standing) -> set[str]:
    if old.text is None:
        return set()
    return by_names(held) if old.manifest is None else belongings(held, old.manifest)


def _restore(held: Held, text: bytes | None) -> None:
    """Restore the old manifest of a directory, if it was replaced."""
    if held.read(MANIFEST) == text:
        return
    if text is None:
        held.remove([MANIFEST])
    else:
        held.replace(MANIFEST, text)


def _manifest(held: Held) -> Manifest | None:
    with contextlib.suppress(DatasetError):
        return parse_manifest(held.read(MANIFEST) or b"", held.path)
    return None


def _check_unchanged(held: Held, old: Standing) -> None:
    if held.read(MANIFEST) != old.text or not held.is_in_place:
        old.raise_changed(held.path)
    if old.text is None and not all(_HIDDEN.fullmatch(name) for name in held.entries()):
        old.raise_changed(held.path)


def _check_complete(held: Held, manifest: Manifest) -> None:
    """Raise where nothing can be added: somebody may be removing the dataset now, the manifest last."""
    gone = sorted(path for path in named(manifest) if not held.finds(path))
    if gone:
        raise DatasetNotFoundError(
            f"{held.path} lacks {gone[0]}, which its {MANIFEST} names, so nothing is added to it; "
            f"`seqrecorder verify {held.path}` lists what is wrong",
            path=held.path,
        )


def _check_room(held: Held, staging: Path) -> None:
    """Raise `DatasetExistsError` where something of the user's, or something spelled alike, has a name that we need."""
    there = held.entries()
    for path in sorted(staging.iterdir()):
        name, taken = path.name, ""
        if name == MANIFEST:
            continue
        if name not in there and held.finds(name):
            alike = [one for one in there if one.casefold() == name.casefold()]
            taken = f"{', '.join(alike)!r}, which is the same name on this file system"
        elif name in there and (there[name] != "directory" or not path.is_dir()):
            taken = f"a {there[name]} {name!r}"
        elif name in there:
            known = held.entries(name)
            double = [one.name for one in sorted(path.iterdir()) if one.name in known and not one.is_dir()]
            taken = f"a file {name}/{double[0]}, which is not of this dataset" if double else ""
        if taken:
            raise DatasetExistsError(
                f"{held.path} cannot get {name!r}, since it has {taken}; it is left as it is: rename one of them, or "
                "write elsewhere",
                path=held.path,
            )


def _renamed(staging: Path, manifest: Manifest) -> Manifest:
    """Add the generation to the names that lack it, so that they replace no file of the old dataset."""
    generation = manifest.generation
    for split in manifest.splits:
        examples = staging / split / examples_name()
        if examples.exists():
            with writing("rename", examples):
                examples.rename(examples.with_name(examples_name(generation)))
    infos = {name: attrs.evolve(info, generation=generation) for name, info in manifest.asset_infos.items()}
    for name, info in infos.items():
        target = staging / info.relative(name)
        with writing("rename", target):
            target.parent.mkdir(exist_ok=True)
            (staging / ASSETS / name).rename(target)
    return attrs.evolve(manifest, asset_infos=infos)


def _move(held: Held, staging: Path, moved: list[str], made: list[str]) -> None:
    """Move all files but the manifest, and note the path of each, and of each new directory, before it comes."""
    for path in sorted(staging.rglob("*")):
        relative = path.relative_to(staging).as_posix()
        if path.is_dir():
            if path.name not in held.entries(relative.rpartition("/")[0]):
                made.append(relative)
                held.make(relative)
        elif relative != MANIFEST:
            moved.append(relative)
            held.take(path, relative)
    parents = {path.rpartition("/")[0] for path in moved}
    parents |= {path.rpartition("/")[0] for path in parents} | {""}  # of assets there are two
    for directory in sorted(parents, reverse=True):
        held.sync(directory)
