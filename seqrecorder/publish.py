"""Publishing into a dataset that exists: new files beside the old ones, then one atomic replacement of the manifest.

File names carry the generation, so nothing that a reader may hold open changes, and until the manifest is replaced the
new files belong to nothing.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from typing import TYPE_CHECKING

import attrs

from seqrecorder.errors import DatasetError, OptionError, SchemaMismatchError
from seqrecorder.files import exclusive, faults_around, replace_file, sync_directory, sync_tree, write_file, writing
from seqrecorder.manifest import read_manifest
from seqrecorder.naming import ASSETS, MANIFEST, examples_name, generation_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from seqrecorder.framing import Compression
    from seqrecorder.manifest import Manifest
    from seqrecorder.schema import Schema

ASSET_GENERATION = re.compile("g([0-9]{4,})")
"""The name of a directory of assets that came with a later generation."""


def merge_into(dataset: Path, staging: Path, new: Manifest, old: Manifest | None, *, keep: bool) -> Manifest:
    """Move the files of a staging directory into a dataset, and replace its manifest.

    Args:
        dataset: directory of the dataset.
        staging: directory with the new files, on the same file system.
        new: what the dataset shall be.
        old: what the dataset must still be; None where its manifest could not be read.
        keep: whether the old files stay, because the new manifest names them too; else they go, once it is there.

    Returns:
        The new manifest; where nothing is kept, its assets have moved.

    Raises:
        DatasetError: somebody else changed the dataset in the meantime; nothing was changed.
        ShardWriteError: a file could not be moved; the dataset is as it was.
    """
    if not keep:
        new = _renamed(staging, new)
    text = new.to_json().encode()
    write_file(staging / MANIFEST, text)
    sync_tree(staging)
    with exclusive(dataset):
        _check_unchanged(dataset, old)
        # What a process that was killed here has left: nobody reads it, and its names are ours now.
        _remove_strays(dataset, lambda generation: generation >= new.generation)
        previous = (dataset / MANIFEST).read_bytes()
        try:
            _move(dataset, staging)
            replace_file(dataset / MANIFEST, text)
        except BaseException:
            # A caller that gets an error must find the old dataset, and nothing beside it.
            if (dataset / MANIFEST).read_bytes() != previous:
                replace_file(dataset / MANIFEST, previous)
            _remove_strays(dataset, lambda generation: generation >= new.generation)
            raise
        if not keep:
            # The new dataset is there whatever becomes of the old files: what stays now, the next overwrite removes.
            _remove_strays(dataset, lambda generation: generation != new.generation)
    return new


def standing(
    dataset: Path, schema: Schema, *, append: bool, overwrite: bool, compression: Compression
) -> tuple[Manifest | None, int]:
    """Return the manifest of what stands where a dataset is to be written, if it counts, and the next generation.

    Args:
        dataset: its directory.
        schema: of what is to be written.
        append: whether it is added to what stands there.
        overwrite: whether it replaces that.
        compression: of what is to be written.

    Raises:
        DatasetNotFoundError: there is nothing to append to.
        OptionError: what stands there is compressed in another way.
        SchemaMismatchError: it has other fields.
    """
    if append:
        old = read_manifest(dataset)
        if old.compression != compression:
            raise OptionError(f"append=True: the dataset has compression={old.compression!r}; pass the same")
        differences = old.schema.diff(schema)
        if differences:
            raise SchemaMismatchError(
                f"append=True: {dataset} was written with other fields; write a new dataset:", differences
            )
        return old, old.generation + 1
    if overwrite:
        # There may be nothing, or something damaged, which is what overwriting is for.
        with contextlib.suppress(DatasetError):
            old = read_manifest(dataset)
            return old, old.generation + 1
        if (dataset / MANIFEST).exists():
            return None, next_generation(dataset)
    return None, 0


def next_generation(dataset: Path) -> int:
    """Return a generation that no file in a directory belongs to, where no manifest says which it is."""
    return max((generation for _, generation in _generated(dataset)), default=-1) + 1


def _check_unchanged(dataset: Path, old: Manifest | None) -> None:
    try:
        now = read_manifest(dataset)
    except DatasetError:
        if old is not None:
            raise
        return
    if old is None or (now.generation, now.fingerprint) != (old.generation, old.fingerprint):
        expected = "none that can be read" if old is None else f"generation {old.generation}"
        raise DatasetError(
            f"{dataset} was changed while this was written (generation {now.generation}, expected {expected}), and "
            "is left as it is; write again",
            path=dataset,
        )


def _renamed(staging: Path, manifest: Manifest) -> Manifest:
    """Give the generation to the names that lack it, so that they replace no file of the old dataset."""
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


def _move(dataset: Path, staging: Path) -> None:
    for directory in sorted(path for path in staging.iterdir() if path.is_dir()):
        target = dataset / directory.name
        with writing("add to dataset", target), faults_around("mkdir", target):
            target.mkdir(exist_ok=True)
        for file in sorted(directory.iterdir()):
            final = target / file.name
            with writing("add to dataset", final), faults_around("rename", final):
                file.replace(final)
        sync_directory(target)
    sync_directory(dataset)


def _generated(dataset: Path) -> Iterator[tuple[Path, int]]:
    """Yield the files that a writer made, but for the manifest, and the generation of each."""
    for directory in sorted(path for path in dataset.iterdir() if path.is_dir() and not path.is_symlink()):
        for path in sorted(directory.iterdir()):
            generation: int | None
            if directory.name == ASSETS:
                match = ASSET_GENERATION.fullmatch(path.name)
                generation = int(match[1]) if match else 0
            else:
                generation = generation_of(directory.name, path.name)
            if generation is not None:
                yield path, generation


def _remove_strays(dataset: Path, unwanted: Callable[[int], bool]) -> None:
    """Remove the files of some generations, as far as the system lets us, and the directories that are empty then."""
    for path, generation in list(_generated(dataset)):
        if unwanted(generation):
            with contextlib.suppress(OSError), faults_around("remove", path):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()
            with contextlib.suppress(OSError):  # the split has other files
                path.parent.rmdir()
