"""Let Atheris mutate records: `python tests/reliability/fuzz.py CORPUS -runs=1000000 -seed=1`.

It takes `pip install atheris`, which the tests do not need. CORPUS is a directory, where it keeps what it found worth
mutating further, so that a run goes on where the last one ended. The options are libFuzzer's, whose mutations are
guided by what a walk over the fields of a message, written here, meets. The records go in bulk to the decoders, and
how many there were goes to the file that SEQRECORDER_FIGURES names, like the figures of the tests.
"""

import datetime as dt
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
sys.path.insert(0, str(Path(__file__).parents[1]))

import atheris
from decoders import SEEDS, compare

BULK = 50_000
LONGEST = 400
DEPTH = 5  # of messages: example, lists, entry, feature list, feature
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


@atheris.instrument_func
def walk(data, depth=0):
    """Walk over the fields of a message as far as they go, so that other kinds of fields are another coverage."""
    place = 0
    while place < len(data):
        tag, place = varint(data, place)
        kind = tag & 7
        if kind == VARINT:
            place = varint(data, place)[1]
        elif kind == FIXED64:
            place += 8
        elif kind == FIXED32:
            place += 4
        elif kind == BYTES:
            size, place = varint(data, place)
            if size > len(data) - place:
                return False
            if depth < DEPTH and size:
                walk(data[place : place + size], depth + 1)
            place += size
        else:
            return False
    return place == len(data)


@atheris.instrument_func
def varint(data, place):
    """Return the number that begins at a place, and where it ends."""
    value = shift = 0
    while place < len(data):
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return value, place


class Bulk:
    """Records until there are enough of them to be compared."""

    def __init__(self):
        self.records, self.seen = [], Counter()

    def __call__(self, data):
        walk(data)
        self.records.append(data)
        if len(self.records) == BULK:
            self.seen += compare(self.records)
            self.records = []
            self.say(BULK)
            sys.stderr.write(f"no disagreement so far: {dict(self.seen)}\n")

    @staticmethod
    def say(count):
        """Append the number of records to the figures; each bulk is a test of its own, since they add up."""
        place = os.environ.get("SEQRECORDER_FIGURES")
        if place:
            now = time.time_ns()
            line = {"test": f"fuzz.py at {now}", "date": str(dt.datetime.now(dt.timezone.utc).date()), "run": now}
            line |= {"promise": 17, "tried": "records mutated by Atheris", "count": count}
            with Path(place).open("a", encoding="utf-8") as file:
                file.write(json.dumps({**line, "kept": "protobuf's answer, or an error"}) + "\n")


def main():
    """Seed the corpus, and let libFuzzer go on."""
    corpus = Path(sys.argv[1])
    corpus.mkdir(exist_ok=True, parents=True)
    for number, data in enumerate(SEEDS):
        (corpus / f"sound-{number}").write_bytes(data)
    # Few mutations at a time, of few records: what has gone through many is refused at once.
    near = ["-mutate_depth=2", "-use_counters=0", "-reduce_inputs=0"]
    atheris.Setup([*sys.argv, f"-max_len={LONGEST}", "-timeout=600", "-rss_limit_mb=0", *near], Bulk())
    atheris.Fuzz()


if __name__ == "__main__":
    main()
