"""One of several processes that change one dataset at once: `python soak.py WHERE NUMBER APPENDS EDITS LOG`.

It appends records of keys that are its own, and edits the dataset in every way that keeps all records, or drops some
of its own. What returned goes to the log, a line each: the model of the test. What is refused is tried again.
"""

import json
import random
import sys
from pathlib import Path

import attrs

import seqrecorder as sr


@sr.record
class Note:
    key: str = sr.context(str, key=True)
    ids: list = sr.feature_list("int64", default=())


def note(key):
    return Note(key, [len(key), int(key.split("-")[1])])


@attrs.define
class Worker:
    """Changes a dataset until as many of its appends and edits as wanted have returned."""

    where: str
    number: int
    draw: random.Random
    keys: list[str] = attrs.field(factory=list)
    made: int = 0
    refused: int = 0

    def append(self):
        self.made += 1
        key = f"{self.number}-{self.made}"
        sr.write([note(key)], self.where, append=True)
        self.keys.append(key)
        return {"append": [key]}

    def commit(self):
        """Append a part; only the first process commits, so that parts are of one job."""
        self.made += 1
        key = f"{self.number}-{self.made}"
        sr.write_part([note(key)], self.where, self.made, append=True)
        while True:
            try:
                sr.commit(self.where, expected=[self.made], append=True)
            except sr.DatasetError:
                self.refused += 1
            else:
                break
        self.keys.append(key)
        return {"append": [key]}

    def drop(self):
        gone = self.draw.sample(self.keys, max(0, len(self.keys) - self.draw.randrange(3, 9)))
        everything = sr.open(self.where).all()
        sr.rewrite(self.where, drop=everything[sorted(gone)] if gone else everything[:0])
        self.keys = [key for key in self.keys if key not in gone]
        return {"drop": gone}

    def edit(self):
        where = self.where
        self.draw.choice(
            [
                lambda: sr.rewrite(where),
                lambda: sr.compact(where, shards=1),
                lambda: sr.merge([sr.open(where).all()], where, overwrite=True),
                lambda: sr.write(sr.open(where).all(), where, overwrite=True),
            ]
        )()
        return {}

    def run(self, appends, edits, log):
        while appends > 0 or edits > 0:
            is_edit = edits > 0 and (appends <= 0 or self.draw.random() < 0.2)
            kinds = [self.drop, self.edit] if is_edit else [self.append] * 9 + [self.commit] * (not self.number)
            try:
                change = self.draw.choice(kinds)()
            except sr.DatasetError:
                self.refused += 1
                continue
            log.write(json.dumps({**change, "edit": is_edit, "refused": self.refused}) + "\n")
            log.flush()
            appends, edits, self.refused = appends - (not is_edit), edits - is_edit, 0


def main(where, number, appends, edits, log):
    with Path(log).open("w", encoding="utf-8") as file:
        Worker(where, int(number), random.Random(number)).run(int(appends), int(edits), file)


if __name__ == "__main__":
    main(*sys.argv[1:])
