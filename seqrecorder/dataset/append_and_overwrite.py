"""Publication of staged files as a dataset, or as an addition to a dataset.

If the destination is empty, one rename moves the staging directory there (see `seqrecorder.storage.publish`). Otherwise
the new files are moved next to the old ones, and then one rename replaces the manifest. Until then, the new files
belong to no dataset. File names contain the generation, so a file that a reader has open never changes.

A writer records the state of the destination when it starts, and publishes only if that has not changed. Of two
concurrent writers, the first to publish therefore wins, and the other raises an error. States are compared by the text
of the manifest, which contains the digests of all files.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
import secrets
from typing import TYPE_CHECKING, NoReturn

import attrs

from seqrecorder.dataset.manifest import files_of, manifest_bytes, parse_manifest
from seqrecorder.errors import (
    ChangedError,
    DatasetError,
    DatasetExistsError,
    DatasetNotFoundError,
    ManifestError,
    OptionError,
    SchemaMismatchError,
)
from seqrecorder.schema.evolution import obstacles_to_append
from seqrecorder.storage.files import (
    ASSETS,
    BESIDE_MANIFEST,
    EXAMPLES_CSV,
    MANIFEST,
    examples_name,
    generation_of,
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
    from seqrecorder.storage.files import Compression
    from seqrecorder.storage.locks import Held
    from seqrecorder.storage.publish import Staging


CSV_HEAD = b"shard,index,steps"
"""First bytes of an `examples.csv` that a dataset's writer wrote."""

ASSET_GENERATION = re.compile("g([0-9]{4,})")
"""Pattern of the names of directories with the assets that later generations added."""

_NOTE = re.compile(r"\.manifest\.json\.files-[0-9a-f]{16}")
_CSV = ".csv"


def named(manifest: Manifest) -> set[str]:
    """List the paths of the files that a manifest names, relative to the dataset."""
    return {file.name for file in files_of(manifest)}


def _owned(locked: Held, split: str) -> dict[str, int]:
    """Map each file in a split's directory to its generation, except for files that other programs may have written."""
    names = {name: generation_of(split, name) for name in locked.entries(split)}
    return {
        name: number
        for name, number in names.items()
        if number is not None and (name != EXAMPLES_CSV or locked.read(f"{split}/{name}", len(CSV_HEAD)) == CSV_HEAD)
    }


def _listings(locked: Held, manifest: Manifest, first: int = 0) -> set[str]:
    """List the paths of a dataset's `examples.csv` files, from generation `first` up to the manifest's."""
    return {
        f"{split}/{name}"
        for split in manifest.splits
        for name, generation in _owned(locked, split).items()
        if name.endswith(_CSV) and first <= generation <= manifest.generation
    }


def belongings(locked: Held, manifest: Manifest) -> set[str]:
    """List the paths of the files that belong to a dataset.

    These are the files that the manifest names, the `examples.csv` files, the key index, the statistics, assets of
    which an append stored newer versions, and leftovers of killed writers. Files that the manifest does not name are
    recognized by names that no other program uses.
    """
    ours = named(manifest) | (locked.entries().keys() & BESIDE_MANIFEST) | _assets(locked, manifest).keys()
    return ours | {f"{split}/{name}" for split in manifest.splits for name in _owned(locked, split)}


def _assets(locked: Held, manifest: Manifest) -> dict[str, int]:
    """Map the path of each asset in the directory of a dataset to its generation.

    The assets that the manifest names are included, and so are older versions and leftovers of killed writers.
    """
    entries = locked.entries(ASSETS)
    generations = {f"{ASSETS}/{name}": 0 for name in manifest.asset_infos if name in entries}
    for name in entries:
        if match := ASSET_GENERATION.fullmatch(name):
            generations |= {f"{ASSETS}/{name}/{inner}": int(match[1]) for inner in locked.entries(f"{ASSETS}/{name}")}
    return generations


def others(locked: Held, ours: Iterable[str]) -> list[str]:
    """List all paths in a directory that are neither `ours` nor the manifest.

    Notes are left out, too, and so are the directories that contain files of `ours`.
    """
    files = {*ours, MANIFEST}
    parents = {path.rpartition("/")[0] for path in files}
    parents |= {path.rpartition("/")[0] for path in parents} - {""}
    paths: list[str] = []

    def walk(directory: str) -> None:
        for name, kind in locked.entries(directory).items():
            path = f"{directory}/{name}" if directory else name
            if kind == "directory" and path in parents:
                walk(path)
            elif (path not in files or kind == "directory") and (directory or not _NOTE.fullmatch(name)):
                paths.append(path)

    walk("")
    return sorted(paths)


