"""The parts of a dataset at a URL: their shards lie where they shall stay, and a manifest of each tells of them.

Objects cannot be renamed, so an attempt at a part puts its shards among those of the dataset, under names of its own,
and then its manifest as one object `.parts/<part>-<token>.json`. Until `commit`, no manifest of the dataset names them.
"""

from __future__ import annotations

import datetime as dt
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from seqrecorder.dataset.owned_files import named
from seqrecorder.dataset.read_manifest import parse_manifest
from seqrecorder.dataset.transfer import PARTS, Destination
from seqrecorder.dataset.verify import require_fit
from seqrecorder.errors import DatasetError, DatasetNotFoundError
from seqrecorder.storage.object_cache import cached
from seqrecorder.storage.place import Place
from seqrecorder.storage.threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from seqrecorder.dataset.manifest import Manifest

_RECORD = f"{PARTS}committed"
_LONG_AGO = dt.datetime.min.replace(tzinfo=dt.timezone.utc)


def attempt_at(url: str, part: int | str) -> Destination:
    """Return where another attempt at a part goes, that nobody else has."""
    token = secrets.token_hex(4)
    label = f"p{part:05d}" if isinstance(part, int) else "p" + part.encode().hex()[:16]
    return Destination(Place.of(url), name=f"{PARTS}{part}-{token}.json", label=f"-{label}-{token}")


@attrs.frozen
class UrlParts:
    """The parts of one dataset; what `PartsDirectory` is for a directory.

    Attributes:
        whole: where the dataset shall be, and what stood there.
        known: the attempts that are complete by the names of their manifests: their directories in the cache, and when
            each was, in nanoseconds.
    """

    whole: Destination
    known: Mapping[str, tuple[Path, int]]

    @classmethod
    def of(cls, url: str) -> UrlParts:
        """Return those at a URL."""
        whole, known = Destination.of(url), dict[str, tuple[Path, int]]()
        names = {name: item for name, item in whole.place.items().items() if _is_part(name)}

        def bring(name: str) -> None:
            text = whole.place.read(name)
            if text is not None:
                path = cached(whole.place, text)
                _ = parse_manifest(text, path).assets  # the hashes of its keys
                known[name] = path, int((names[name].modified or _LONG_AGO).timestamp() * 1e9)

        in_threads(bring, list(names))
        return cls(whole, dict(sorted(known.items())))

    @property
    def destination(self) -> str:
        """The URL of the dataset."""
        return self.whole.place.url

    @property
    def path(self) -> str:
        """The URL under which the manifests of parts are."""
        return f"{self.destination}/{PARTS}"

    @property
    def attempts(self) -> list[tuple[Path, int]]:
        """The attempts that are complete, as directories in the cache, and when each was."""
        return list(self.known.values())

    def check_files(self, parts: Sequence[Manifest]) -> None:
        """Raise `DatasetNotFoundError` where a shard of a part is missing or has another size; else see `require_fit`.

        Raises:
            ShardReadError: lengths are not what the manifest of a part says.
        """
        place = self.whole.place
        listed, sizes = place.items(), dict[str, int]()
        for part in parts:
            for split in part.splits.values():
                for file in (file for shard in split.shards for file in shard.files(split.name)):
                    size = listed[file.name].bytes if file.name in listed else place.size(file.name)
                    if size is None or (file.bytes and size != file.bytes):
                        raise DatasetNotFoundError(
                            f"{place.at(file.name)}: a part has it with {file.bytes:,} bytes, and it "
                            f"{'is missing' if size is None else f'has {size:,}'}; write the part again",
                            path=place.at(file.name),
                        )
                    sizes[file.name] = size
            part.fetch(
                [(split.name, shard) for split in part.splits.values() for shard in split.shards], lengths_only=True
            )
            require_fit(part, sizes)

    def note(self, identity: str) -> None:
        """Remember what is about to be published, and of which attempts."""
        text = "\n".join([identity, *self.known]).encode()
        self.whole.place.put(_RECORD, text, expected=self.whole.place.version(_RECORD))

    def noted(self) -> str | None:
        """Return what `note` was given last, if that was of these attempts, or of such as are removed by now."""
        identity, *names = (self.whole.place.read(_RECORD) or b"").decode().splitlines() or [""]
        return identity if identity and (not self.known or self.known.keys() & set(names)) else None

    def remove(self, attempts: Sequence[Manifest], published: Manifest) -> None:
        """Remove the manifests of the attempts that were committed, and their files that are not of the dataset.

        Raises:
            DatasetError: there are other attempts, that came since an earlier commit was killed.
        """
        place, files = self.whole.place, set[str]()
        noted = (place.read(_RECORD) or b"").decode().splitlines()[1:] or list(self.known)
        names = [name for name in self.known if name in noted]  # another commit may have noted others, too
        for name, attempt in zip(self.known, attempts, strict=True):
            files |= named(attempt) if name in names else set()
        place.remove([*sorted(files - named(published)), *names, _RECORD])
        others = sorted(self.known.keys() - set(names))
        if others:
            raise DatasetError(
                f"{self.destination} is committed, by a run that was killed behind that; {others[0]} and "
                f"{len(others) - 1} more came since: commit again for new parts; late attempts at old ones go by "
                "`seqrecorder clean --parts`",
                path=self.destination,
            )


def _is_part(name: str) -> bool:
    return name.startswith(PARTS) and name != _RECORD
