"""Splits that are dealt while records come: near their shares in every stratum, and in time."""

import itertools
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seqrecorder as sr
from seqrecorder.dataset.split_shares import StratifiedDealer

SHARES = {"train": 0.7, "eval": 0.2, "test": 0.1}


@sr.record
class Visit:
    key: str = sr.context(str, key=True)
    patient: str = sr.context(str)
    label: str | None = sr.context(str, optional=True)
    day: np.datetime64 = sr.context("datetime64[D]")
    left: np.datetime64 = sr.context("datetime64[D]")
    minutes: np.ndarray = sr.feature_list("int32")


def visits(count: int, start: int = 0) -> list[Visit]:
    rng = np.random.default_rng(start)
    labels = rng.choice(["a", "b", "c", "rare"], count, p=[0.6, 0.3, 0.08, 0.02])
    first = np.datetime64("2026-01-01")
    return [
        Visit(
            f"v{i}", f"p{i // 4}", None if i % 11 == 0 else str(label), first + i, first + i + i % 3, [i, i + 1 + i % 4]
        )
        for i, label in zip(range(start, start + count), labels, strict=True)
    ]


VISITS = visits(1000)


def split_of(path: Path) -> dict[str, str]:
    manifest = sr.info(path)
    return {visit.key: name for name in manifest.splits for visit in sr.read_records(path, name, fields=["key"])}


@pytest.mark.parametrize("option", ["splits", "split_by", "stratify"])
def test_fields_with_many_values_decide_no_splits(tmp_path: Path, option: str) -> None:
    """A feature list or a vector is refused by its declaration, before a record is taken; a function may read it."""

    @sr.record
    class Clip:
        name: str = sr.context(str, key=True)
        center: Any = sr.context("int8", shape=(2,))
        steps: Any = sr.feature_list("int8")

    for field, problem in {"steps": "is a feature list", "center": "has more than one value"}.items():
        taken = iter([Clip("a", [0, 0], [1])])
        message = f"{option}: expected one value of each record, or a function; field '{field}' {problem}"
        with pytest.raises(sr.OptionError, match=message):
            sr.write(taken, tmp_path / "d", schema=Clip, **{"splits": {"a": 0.5, "b": 0.5}, option: field})
        assert len(list(taken)) == 1
    shares = {"splits": {"a": 0.5, "b": 0.5}} if option != "splits" else {}
    options = {**shares, option: lambda clip: str(clip.steps[0])}
    assert sr.write([Clip("a", [0, 0], [1])], tmp_path / "d", **options).records == 1


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.integers(0, 6), max_size=400),
    shares=st.sampled_from([{"a": 0.8, "b": 0.2}, SHARES, {"a": 0.99, "b": 0.01}, {"a": 1.0, "b": 0.0}]),
    seed=st.integers(0, 5),
)
def test_every_stratum_is_near_its_shares(values: list[int], shares: dict[str, float], seed: int) -> None:
    """No split is off by more than four records in a stratum, nor by six in all, wherever the data end."""
    dealer = StratifiedDealer(shares, seed)
    names = dealer.assign(values, np.arange(len(values)))
    for value, most in [*((value, 4) for value in set(values)), (None, 6)]:
        own = [name for name, of in zip(names, values, strict=True) if value in (of, None)]
        for name, share in shares.items():
            assert abs(own.count(name) - share * len(own)) <= most
            assert share > 0 or name not in own


def test_dealing_goes_by_chance() -> None:
    """A split is not every fifth record of a stratum, and another seed deals otherwise; in pieces it is the same."""
    one, other = (
        StratifiedDealer({"train": 0.8, "eval": 0.2}, seed).assign([0] * 500, np.arange(500)) for seed in (0, 1)
    )
    held = [number for number, name in enumerate(one) if name == "eval"]
    assert len({number % 5 for number in held}) == 5
    assert one != other
    dealer = StratifiedDealer({"train": 0.8, "eval": 0.2}, 0)
    pieces = [dealer.assign([0] * 50, np.arange(start, start + 50)) for start in range(0, 500, 50)]
    assert list(itertools.chain(*pieces)) == one


