"""Selections on the command line: what they show and copy is what the same selection holds in Python."""

import json
from pathlib import Path

import numpy as np
import pytest

import seqrecorder as sr
from seqrecorder.cli.main import main


@sr.record
class Visit:
    key: str = sr.context(str, key=True)
    patient: bytes = sr.context(bytes)
    age: int = sr.context("int32")
    dose: float = sr.context("float32")
    is_first: bool = sr.context(bool)
    day: np.datetime64 = sr.context("datetime64[D]")
    stay: np.timedelta64 = sr.context("timedelta64[h]")
    pulse: np.ndarray = sr.feature_list("float32")


VISITS = [
    Visit(
        f"v{i}",
        b"p%d" % (i % 3),
        20 + i % 5,
        i / 4,
        i % 2 == 0,
        np.datetime64("2026-01-01") + i,
        np.timedelta64(i, "h"),
        np.zeros(i % 4),
    )
    for i in range(30)
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("selected") / "visits"
    sr.write({"train": VISITS[:20], "eval": VISITS[20:]}, path)
    return str(path)


def asked(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict:
    """The document of a command."""
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


SELECTIONS = [
    (["--select", "train[:3]"], ["v0", "v1", "v2"]),
    (["--select", "eval[-2:]"], ["v28", "v29"]),
    (["--select", "eval,train[9:11]"], ["v29", "v0"]),
    (["--select", "[::12]"], ["v0", "v12", "v24"]),
    (["--select", "train[3, 0,-1]"], ["v3", "v0", "v19"]),
    (["--select", "eval[:1]", "--select", "train[:1]"], ["v0", "v20"]),
    (["--key", "v7", "--key", "v3"], ["v7", "v3"]),
    (["--select", "train", "--where", "age=24", "--where", "patient=p1"], ["v4", "v19"]),
    (["--where", "age=24", "--where", "age=20", "--where", "is_first=true", "--select", "eval"], ["v20", "v24"]),
    (["--where", "dose=0.5"], ["v2"]),
    (["--where", "day=2026-01-03"], ["v2"]),
    (["--where", "stay=5"], ["v5"]),
    (["--where", "patient=", "--where", "patient=p1", "--where", "age=20"], ["v10", "v25"]),
]


@pytest.mark.parametrize(("given", "keys"), SELECTIONS, ids=" ".join)
def test_head_shows_what_is_selected(capsys: pytest.CaptureFixture[str], path: str, given: list, keys: list) -> None:
    """Splits, ranges, keys and values select what they do in Python."""
    found = asked(capsys, "head", path, "-n", "50", *given)
    assert [record["key"] for record in found["records"]] == keys
    assert found["total"] == len(keys)


def test_head_takes_split_and_condition(capsys: pytest.CaptureFixture[str], path: str) -> None:
    """`--split` goes with conditions, and the text says what was selected."""
    assert main(["head", path, "--split", "eval", "--where", "age=21", "-n", "1"]) == 0
    text = capsys.readouterr().out
    assert "Selection of 2 records: Visit, of eval" in text
    assert "the first 1 of 2 records" in text
    assert "'v21'" in text


def test_info_counts_what_is_selected(capsys: pytest.CaptureFixture[str], path: str) -> None:
    """Records, splits and steps of a selection; none has no lengths."""
    found = asked(capsys, "info", path, "--select", "[15:25]")
    assert (found["records"], found["splits"]) == (10, {"train": 5, "eval": 5})
    lengths = [i % 4 for i in range(15, 25)]
    assert found["steps"] == {"default": {"total": sum(lengths), "least": 0, "mean": np.mean(lengths), "most": 3}}
    assert asked(capsys, "info", path, "--where", "age=3")["steps"] == {"default": {"total": 0}}
    assert main(["info", path, "--select", "train[:7]"]) == 0
    assert "Selection of 7 records" in capsys.readouterr().out


def test_convert_copies_what_is_selected(capsys: pytest.CaptureFixture[str], path: str, tmp_path: Path) -> None:
    """Datasets are copied in parts, each record in its split, or dealt anew; several become one."""
    found = asked(capsys, "convert", path, str(tmp_path / "some"), "--where", "age=22")
    assert {name: split["records"] for name, split in found["dataset"]["splits"].items()} == {"train": 4, "eval": 2}
    assert list(sr.read_records(tmp_path / "some", "eval", schema=Visit)) == [VISITS[22], VISITS[27]]
    shares = ["--share", "a=0.5", "--share", "b=0.5"]
    found = asked(capsys, "convert", path, str(tmp_path / "halves"), "--select", "eval", *shares)
    assert sum(split["records"] for split in found["dataset"]["splits"].values()) == 10
    grouped = asked(capsys, "convert", path, str(tmp_path / "grouped"), *shares, "--split-by", "patient")
    assert sum(split["records"] for split in grouped["dataset"]["splits"].values()) == 30
    sides = [{visit.patient for visit in sr.read_records(tmp_path / "grouped", name)} for name in "ab"]
    assert not sides[0] & sides[1]
    both = [str(tmp_path / "some"), path]
    assert main(["convert", *both, str(tmp_path / "both"), "--select", "eval[:1]"]) == 0
    assert [visit.key for visit in sr.read_records(tmp_path / "both")] == ["v22", "v20"]


def test_convert_of_no_record_writes_nothing(capsys: pytest.CaptureFixture[str], path: str, tmp_path: Path) -> None:
    """Conditions that no record meets are an error, where an empty dataset would be published."""
    assert main(["convert", path, str(tmp_path / "none"), "--where", "age=3"]) != 0
    assert "is selected: nothing is written" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_wrong_selections_are_one_clear_line(capsys: pytest.CaptureFixture[str], path: str, tmp_path: Path) -> None:
    """What cannot be read is said with what was expected; nothing is evaluated."""
    wrong = {
        ("--select", "train[__import__('os')]"): "expected SPLIT or SPLIT",
        ("--select", "train[1:2:3:4]"): "expected positions as in Python",
        ("--select", "train[::0]"): "expected positions as in Python",
        ("--select", "train[]"): "expected positions as in Python",
        ("--select", "train[20]"): "has no record 20",
        ("--select", "trian"): "did you mean 'train'",
        ("--key", "v99"): "no record of the key 'v99'",
        ("--where", "age=old"): "field 'age': expected int32, got 'old'",
        ("--where", "age="): "field 'age': expected int32, got ''",
        ("--where", "agee=3"): "agee",
        ("--where", "pulse=3"): "expected one value per record",
        ("--split", "train", "--select", "eval"): "leave --split out",
    }

    @sr.record
    class Event:
        time: np.datetime64 = sr.context("datetime64[s, UTC]")

    sr.write([Event(np.datetime64("2026-01-01T10"))], tmp_path / "events")
    assert main(["head", str(tmp_path / "events"), "--where", "time=2026-01-01T10:00:00Z"]) == 0
    assert main(["head", str(tmp_path / "events"), "--where", "time=2026-01-01T10:00:00"]) == 1
    error = capsys.readouterr().err
    assert error.endswith("(with a time zone), got '2026-01-01T10:00:00'; UTC ends with Z\n")
    for given, message in wrong.items():
        assert main(["head", path, *given]) == 1
        assert message in capsys.readouterr().err
    assert main(["convert", "records.tfrecord", str(tmp_path / "new"), "--select", "train"]) == 1
    assert "records are selected of datasets, got records.tfrecord" in capsys.readouterr().err
    assert main(["convert", path, str(tmp_path / "new"), "--cast"]) == 1
    assert "are not for datasets" in capsys.readouterr().err


def test_leakage_is_a_problem(capsys: pytest.CaptureFixture[str], path: str) -> None:
    """What splits share is a table or a document, and the exit code 1; of nothing 0."""
    found = asked(capsys, "leakage", path, "--by", "patient", "--time", "day", code=1)
    assert (found["clean"], found["looked_for"]) == (False, ["keys", "contents", "groups", "times"])
    assert [(shared["what"], shared["count"], shared["splits"]) for shared in found["shared"]] == [
        ("groups", 3, ["train", "eval"])
    ]
    assert main(["leakage", path]) == 0
    assert capsys.readouterr().out == "no shared keys, no shared contents\n"
    assert main(["leakage", path, "--by", "patients"]) == 1
    assert "patient" in capsys.readouterr().err
