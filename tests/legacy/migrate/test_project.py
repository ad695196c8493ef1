"""Scripts and directories, migrated from Python and from the command line."""

import difflib
import json
import subprocess
import sys

import classic
import pytest
import tensorflow as tf
from old_scripts import BATCH, HEAD, READ, UNCLEAR, script

import seqrecorder as sr
from seqrecorder.cli import main
from seqrecorder.legacy.migrate.analyze.names import may_have_queues
from seqrecorder.legacy.migrate.project import migrate

CLEAR = script(READ + BATCH)
WITH_WORDS = "# -*- coding: latin-1 -*-\n" + CLEAR + "\n\nname = 'caf\xe9'\n"


def run(capsys, *arguments):
    code = main.main(["migrate", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_notebooks_with_queues_are_refused(capsys, tmp_path):
    """A notebook is no script; one with queues is named, with the way to make a script of it."""
    (tmp_path / "old.ipynb").write_text(json.dumps({"cells": [{"source": ["x = tf.train.batch([y], 3)\n"]}]}))
    (tmp_path / "new.ipynb").write_text(json.dumps({"cells": [{"source": ["model.fit(batch)\n"]}]}))
    before = contents(tmp_path)
    code, out, _ = run(capsys, tmp_path, "--write")
    assert (code, contents(tmp_path)) == (1, before)
    assert "old.ipynb: refused\n  [notebook] queues in a notebook" in out
    assert "jupyter nbconvert" in out
    assert "2 scripts: 1 refused, 1 without queues" in out


@pytest.fixture
def project(tmp_path):
    """A directory of scripts of each kind, and of what is not looked at."""
    directory = tmp_path / "project"
    (directory / "inner").mkdir(parents=True)
    (directory / ".git").mkdir()
    (directory / "clear.py").write_text(CLEAR)
    (directory / "words.py").write_bytes(WITH_WORDS.encode("latin-1"))
    (directory / "inner" / "unclear.py").write_text(UNCLEAR["escapes"])
    (directory / "inner" / "other.py").write_text("print('no queues')\n")
    (directory / "broken.py").write_text("import tensorflow as tf\ndef tf.train.batch(:\n")
    (directory / "bytes.py").write_bytes(b"# tf.train.batch \xff\n")
    (directory / ".git" / "hidden.py").write_text(CLEAR)
    (directory / "notes.txt").write_text(CLEAR)
    return directory


def contents(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_nothing_is_written_unless_asked(capsys, project):
    """Without --write no byte of the directory changes; the diff shows what would."""
    before = contents(project)
    code, out, err = run(capsys, project)
    assert (code, err) == (1, "")
    assert contents(project) == before
    assert "-    queue = tf.train.string_input_producer(files)\n" in out
    assert "+    dataset = tf.data.Dataset.from_tensor_slices(files)\n" in out
    end = out.partition("6 scripts: ")[2].splitlines()
    assert end[0] == "2 converted, 1 flagged, 2 refused, 1 without queues"
    assert "nothing was written: --write changes 3 scripts, 1 of them by comments only" in end


def test_write_changes_what_the_diff_showed(capsys, project):
    """With --write the files become what was shown, in their encoding and with their permissions."""
    (project / "clear.py").chmod(0o755)
    before = contents(project)
    shown = {report.path: report for report in migrate(project)}
    reports = migrate(project, write=True)
    after = contents(project)
    changed = {path for path in after if after[path] != before[path]}
    assert changed == {report.path for report in reports if report.written}
    assert {path.name for path in changed} == {"clear.py", "words.py", "unclear.py"}
    assert set(after) == set(before)
    assert (project / "clear.py").stat().st_mode & 0o777 == 0o755
    assert "name = 'caf\xe9'\n".encode("latin-1") in after[project / "words.py"]
    for path in changed:
        old, new = (data[path].decode("latin-1").splitlines(keepends=True) for data in (before, after))
        assert shown[path].diff == "".join(difflib.unified_diff(old, new, f"{path} (old)", f"{path} (new)"))
    assert [report.diff for report in migrate(project)] == [""] * 6
    code, out, _ = run(capsys, project)
    assert (code, "6 scripts: 1 flagged, 2 refused, 3 without queues\n" in out) == (1, True)


def test_json_has_a_report_for_each_file(capsys, project):
    """Programs get outcome, findings with lines, notes, trials and diff of each file, and the counts."""
    code, out, _ = run(capsys, project, "--json")
    data = json.loads(out)
    files = {item["path"].rpartition("/")[2]: item for item in data["files"]}
    assert (code, data["counts"]) == (
        1,
        {"verified": 0, "converted": 2, "kept": 0, "flagged": 1, "refused": 2, "nothing": 1},
    )
    assert files["unclear.py"]["findings"] == [
        {
            "line": 10,
            "code": "escapes",
            "reason": "x: of single records, but used beside the batch",
            "advice": "batch it too, or compute it from the batch",
        }
    ]
    assert files["bytes.py"]["findings"][0]["code"] == "unreadable"
    assert files["broken.py"]["findings"][0]["code"] == "syntax"
    assert files["clear.py"]["diff"]
    assert not files["clear.py"]["written"]


def test_verify_and_the_loop_that_takes_the_batches(capsys, tmp_path, warm_python):
    """A verified script whose loop over a Session and a Coordinator stays as it was prints what it printed."""
    path = tmp_path / "train.py"
    path.write_text(classic.HEAD + classic.CONSUMER)
    with tf.io.TFRecordWriter(str(tmp_path / "records")) as writer:
        for word in ("a", "bc", "def", "ghij", "klmno"):
            writer.write(word.encode())
    old = path.read_text().replace("import tensorflow as tf", "import tensorflow.compat.v1 as tf")
    code, out, _ = run(capsys, path, "--write", "--verify")
    assert (code, "train.py: converted and verified, written\n" in out) == (0, True)
    assert "tf.train.start_queue_runners(sess=session, coord=coord)" in path.read_text()
    (tmp_path / "old.py").write_text(old)
    said = [
        warm_python.run([sys.executable, tmp_path / name], cwd=tmp_path, check=True, text=True).stdout
        for name in ("old.py", "train.py")
    ]
    assert said[0] == said[1]
    assert said[0].count("array") == 4
    assert said[0].endswith("done\n")


def test_a_link_stays_a_link(tmp_path):
    """Where a script is named by a link, what the link leads to is written."""
    (tmp_path / "clear.py").write_text(CLEAR)
    link = tmp_path / "link.py"
    link.symlink_to(tmp_path / "clear.py")
    [report] = migrate(link, write=True)
    assert report.written
    assert link.is_symlink()
    assert "tf.data.Dataset" in (tmp_path / "clear.py").read_text()


def test_a_byte_order_mark_stays(tmp_path):
    """A script that begins with a byte order mark has it once, before and after."""
    path = tmp_path / "clear.py"
    path.write_bytes(b"\xef\xbb\xbf" + CLEAR.encode())
    [report] = migrate(path, write=True)
    assert report.written
    assert path.read_bytes().count(b"\xef\xbb\xbf") == 1
    assert path.read_bytes().startswith(b"\xef\xbb\xbfimport")


def test_what_differs_is_not_written(monkeypatch, tmp_path):
    """A script whose new functions were found to differ stays as it is, and is refused."""
    from seqrecorder.legacy.migrate import project
    from seqrecorder.legacy.migrate.verify.verify import Trial

    path = tmp_path / "clear.py"
    path.write_text(CLEAR)
    monkeypatch.setattr(project, "tried", lambda *_, **__: (Trial("batches", "differs", "6 batches became 5"),))
    [report] = migrate(path, write=True, verify=True)
    assert (report.outcome, report.written, report.diff) == ("refused", False, "")
    assert [(finding.code, finding.reason) for finding in report.findings] == [
        ("differs", "batches: 6 batches became 5")
    ]
    assert path.read_text() == CLEAR


def test_callers_in_other_scripts_are_named(tmp_path):
    """Where a function takes something else now, the scripts beside it that call it are named."""
    (tmp_path / "images.py").write_text(classic.HEAD + classic.IMAGES)
    (tmp_path / "train.py").write_text("import images\n\nx = images.read_and_decode(queue)\n")
    (tmp_path / "other.py").write_text("def read_and_decode(): pass\n\n\nread_and_decode()\n")
    reports = {report.path.name: report for report in migrate(tmp_path)}
    assert reports["images.py"].changed == ("read_and_decode",)
    assert [(finding.code, finding.reason) for finding in reports["images.py"].findings] == [
        ("callers", f"{tmp_path / 'train.py'}, line 3, seems to call read_and_decode as it was")
    ]
    assert reports["train.py"].outcome == "nothing"


def test_lines_are_those_of_what_is_written(tmp_path):
    """Comments that say what is left stand above the lines that the report names."""
    path = tmp_path / "train.py"
    path.write_text(CLEAR + "\n\ndef model(x):\n    y = tf.layers.dense(x, 2)\n    return tf.layers.dense(y, 3)\n")
    [report] = migrate(path, target="eager", write=True)
    lines = path.read_text().splitlines()
    missing = [finding for finding in report.findings if finding.code == "missing"]
    assert len(missing) == 2
    assert all("tf.layers.dense(" in lines[finding.line - 1] for finding in missing)
    [again] = migrate(path, target="eager")
    assert again.outcome == "nothing"
    assert [each.reason for each in again.findings] == [each.reason for each in report.findings]
    assert all(each.reason in lines[each.line - 1] for each in again.findings)


def test_callers_of_methods_are_named(tmp_path):
    """Whose object it is is not known, but a script that imports the file may mean its method."""
    body = (READ + BATCH).replace("    ", "        ")
    (tmp_path / "data.py").write_text(f"{HEAD}class Inputs:\n    def batches(self, files):\n{body}")
    (tmp_path / "train.py").write_text("from data import Inputs\n\nx = Inputs().batches([])\n")
    report, _ = migrate(tmp_path, target="eager")
    assert [f.reason for f in report.findings if f.code == "callers"] == [
        f"{tmp_path / 'train.py'}, line 3, seems to call batches as it was"
    ]


def test_wrong_arguments(capsys, tmp_path):
    """What does not exist is said to, and targets are three."""
    assert run(capsys, tmp_path / "none.py")[0] == 1
    with pytest.raises(SystemExit):
        run(capsys, tmp_path, "--target", "keras")
    with pytest.raises(sr.OptionError, match="expected 'graph', 'eager' or 'lift', got 'keras'"):
        migrate(tmp_path, target="keras")
    with pytest.raises(sr.OptionError, match="fallback: expected"):
        migrate(tmp_path, fallback="graph")
    with pytest.raises(sr.OptionError, match="which is for target='eager'"):
        migrate(tmp_path, records=True)
    assert run(capsys, tmp_path)[:2] == (0, "no script\n")


def test_eager_from_the_command_line(capsys, tmp_path):
    """The target is chosen by name."""
    path = tmp_path / "clear.py"
    path.write_text(CLEAR)
    code, out, _ = run(capsys, path, "--target", "eager")
    assert (code, "+    return dataset.prefetch(tf.data.AUTOTUNE)\n" in out, HEAD in path.read_text()) == (
        0,
        True,
        True,
    )


def test_scripts_without_queues_need_no_tensorflow(tmp_path):
    """Under the eager target TensorFlow is imported for names of scripts that have queues, and not before."""
    (tmp_path / "keras.py").write_text("import tensorflow as tf\n\n\ndef batch(x):\n    return tf.constant(x)\n")
    code = (
        "import sys\nfrom seqrecorder.cli.main import main\n"
        "code = main(['migrate', sys.argv[1], '--target', 'eager'])\nprint(code, 'tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == "1 script: 1 without queues\n0 False\n"


@pytest.mark.parametrize(
    "text",
    [
        "from tensorflow.train import batch as b",
        "from tensorflow.compat.v1.train import *\nx = batch([y], 2)",
        "import tensorflow.contrib.training as t\nx = t.bucket(y)",
        "import tensorflow as tf\nmake = tf.train\nx = make.batch([y], 3)",
    ],
)
def test_words_of_queues(text):
    """Whatever their names are imported as, scripts with queues are looked into."""
    assert may_have_queues(text)
    assert not may_have_queues(text.replace("tensorflow", "jax").replace("tf", "jnp"))


def test_kept_scripts_are_shown_and_written(capsys, tmp_path):
    """A script whose queue sessions fill is flagged, and kept where that is asked for, which leaves nothing to do."""
    path = tmp_path / "fed.py"
    path.write_text(
        f"{HEAD}ids = tf.placeholder(tf.int32)\nqueue = tf.FIFOQueue(8, tf.int32)\nput = queue.enqueue(ids)\n"
    )
    assert run(capsys, path)[0] == 1
    code, out, _ = run(capsys, path, "--fallback", "lift")
    assert (code, "fed.py: kept in graphs\n" in out, "+tf.disable_v2_behavior()" in out) == (0, True, True)
    code, out, _ = run(capsys, path, "--fallback", "lift", "--write", "--json")
    data = json.loads(out)
    assert (code, data["counts"]["kept"], data["files"][0]["written"]) == (0, 1, True)
    assert run(capsys, path, "--target", "eager", "--fallback", "lift")[0] == 1