def test_written_splits_are_stratified(tmp_path: Path) -> None:
    """Each split gets its share of every label, None too, and the manifest says how far it was missed."""
    manifest = sr.write(VISITS, tmp_path / "d", splits=SHARES, stratify="label", seed=3)
    found = split_of(tmp_path / "d")
    for label in ("a", "b", "c", "rare", None):
        own = [found[visit.key] for visit in VISITS if visit.label == label]
        for name, share in SHARES.items():
            assert abs(own.count(name) - share * len(own)) <= 4
            assert manifest.shares.strata[str(label)][name] == own.count(name) / len(own)
    assert manifest.shares.missed == sr.info(tmp_path / "d").shares.missed <= 0.2
    assert "rare" in str(manifest.shares)
    sr.write(VISITS, tmp_path / "again", splits=SHARES, stratify=lambda visit: visit.label, seed=3)
    assert split_of(tmp_path / "again") == found
    assert sr.write(VISITS[:9], tmp_path / "plain").shares is None


@pytest.mark.parametrize("how", ["columns", "a selection"])
def test_strata_are_the_same_whatever_records_come_as(tmp_path: Path, how: str) -> None:
    """Columns and selections are dealt as records are."""
    options: dict[str, Any] = {"splits": SHARES, "stratify": "label", "schema": Visit}
    sr.write(VISITS[:300], tmp_path / "records", **options)
    sr.write(VISITS[:300], tmp_path / "source")
    source = sr.open(tmp_path / "source", schema=Visit)["train"]
    if how == "columns":
        sr.write(source.to_arrow().read_all(), tmp_path / "other", **options)
    else:
        sr.write(source, tmp_path / "other", **options)
    assert split_of(tmp_path / "other") == split_of(tmp_path / "records")


def test_appends_go_on_with_the_strata(tmp_path: Path) -> None:
    """What is appended in pieces is split as what is written at once, and under no other rule."""
    options: dict[str, Any] = {"splits": SHARES, "stratify": "label", "split_by": "patient", "seed": 1}
    sr.write(VISITS[:400], tmp_path / "pieces", **options)
    sr.write(VISITS[400:700], tmp_path / "pieces", append=True)
    manifest = sr.write(VISITS[700:], tmp_path / "pieces", append=True, stratify="label")
    whole = sr.write(VISITS, tmp_path / "whole", **options)
    assert split_of(tmp_path / "pieces") == split_of(tmp_path / "whole")
    assert (manifest.shares, manifest.splitting) == (whole.shares, whole.splitting)
    for wrong in ("patient", lambda visit: visit.label):
        with pytest.raises(sr.OptionError, match="written with stratify='label'"):
            sr.write(visits(3, 1000), tmp_path / "pieces", append=True, stratify=wrong)


def test_groups_stay_whole(tmp_path: Path) -> None:
    """Of groups and strata at once, no group is in two splits, and shares are near."""
    manifest = sr.write(VISITS, tmp_path / "d", splits=SHARES, stratify="label", split_by="patient")
    found = split_of(tmp_path / "d")
    assert all(len({found[visit.key] for visit in VISITS[i : i + 4]}) == 1 for i in range(0, 1000, 4))
    assert all(abs(manifest.shares.got[name] - share) < 0.05 for name, share in SHARES.items())


IN_TIME = {"train": ..., "eval": "2027-01-01", "test": np.datetime64("2028-01-01")}


