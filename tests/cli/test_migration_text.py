"""What is printed about migrated scripts."""

from pathlib import Path

import pytest

from seqrecorder.cli.migration_text import migration_summary, migration_text
from seqrecorder.legacy.migrate.findings import Finding
from seqrecorder.legacy.migrate.project import FileReport
from seqrecorder.legacy.migrate.verify.verify import Trial

REPORTS = [
    FileReport(
        Path("a.py"),
        "converted",
        (Finding(3, "contrib", "tf.contrib.x is gone"), Finding(9, "contrib", "tf.contrib.x is gone")),
        ("files are read in another order than before, which is said in many words so that the line is folded",),
        (Trial("f", "equal", "4 batches equal"), Trial("g", "unverified", "it cannot be called")),
        "--- a.py (old)\n+++ a.py (new)\n@@ -1 +1 @@\n-x\n+y\x1b\n",
    ),
    FileReport(Path("b.py"), "flagged", (Finding(1, "escapes", "x: used twice"),), diff="--- b\n+++ b\n+# TODO\n"),
    FileReport(Path("c\x1b.py"), "refused", (Finding(0, "syntax", "cannot be read"),)),
    FileReport(Path("d.py"), "nothing"),
]
TEXT = """\
a.py: converted, 1 of 2 functions verified, 2 places left to do
  f: verified: 4 batches equal
  g: not verified: it cannot be called
  lines 3, 9: [contrib] tf.contrib.x is gone
  note: files are read in another order than before, which is
      said in many words so that the line is folded

--- a.py (old)
+++ a.py (new)
@@ -1 +1 @@
-x
+y\\x1b

b.py: flagged, 1 reason
  line 1: [escapes] x: used twice

c\\x1b.py: refused
  [syntax] cannot be read

4 scripts: 1 converted, 1 flagged, 1 refused, 1 without queues
what to do, by the reason and the number of its scripts:
  contrib (1): take what is there from
      seqrecorder.legacy.contrib, or run it: seqrecorder
      legacy run SCRIPT
  escapes (1): batch it too, or compute it from the batch
  syntax (1): make it Python 3 that can be read
nothing was written: --write changes 2 scripts, 1 of them by
comments only"""


def test_text_for_people():
    """A file has a line of what became of it, and below what is left; what to do about that comes once, in the end."""
    assert migration_text(REPORTS, write=False, width=62) == TEXT


def test_written_files_show_no_diff():
    """What was written is counted, and not shown again."""
    written = FileReport(Path("a.py"), "verified", (), (), (Trial("f", "equal", "2 batches equal"),), "-x\n", True)
    assert (
        migration_text([written], write=True)
        == """\
a.py: converted and verified, written
  f: verified: 2 batches equal

1 script: 1 converted and verified
written: 1"""
    )
    assert migration_text([], write=False) == "no script"


@pytest.mark.parametrize("width", [0, 40, 200])
def test_lines_fit_the_terminal(width):
    """Text is as wide as the terminal, and no narrower than 40 columns."""
    lines = migration_text(REPORTS, write=False, width=width).splitlines()
    assert max(map(len, lines[3:])) <= max(width, 40)


def test_document_for_programs():
    """The keys of the document are these, and stay."""
    document = migration_summary(REPORTS)
    assert list(document) == ["format", "files", "counts"]
    assert document["format"] == 1
    file = document["files"][0]
    assert sorted(file) == ["diff", "findings", "lifted", "notes", "outcome", "path", "trials", "written"]
    assert sorted(file["findings"][0]) == ["advice", "code", "line", "reason"]
    assert file["trials"][0] == {"function": "f", "outcome": "equal", "reason": "4 batches equal"}
    counts = {"verified": 0, "converted": 1, "kept": 0, "flagged": 1, "refused": 1, "nothing": 1}
    assert document["counts"] == counts


def test_places_that_an_earlier_run_left_are_shown():
    """A script without queues is shown where it has places left to do; what is written cannot be verified any more."""
    left = FileReport(Path("a.py"), "nothing", (Finding(3, "contrib", "tf.contrib.x is gone"),))
    assert migration_text([left], write=False).splitlines()[:2] == [
        "a.py: without queues, 1 place left to do",
        "  line 3: [contrib] tf.contrib.x is gone",
    ]
    converted = FileReport(Path("a.py"), "converted", diff="-x\n", written=True)
    assert "--verify" in migration_text([converted], write=False)
    assert "--verify" not in migration_text([converted], write=True)


def test_lifted_scripts_are_told_from_rewritten_ones():
    """A script whose functions keep their queues is said to be lifted, and which functions those are."""
    report = FileReport(Path("a.py"), "verified", notes=("lifted, with its queues as they are: f",), lifted=("f",))
    assert migration_text([report], write=True).splitlines()[:2] == [
        "a.py: lifted and verified",
        "  note: lifted, with its queues as they are: f",
    ]
    assert migration_summary([report])["files"][0]["lifted"] == ("f",)