# Notes ------------------------------------------------------------------------------------------------------------


def clean_up(locked: Held, manifest: Manifest | None) -> None:
    """Remove the leftovers of a writer that was killed during a publication, which are listed in its note.

    A note is a copy of a manifest in the dataset's directory. It exists while the files in that manifest are added or
    removed.

    Args:
        locked: the locked directory.
        manifest: the current manifest; None if it is missing or cannot be read.
    """
    for note in locked.entries():
        if not _NOTE.fullmatch(note):
            continue
        with contextlib.suppress(ManifestError):  # an incomplete note: its publication had not begun
            noted = parse_manifest(locked.read(note) or b"", locked.path)
            if manifest is None or noted.to_json() != manifest.to_json():
                locked.remove(_leftovers(locked, noted, manifest))
        locked.remove([note])


def _leftovers(locked: Held, noted: Manifest, manifest: Manifest | None) -> set[str]:
    """List the files of a note's manifest that are not in the current manifest.

    `examples.csv` files, which manifests do not name, are listed as well. If the generation of the note is newer than
    that of the current manifest, only the `examples.csv` files of the newer generation are listed.
    """
    first = noted.generation if manifest is not None and noted.generation > manifest.generation else 0
    return named(noted) - (set() if manifest is None else named(manifest)) | _listings(locked, noted, first)


@attrs.frozen
class Standing:
    """State of a destination when a write began.

    Attributes:
        text: text of its manifest; None if there was no dataset.
        manifest: the parsed manifest; None if there was none.
        generation: generation number for the files to write.
    """

    text: bytes | None = None
    manifest: Manifest | None = None
    generation: int = 0

    def check_opened(self, digest: str, where: object) -> None:
        """Raise an error if the dataset has changed since it was opened.

        This is for a dataset that is rewritten from its own records. It compares the opened dataset with the state when
        the write began; changes after that are found by the publication.

        Args:
            digest: SHA-256 of the opened manifest, in hexadecimal.
            where: the destination, for the message.

        Raises:
            DatasetError: the dataset was changed or removed.
        """
        if self.text is None or hashlib.sha256(self.text).hexdigest() != digest:
            text = f"{where} was changed since its records were selected, and is left as it is; open it and write again"
            raise DatasetError(text, path=str(where))

    def raise_changed(self, where: object) -> NoReturn:
        """Raise the error for a destination that another process has changed."""
        kind, what = (DatasetExistsError, "came to be") if self.text is None else (ChangedError, "was changed")
        raise kind(f"{where} {what} while this was written, and is left as it is; write again", path=str(where))


NOTHING = Standing()
"""State of a destination that is empty or missing."""

_LOG = logging.getLogger("seqrecorder")
_BESIDE = "|".join(map(re.escape, sorted(BESIDE_MANIFEST)))
_HIDDEN = re.compile(rf"\..*\.(?:incomplete|replacing|files)-[0-9a-f]{{16}}|{_BESIDE}")
"""Names of the hidden files of writers; a directory that contains no other files is considered empty."""


def standing(dataset: Path, schema: Schema, *, append: bool, overwrite: bool, compression: Compression) -> Standing:
    """Read the state of the destination, and check that writing to it is allowed.

    Args:
        dataset: directory of the destination.
        schema: schema of the new records.
        append: whether to append to the dataset at the destination.
        overwrite: whether to replace the dataset at the destination.
        compression: compression of the new shards.

    Raises:
        DatasetExistsError: the manifest at the destination is damaged, or does not describe a dataset; nothing is
            overwritten.
        DatasetNotFoundError: there is no dataset to append to.
        OptionError: the dataset has a different compression.
        SchemaMismatchError: the fields differ by more than new optional fields.
    """
    if append:
        text = manifest_bytes(dataset)
        old = parse_manifest(text, dataset)
        if old.compression != compression:
            raise OptionError(f"append=True: the dataset has compression={old.compression!r}; pass the same")
        if schema.fields != old.schema.fields and (obstacles := obstacles_to_append(old.schema.fields, schema.fields)):
            raise SchemaMismatchError(
                f"append=True: {old.where} was written with other fields. Give the class all of them; new ones must be "
                "optional or have a default, and be in existing alignment groups. Or let seqrecorder.rewrite(path, "
                "schema=...) change the dataset, which loses the fields that the class lacks:",
                list(map(str, obstacles)),
            )
        return Standing(text, old, old.generation + 1)
    if overwrite and (dataset / MANIFEST).exists():
        return standing_to_replace(manifest_bytes(dataset), dataset, dataset)
    return NOTHING