def test_splits_in_time(tmp_path: Path) -> None:
    """Records are in the split of their time; appends go on under the rule, which names no times again."""
    manifest = sr.write(VISITS[:500], tmp_path / "d", splits=IN_TIME, time="day")
    assert {name: split.records for name, split in manifest.splits.items()} == {"train": 365, "eval": 135, "test": 0}
    manifest = sr.write(VISITS[500:], tmp_path / "d", append=True)
    assert {name: split.records for name, split in manifest.splits.items()} == {"train": 365, "eval": 365, "test": 270}
    assert list(sr.read_records(tmp_path / "d", "test", schema=Visit)) == VISITS[730:]
    sr.write(visits(2, 1000), tmp_path / "d", append=True, splits=IN_TIME, time="day")
    with pytest.raises(sr.OptionError, match="other splits in time"):
        sr.write(visits(2, 2000), tmp_path / "d", append=True, splits={"train": ..., "eval": "2027-01-01"}, time="day")
    sr.rewrite(tmp_path / "d", drop=sr.open(tmp_path / "d")["eval"])
    assert sr.write(visits(2, 3000), tmp_path / "d", append=True).splits["test"].records == 274


def test_records_that_straddle(tmp_path: Path) -> None:
    """They are an error that says where, or are left out and counted; their keys may come again."""
    options: dict[str, Any] = {"splits": IN_TIME, "time": "day", "end": "left"}
    with pytest.raises(
        sr.RecordError, match=r"begins at 2026-12-31, in split 'train', and ends at 2027-01-01"
    ) as caught:
        sr.write(VISITS, tmp_path / "d", **options)
    assert caught.value.position == 364
    manifest = sr.write(VISITS[:366], tmp_path / "d", **options, straddling="drop")
    assert (manifest.records, manifest.skipped) == (365, 1)
    late = Visit("v364", "p", "a", np.datetime64("2029-01-01"), np.datetime64("2029-01-01"), [0])
    assert sr.write([late], tmp_path / "d", append=True).splits["test"].records == 1
    table = sr.open(tmp_path / "d", schema=Visit)["train"].to_arrow().read_all()
    assert sr.write(table, tmp_path / "t", schema=Visit, **options, straddling="drop").records == 364
    steps = sr.write(VISITS[:60], tmp_path / "s", splits={"a": ..., "b": 30}, time="minutes", straddling="drop")
    assert {name: split.records for name, split in steps.splits.items()} == {"a": 28, "b": 30}


@pytest.mark.parametrize("straddling", ["error", "drop"])
def test_records_without_a_time(tmp_path: Path, straddling: str) -> None:
    """NaT is in no split: the record is named, and does not go to the last one."""
    lost = attrs.evolve(VISITS[3], key="lost", day=np.datetime64("NaT"))
    for end in (None, "left"):
        with pytest.raises(sr.RecordError, match="NaT") as caught:
            sr.write([VISITS[0], lost], tmp_path / "d", splits=IN_TIME, time="day", end=end, straddling=straddling)
        assert caught.value.position == 1


@sr.record(kw_only=True)
class Ride:
    key: str = sr.context(str, key=True)
    part: int = sr.context("int32", default=0, chunk=True)
    minute: np.ndarray = sr.feature_list("int32")
    speed: np.ndarray = sr.feature_list("float32", shape=(2,))
    stops: np.ndarray = sr.feature_list("int64", align=None)


def ride(number: int) -> Ride:
    minutes = np.arange(number * 7 % 11, dtype="int32") * 3 + number
    return Ride(key=f"r{number}", minute=minutes, speed=np.repeat(minutes, 2).reshape(-1, 2) / 2, stops=[number])


RIDES = [ride(number) for number in range(1, 40) if number % 11]


