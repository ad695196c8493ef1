"""Parts: whatever order, retry, double run and loss, the dataset is that of one process, or there is none."""

import subprocess
import sys

import pytest
from killed_children import FORKING

JOBS = """
PARTS, OPTIONS = 3, {"splits": {"train": 0.6, "eval": 0.4}, "shards": 2}

def part(destination, number):
    words = [Word(f"w{number}-{n}", [n] * n) for n in range(5)]
    return lambda: sr.write_part(words, destination, number, **OPTIONS)

def files(path):
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}

def write_parts(destination, numbers):
    assert not any(end(child) for child in [start(part(destination, number)) for number in numbers])

whole = root / "whole"
sr.write([Word("warm", [1])], root / "warm")  # what is imported and set up by now, no child does again
write_parts(whole, range(PARTS))
assert end(start(lambda: sr.commit(whole, expected=PARTS))) == 0
points, expected = int((root / "points").read_text()), files(whole)

# commit, killed at its fault points, and run again
tried = range(1, points + 1, int(sys.argv[2]))
for victim in tried:
    place = root / "killed" / "c"
    write_parts(place, range(PARTS))
    assert end(start(lambda: sr.commit(place, expected=PARTS), victim)) == -signal.SIGKILL, victim
    assert not place.exists() or files(place) == expected, victim
    assert end(start(lambda: sr.commit(place, expected=PARTS))) == 0, victim
    assert files(place) == expected, victim
    assert [path.name for path in place.parent.iterdir()] == ["c"], victim
    shutil.rmtree(place.parent)

# jobs whose attempts are killed, run twice, late or lost
lost = 0
for seed in range(int(sys.argv[3])):
    draw, place = random.Random(seed), root / f"job{seed}" / "c"
    attempts = [number for number in range(PARTS) for _ in range(draw.choice([1, 1, 2, 3]))]
    draw.shuffle(attempts)
    done, going = set(), []
    for number in attempts:
        victim = draw.choice([0, 0, draw.randrange(1, 60)])
        going.append((number, start(part(place, number), victim)))
        if draw.random() < 0.5:
            done |= {number for number, child in going if not end(child)}
            going = []
    late = going if draw.random() < 0.3 else []
    done |= {number for number, child in going if not late and not end(child)}
    commits = [start(lambda: sr.commit(place, expected=PARTS), draw.choice([0, draw.randrange(1, points)]))]
    commits += [start(lambda: sr.commit(place, expected=PARTS)) for _ in range(draw.randrange(2))]
    codes = [end(child) for child in commits]
    done |= {number for number, child in late if not end(child)}
    assert not place.exists() or files(place) == expected, seed
    for number in set(range(PARTS)) - done:
        lost += 1
        if not place.exists():
            assert codes.count(0) == 0, seed
            write_parts(place, [number])
    assert end(start(lambda: sr.commit(place, expected=PARTS))) == 0, seed
    assert files(place) == expected, seed
    assert [path.name for path in place.parent.iterdir()] == ["c"], seed
    shutil.rmtree(place.parent)
print(len(tried), lost)
"""


@pytest.mark.parametrize(
    ("step", "jobs"), [(12, 4), pytest.param(1, 200, marks=pytest.mark.nightly)], ids=["few", "all"]
)
def test_jobs(tmp_path, step, jobs, figure):
    """Attempts and commits are killed, repeated and raced: the files are those of one quiet run, and nothing is left.

    The ordinary run takes every twelfth fault point of a commit and a few jobs, the long one all of them and 200.
    """
    command = [sys.executable, "-c", FORKING + JOBS, str(tmp_path), str(step), str(jobs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    killed, lost = map(int, done.stdout.split())
    assert killed > 5
    assert lost
    figure(36, "SIGKILL at fault points of a commit", killed, "completed by the next commit")
    figure(36, "jobs of parts that were killed, lost and run twice", jobs, "the dataset of a quiet run")