def standing_to_replace(text: bytes, dataset: Path, where: object) -> Standing:
    """Parse the manifest of a dataset that is to be overwritten.

    The manifest lists the files to remove.

    Args:
        text: text of the manifest.
        dataset: directory of the dataset.
        where: directory or URL of the dataset, for messages.

    Raises:
        DatasetExistsError: the manifest is damaged, or does not describe a dataset.
    """
    try:
        old = parse_manifest(text, dataset)
    except ManifestError as error:
        raise DatasetExistsError(
            f"{where} cannot be overwritten, since its {MANIFEST} is damaged or not of seqrecorder, so that its "
            f"files are unknown; remove the directory, or choose another destination ({error})",
            path=str(where),
        ) from error
    return Standing(text, old, old.generation + 1)


def clean_destination(destination: Path) -> None:
    """Remove the leftovers of a writer that was killed during a publication, if any."""
    if not any(_NOTE.fullmatch(path.name) for path in destination.glob(f".{MANIFEST}.files-*")):
        return
    with contextlib.suppress(DatasetNotFoundError), exclusive(destination) as locked:
        manifest = None
        with contextlib.suppress(DatasetError):
            manifest = parse_manifest(locked.read(MANIFEST) or b"", locked.path)
        clean_up(locked, manifest)


def publish(
    staging: Staging, new: Manifest, old: Standing = NOTHING, *, keep: bool = False, outer: Held | None = None
) -> Manifest:
    """Publish staged files as the dataset at the destination, or as an addition to it.

    Args:
        staging: directory with the new files.
        new: the new manifest.
        old: expected state of the destination; for an overwrite, the destination may also have become empty.
        keep: whether the old files stay because the new manifest names them as well. Otherwise, they are removed after
            the publication, together with files that only a writer can have left. All other files in the directory
            stay.
        outer: the caller's lock on the destination, if it already holds one and `keep` is true.

    Returns:
        The new manifest as written; the paths of its assets may differ from those in `new`.

    Raises:
        DatasetError: another process has changed the dataset in the meantime; it stays as it is.
        DatasetExistsError: the destination was created in the meantime.
        ShardWriteError: a file could not be written or moved; the destination is unchanged.
    """
    if not keep:
        write_file(staging.path / MANIFEST, new.to_json().encode())

    def find_replaced(locked: Held) -> set[str] | None:
        _check_unchanged(locked, old)
        clean_up(locked, old.manifest)
        ours = belongings(locked, old.manifest) if old.manifest is not None else set()
        return None if others(locked, ours) else ours

    if not keep and staging.publish(find_replaced):
        return new
    staging.take_after()
    return merge_into(staging.destination, staging.path, new, old, keep=keep, outer=outer) or new


def publish_files(staging: Staging) -> None:
    """Publish staged files without a manifest at an empty destination.

    Raises:
        DatasetExistsError: the destination was created in the meantime.
        ShardWriteError: a file could not be written or moved.
    """
    if not staging.publish():
        merge_into(staging.destination, staging.path, None, NOTHING)