@pytest.mark.parametrize("source", ["records", "table", "selection"])
def test_straddling_records_are_cut(tmp_path: Path, source: str) -> None:
    """Of each record every split has the steps of its time, in numbered pieces; lists of other lengths stay whole."""
    given: Any = RIDES
    if source != "records":
        sr.write(RIDES, tmp_path / "source")
        given = sr.open(tmp_path / "source", schema=Ride)["train"]
        given = given.to_arrow().read_all() if source == "table" else given
    bounds = {"a": (0, 20), "b": (20, 31), "c": (31, 999)}
    starts = {name: ... if name == "a" else first for name, (first, _) in bounds.items()}
    sr.write(given, tmp_path / "d", schema=Ride, splits=starts, time="minute", straddling="cut")
    for name, (first, stop) in bounds.items():
        expected = []
        for one in RIDES:
            inside = (one.minute >= first) & (one.minute < stop)
            before = sum(
                ((one.minute >= lower) & (one.minute < upper)).any()
                for lower, upper in bounds.values()
                if upper <= first
            )
            if inside.any():
                steps = {"minute": one.minute[inside], "speed": one.speed[inside], "stops": one.stops}
                expected.append(Ride(key=one.key, part=int(before), **steps))
        assert list(sr.read_records(tmp_path / "d", name, schema=Ride)) == expected
    assert sr.verify(tmp_path / "d").ok
    with pytest.raises(sr.DuplicateKeyError):
        sr.write([ride(9)], tmp_path / "d", append=True)
    backwards = Ride(key="back", minute=[5, 3], speed=np.zeros((2, 2)), stops=[])
    with pytest.raises(sr.RecordError, match="expected times that ascend"):
        sr.write([backwards], tmp_path / "e", splits=starts, time="minute", straddling="cut")


@sr.record
class Walk:
    key: str = sr.context(str, key=True)
    minute: np.ndarray = sr.feature_list("int32")


@sr.record
class Named(Walk):
    name: str = sr.context(str, default="", kw_only=True)


def test_pieces_without_numbers_are_rewritten_for_another_class(tmp_path: Path) -> None:
    """Pieces of a record share its key; a rewrite to a class of the same key keeps all of them."""
    walks = [Walk(f"w{number}", np.arange(10)) for number in range(3)]
    sr.write(walks, tmp_path / "d", splits={"a": ..., "b": 4}, time="minute", straddling="cut")
    sr.rewrite(tmp_path / "d", schema=Named)
    for name, minutes in (("a", range(4)), ("b", range(4, 10))):
        parts = list(sr.read_records(tmp_path / "d", name, schema=Named))
        assert [(part.key, part.minute.tolist()) for part in parts] == [(walk.key, [*minutes]) for walk in walks]
    with pytest.raises(sr.DuplicateKeyError):
        sr.rewrite(tmp_path / "d", schema=Named, on_duplicate="error")


def test_numbered_pieces_are_rewritten_with_their_numbers_only(tmp_path: Path) -> None:
    """A class without the numbers would leave several records of one key, which is refused."""
    old = sr.write(RIDES, tmp_path / "d", splits={"a": ..., "b": 20}, time="minute", straddling="cut")
    with pytest.raises(sr.DuplicateKeyError):
        sr.rewrite(tmp_path / "d", schema=Walk)
    assert sr.rewrite(tmp_path / "d", schema=Ride).records == old.records


def test_splits_without_records_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A split that a rule asks for and that gets no record is logged, but none that the caller names."""
    walks = [Walk(f"w{number}", np.arange(3)) for number in range(5)]
    sr.write(walks, tmp_path / "shares", splits={"train": 0.98, "eval": 0.02})
    sr.write(walks, tmp_path / "time", splits={"train": ..., "eval": 9}, time="minute")
    sr.write({"train": walks, "eval": []}, tmp_path / "named", schema=Walk)
    assert caplog.messages == [f"{tmp_path / name}: split 'eval' has no record" for name in ("shares", "time")]


def test_numbers_of_pieces_stay_unique(tmp_path: Path) -> None:
    """A piece never gets the number of another one of its key, in parts and appends too; else an error says so."""
    options: Any = {"splits": {"a": ..., "b": 20, "c": 40}, "time": "minute", "straddling": "cut"}
    minutes = np.arange(10, 50, dtype="int32")
    whole = Ride(key="r", minute=minutes, speed=np.zeros((40, 2)), stops=[])
    path = tmp_path / "d"

    def numbers(path: Path) -> list[tuple[str, int]]:
        return [(one.key, int(one.part)) for name in sr.info(path).splits for one in sr.read_records(path, name)]

    sr.write([whole], path, **options)
    assert numbers(path) == [("r", 0), ("r", 1), ("r", 2)]
    sr.write(sr.open(path, schema=Ride).all(), tmp_path / "same", **options)  # pieces that nothing cuts
    assert numbers(tmp_path / "same") == numbers(path)
    finer = {**options, "splits": {"a": ..., "b": 15, "c": 40}}
    with pytest.raises(sr.DuplicateKeyError, match=r"\(key 'r'\)"):
        sr.write(sr.open(path, schema=Ride).all(), tmp_path / "finer", **finer)
    sr.rewrite(path, drop=sr.open(path)["a"])
    for kind in ({}, {"workers": 1, "on_duplicate": "error"}):
        with pytest.raises(sr.DuplicateKeyError, match=r"has the key of a record that is in .* already"):
            sr.write([whole], path, append=True, **kind)
    sr.write_part([whole], path, 0, append=True)
    with pytest.raises(sr.DuplicateKeyError, match="is in part 0 and in"):
        sr.commit(path, append=True)
    assert sr.write([whole], path, append=True, on_duplicate="first").skipped == 2
    assert sorted(numbers(path)) == [("r", 0), ("r", 1), ("r", 2)]
    assert sr.compact(path).records == 3


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"stratify": "label"}, "stratify needs splits with shares"),
    ({"splits": SHARES, "stratify": "lable"}, "no attribute 'lable'"),
    ({"splits": SHARES, "stratify": 3}, "stratify: expected the name"),
    ({"splits": SHARES, "time": "day"}, "expected the time from which on each split is"),
    ({"splits": {"a": ..., "b": "2027", "c": ...}, "time": "day"}, "expected the time from which on each split is"),
    ({"splits": {"a": ..., "b": "soon"}, "time": "day"}, "expected a time as datetime64"),
    ({"splits": {"a": ..., "b": "2027", "c": "2026"}, "time": "day"}, "times that ascend"),
    ({"splits": {"a": ..., "b": 3}, "time": "label"}, "expected a field of times or numbers"),
    ({"splits": {"a": ..., "b": 3}, "time": 3}, "time: expected the name of a field"),
    ({"splits": {"a": ..., "b": 3}, "time": "day", "stratify": "label"}, "stratify does not go with time"),
    ({"splits": SHARES, "end": "left"}, "end needs time"),
    ({"splits": SHARES, "straddling": "drop"}, "straddling needs time"),
    ({"splits": IN_TIME, "time": "day", "straddling": "halve"}, "straddling: expected 'error', 'drop' or 'cut'"),
    ({"splits": IN_TIME, "time": "day", "straddling": "cut"}, "needs a time for each step"),
    (
        {"splits": {"a": ..., "b": 3}, "time": "minutes", "end": "left", "straddling": "cut"},
        "needs a time for each step",
    ),
    ({"splits": IN_TIME, "time": "left", "end": "day"}, "expected an end from .* on, got"),
]


@pytest.mark.parametrize(("options", "message"), WRONG, ids=[message for _, message in WRONG])
def test_rules_that_make_no_sense(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    """They are refused with what would do, and nothing is written."""
    with pytest.raises((sr.OptionError, sr.SchemaError, sr.RecordError), match=message):
        sr.write(VISITS[:20], tmp_path / "d", **options)
    assert not (tmp_path / "d").exists()


def test_times_say_the_split(tmp_path: Path) -> None:
    """Of splits in time nobody names the split of a record."""
    with (
        pytest.raises(sr.OptionError, match="do not name one"),
        sr.Writer(tmp_path / "d", Visit, splits=IN_TIME, time="day") as writer,
    ):
        writer.write(VISITS[0], split="train")


def test_shares_cannot_be_appended(tmp_path: Path) -> None:
    """The error says whether the dataset has no splits, or splits without shares."""
    sr.write(VISITS[:10], tmp_path / "plain")
    sr.write({"eval": VISITS[:10]}, tmp_path / "named")
    for name, message in {"plain": "has no splits", "named": "has splits that were named record by record"}.items():
        with pytest.raises(sr.OptionError, match=f"append=True: the dataset {message}; leave splits= out"):
            sr.write(VISITS[10:20], tmp_path / name, append=True, splits={"train": 0.5, "eval": 0.5})