def merge_into(
    dataset: Path, staging: Path, new: Manifest | None, old: Standing, *, keep: bool = False, outer: Held | None = None
) -> Manifest | None:
    """Move the files of a staging directory into a directory, and replace its manifest.

    Args:
        dataset: directory of the dataset.
        staging: directory with the new files, on the same file system.
        new: new manifest; None for files without a manifest.
        old: expected state of the directory.
        keep: whether the old files stay; see `publish`.
        outer: the caller's lock on the directory, if it already holds one.

    Returns:
        The new manifest as written; None for files without a manifest.

    Raises:
        DatasetError: another process has changed the dataset in the meantime.
        ShardWriteError: a file could not be moved; the directory is unchanged.
    """
    if new is not None and old.text is not None and not keep:
        new = _add_generation(staging, new)
    text = None if new is None else new.to_json().encode()
    if text is not None:
        write_file(staging / MANIFEST, text)
    sync_tree(staging)
    with exclusive(dataset, outer) as locked:
        _check_unchanged(locked, old)
        clean_up(locked, old.manifest)
        replaced = set[str]()
        if old.manifest is not None:
            if keep:
                _check_complete(locked, old.manifest)
            else:
                replaced = belongings(locked, old.manifest)
            assets = _assets(locked, old.manifest).items()  # readers of an older manifest may still open them
            known = {path for path, generation in assets if generation <= old.manifest.generation}
            known |= named(old.manifest) | _listings(locked, old.manifest)
            locked.remove(belongings(locked, old.manifest) - known)  # leftovers of killed writers
        # An overwrite also notes the old files: if it is killed before it removes them, only the note lists them.
        noted = [text] if keep else [text, old.text]
        notes = {f".{MANIFEST}.files-{secrets.token_hex(8)}": manifest for manifest in noted if manifest is not None}
        moved, created = list[str](), list[str]()
        try:
            for name, manifest in notes.items():
                locked.replace(name, manifest, like=MANIFEST)
            _move(locked, staging, moved, created)
            if text is not None:
                locked.replace(MANIFEST, text)
            if not locked.is_in_place:
                old.raise_changed(locked.path)
        except BaseException:
            # After an error, nothing but the old dataset may remain.
            _restore(locked, old.text)
            locked.remove([*moved, *notes], created)
            raise
        # The dataset is published, so it is no error if old files cannot be removed; the next writer tries again.
        left = locked.remove(replaced - set(moved))
        if left:
            _LOG.warning("%s was overwritten, but old files of it could not be removed: %s", dataset, ", ".join(left))
        locked.remove(notes)
    return new


def _restore(locked: Held, text: bytes | None) -> None:
    """Restore the old manifest of a directory, if it was replaced."""
    if locked.read(MANIFEST) == text:
        return
    if text is None:
        locked.remove([MANIFEST])
    else:
        locked.replace(MANIFEST, text)


def _check_unchanged(locked: Held, old: Standing) -> None:
    if locked.read(MANIFEST) != old.text or not locked.is_in_place:
        old.raise_changed(locked.path)
    if old.text is None and not all(_HIDDEN.fullmatch(name) for name in locked.entries()):
        old.raise_changed(locked.path)


def _check_complete(locked: Held, manifest: Manifest) -> None:
    """Raise an error if a file of the dataset is missing, because another process may be removing the dataset."""
    gone = sorted(path for path in named(manifest) if not locked.finds(path))
    if gone:
        text = f"{locked.path} lacks {gone[0]}, which its {MANIFEST} names, so nothing is added to it; "
        text += f"`seqrecorder verify {locked.path}` lists what is wrong"
        raise DatasetNotFoundError(text, path=locked.path)


def _add_generation(staging: Path, manifest: Manifest) -> Manifest:
    """Add the generation to file names that lack one, so that no file of the old dataset is replaced."""
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


def _move(locked: Held, staging: Path, moved: list[str], created: list[str]) -> None:
    """Move all files except the manifest from the staging directory to the dataset.

    Before each move, the path of the file is added to `moved`. Before a directory is created, its path is added to
    `created`.

    Raises:
        DatasetExistsError: a user's file has the same name, or one that differs only in case.
    """
    for path in sorted(staging.rglob("*")):
        relative = path.relative_to(staging).as_posix()
        parent, is_directory = relative.rpartition("/")[0], path.is_dir()
        if relative == MANIFEST or (is_directory and locked.entries(parent).get(path.name) == "directory"):
            continue
        if locked.finds(relative):
            alike = [repr(name) for name in locked.entries(parent) if name.casefold() == path.name.casefold()]
            raise DatasetExistsError(
                f"{locked.path} cannot get {relative!r}, since it has {', '.join(alike) or 'it'}, which is the same "
                "name here, and not of this dataset; it is left as it is: rename one of them, or write elsewhere",
                path=locked.path,
            )
        if is_directory:
            created.append(relative)
            locked.make(relative)
        else:
            moved.append(relative)
            locked.take(path, relative)
    parents = {path.rpartition("/")[0] for path in moved}
    parents |= {path.rpartition("/")[0] for path in parents} | {""}  # assets are two levels deep
    for directory in sorted(parents, reverse=True):
        locked.sync(directory)
