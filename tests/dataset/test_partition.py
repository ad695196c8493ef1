"""Splits and folds of selections: groups stay whole, strata come near their shares, times do not mix."""

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import seqrecorder as sr
from seqrecorder.dataset.folds_and_subsets import _deal_groups, _deal_records
from seqrecorder.dataset.selection import rows_of


@sr.record
class Visit:
    key: str = sr.context(str, key=True)
    speaker: str | None = sr.context(str, optional=True)
    label: int = sr.context("int64")
    start: np.datetime64 = sr.context("datetime64[D]")
    end: np.datetime64 = sr.context("datetime64[D]")
    stamps: np.ndarray = sr.feature_list("int64")


DAY = np.datetime64("2026-01-01")
RANDOM = np.random.default_rng(0)
RECORDS = [
    Visit(
        f"v{i}",
        f"s{RANDOM.integers(0, 24)}",
        int(RANDOM.random() < 0.2),
        start=DAY + i,
        end=DAY + i + int(i % 5 == 4) * 3,
        stamps=[i, i + 1],
    )
    for i in range(200)
]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> sr.Selection:
    path = tmp_path_factory.mktemp("partition") / "corpus"
    sr.write({"train": RECORDS[:120], "eval": RECORDS[120:]}, path, shards=2)
    return sr.open(path, schema=Visit).all()


def together(parts: list[sr.Selection], whole: sr.Selection) -> None:
    """Parts hold every record once, each in written order."""
    positions = [rows_of(part).array() for part in parts]
    assert sorted(np.concatenate(positions).tolist()) == list(range(len(whole)))
    assert all((np.diff(part) > 0).all() for part in positions)


def test_shares_are_met_to_the_record(everything: sr.Selection) -> None:
    """Without groups each part has its share, of each stratum too, and what is missed is told."""
    parts = everything.split({"train": 0.8, "eval": 0.15, "test": 0.05}, stratify="label", seed=3)
    assert list(parts) == ["train", "eval", "test"]
    together(list(parts.values()), everything)
    counts = {name: Counter(record.label for record in part) for name, part in parts.items()}
    labels = Counter(record.label for record in RECORDS)
    for name, share in parts.shares.wanted.items():
        assert abs(len(parts[name]) - share * 200) < 1
        for label, total in labels.items():
            assert abs(counts[name][label] - share * total) < 2
            assert parts.shares.strata[label][name] == pytest.approx(counts[name][label] / total)
    assert parts.shares.missed < 2 / min(labels.values())
    assert parts == everything.split({"train": 0.8, "eval": 0.15, "test": 0.05}, stratify="label", seed=3)
    assert parts != everything.split({"train": 0.8, "eval": 0.15, "test": 0.05}, stratify="label", seed=4)
    assert len(everything.split({"a": 1.0, "b": 0.0})["b"]) == 0


def test_groups_stay_whole(everything: sr.Selection) -> None:
    """A group is in one part only, and the shares are missed by less than the largest group."""
    largest = max(Counter(record.speaker for record in RECORDS).values())
    parts = everything.split({"train": 0.7, "eval": 0.3}, by="speaker")
    speakers = [{record.speaker for record in part} for part in parts.values()]
    assert not speakers[0] & speakers[1]
    together(list(parts.values()), everything)
    assert parts.shares.missed * 200 < largest
    by_callable = everything.split({"train": 0.7, "eval": 0.3}, by=lambda record: record.speaker)
    assert by_callable == parts


def test_chunks_of_a_record_stay_together(tmp_path: Path) -> None:
    """Without `by=`, parts and folds take the chunks of a record as a group, as splits do that are written."""

    @sr.record
    class Take:
        name: str = sr.context(str, key=True)
        label: int = sr.context("int64")
        number: int = sr.context("int64", chunk=True, default=0)

        def split(self) -> Any:
            return (attrs.evolve(self, number=number) for number in range(4))

    sr.write([Take(f"t{n}", n % 2) for n in range(20)], tmp_path / "takes")
    takes = sr.open(tmp_path / "takes").all()
    for stratify in (None, "label"):
        parts = takes.split({"a": 0.5, "b": 0.5}, stratify=stratify)
        for one, other in [tuple(parts.values()), *takes.folds(4, stratify=stratify)]:
            assert not {take.name for take in one} & {take.name for take in other}
            assert len(one) + len(other) == 80


def test_folds_hold_each_record_out_once(everything: sr.Selection) -> None:
    """Folds by group and stratum part each speaker's records from the others, and labels as near as that goes."""
    folds = everything.folds(5, by="speaker", stratify="label", seed=1)
    assert len(folds) == 5
    together([held for _, held in folds], everything)
    for fit, held in folds:
        together([fit, held], everything)
        assert not {record.speaker for record in fit} & {record.speaker for record in held}
    assert folds.shares.missed < 0.1
    assert folds == everything.folds(5, by="speaker", stratify="label", seed=1)
    plain = everything[:101].folds(4)
    assert sorted(len(held) for _, held in plain) == [25, 25, 25, 26]


def test_parts_in_time(everything: sr.Selection) -> None:
    """Parts in time lie wholly before and after; what lies on both sides is refused or left out, and counted."""
    at = {"train": ..., "eval": "2026-03-02", "test": np.datetime64("2026-05-01")}
    with pytest.raises(sr.OptionError, match="lie on both sides of a time, such as record 59 of the selection"):
        everything.split(at=at, time="start", end="end")
    parts = everything.split(at=at, time="start", end="end", straddling="drop")
    assert parts.shares.left_out == 2
    assert [record.key for record in parts["train"]] == [r.key for r in RECORDS if r.end < np.datetime64("2026-03-02")]
    assert min(record.start for record in parts["test"]) == np.datetime64("2026-05-01")
    assert sum(map(len, parts.values())) == 198
    by_steps = everything.split(at={"train": ..., "eval": 51}, time="stamps", straddling="drop")
    assert [len(part) for part in by_steps.values()] == [50, 149]
    assert [len(p) for p in everything.split(at={"a": ..., "b": "2026-01-03"}, time="start").values()] == [2, 198]


def test_folds_walk_forward(everything: sr.Selection) -> None:
    """With a time, what is fitted on lies wholly before what is held out, which follows on the one before."""
    folds = everything[::-1].folds(4, time="start", end="end", straddling="drop")
    assert [len(held) for _, held in folds] == [40, 40, 40, 40]
    for fit, held in folds:
        assert max(record.end for record in fit) < min(record.start for record in held)
    assert [len(fit) for fit, _ in folds] == [39, 79, 119, 159]
    assert sorted(r.key for _, held in folds for r in held) == sorted(r.key for r in RECORDS[40:])
    with pytest.raises(sr.OptionError, match="lie on both sides"):
        everything.folds(4, time="start", end="end")
    with pytest.raises(sr.OptionError, match=r"records begin at .*folds hold whole records"):
        everything.folds(4, time="label")


def test_folds_hold_groups_out_in_time(everything: sr.Selection) -> None:
    """With groups and a time, neither a group nor a moment is on both sides, and no record is held out twice."""
    folds = everything.folds(3, by=lambda visit: visit.label * 7 + int(visit.key[1:]) % 7, time="start", seed=1)
    held_out: list[str] = []
    for fit, held in folds:
        groups = [{visit.label * 7 + int(visit.key[1:]) % 7 for visit in part} for part in (fit, held)]
        assert fit
        assert held
        assert not groups[0] & groups[1]
        assert max(visit.start for visit in fit) < min(visit.start for visit in held)
        held_out += [visit.key for visit in held]
    assert len(held_out) == len(set(held_out))
    assert folds.shares.wanted.keys() == folds.shares.got.keys()
    with pytest.raises(sr.OptionError, match="ask for fewer folds, or give another seed"):
        everything.folds(4, by=lambda visit: int(visit.key[1:]) // 50, time="start")


@sr.record
class Stock:
    symbol: str = sr.context(str, key=True)
    day: np.ndarray = sr.feature_list("datetime64[D]")
    price: np.ndarray = sr.feature_list("float64", shape=(2,))
    words: list = sr.feature_list(str, shape=(None,))
    note: np.ndarray = sr.feature_list("int64", align=None)
    size: int | None = sr.context("int32", optional=True, default=None)


def stock(number: int, steps: int, later: int = 0) -> Stock:
    days = DAY + later + np.arange(steps) * (1 + number % 2)
    prices = np.arange(2 * steps).reshape(-1, 2) + number / 8
    return Stock(f"s{number}", days, prices, [["x"] * (n % 3) for n in range(steps)], [number] * 3, number or None)


def cut_by_hand(record: Stock, since: Any, until: Any) -> Stock:
    steps = [
        at for at, day in enumerate(record.day) if (since is None or day >= since) and (until is None or day < until)
    ]
    part = slice(steps[0], steps[-1] + 1) if steps else slice(0)
    return attrs.evolve(record, day=record.day[part], price=record.price[part], words=record.words[part])


@pytest.mark.parametrize("compression", [None, pytest.param("GZIP", marks=pytest.mark.nightly)])
def test_series_are_cut_into_parts(tmp_path: Path, compression: Any) -> None:
    """Each part has the steps of its time, as if they had been written so, whoever reads it."""
    stocks = [stock(0, 30), stock(1, 21, 3), stock(2, 4), stock(3, 5, 40)]
    sr.write(stocks, tmp_path / "d", compression=compression, shards=2)
    corpus = sr.open(tmp_path / "d", schema=Stock).all()
    at = {"train": ..., "eval": "2026-01-06", "test": np.datetime64("2026-01-20")}
    parts = corpus.split(at=at, time="day", straddling="cut")
    edges = [None, np.datetime64("2026-01-06"), np.datetime64("2026-01-20"), None]
    for (name, part), since, until in zip(parts.items(), edges[:-1], edges[1:], strict=True):
        cut = [record for record in (cut_by_hand(record, since, until) for record in stocks) if len(record.day)]
        assert list(part) == cut == list(sr.read_records(part)), name
        assert part.lengths().tolist() == [len(record.day) for record in cut]
        assert pickle.loads(pickle.dumps(part)) == part != corpus  # noqa: S301 - our own
        sr.write(cut, tmp_path / name)
        window = sr.Window(3, shift=2)
        for batch in (None, window):
            got, want = (sr.read(of, batch=batch, fields=["symbol", "price"]) for of in (part, tmp_path / name))
            for mine, other in zip(got, want, strict=True):
                assert all(np.array_equal(mine[field], other[field]) for field in other)
        assert sr.plan(part, sr.Pad(2)).steps == sr.plan(tmp_path / name, None, sr.Pad(2)).steps
        sr.write(part, tmp_path / f"{name} again")
        assert list(sr.read_records(tmp_path / f"{name} again", schema=Stock)) == cut
        means = [np.asarray(sr.stats(of).all["price"].mean) for of in (part, tmp_path / name)]
        assert np.array_equal(*means)
        assert [record.symbol for record in part.where(size=1)] == ["s1"] * any(record.size == 1 for record in cut)
        if compression is None:
            assert part[-1] == cut[-1] == part[cut[-1].symbol]
    assert parts["eval"].split(at={"a": ..., "b": "2026-01-10"}, time="day", straddling="cut")["b"][0].day[0] == DAY + 9
    assert "cut in time" in repr(parts["eval"])
    with pytest.raises(sr.OptionError, match="whole records"):
        sr.rewrite(tmp_path / "d", drop=parts["eval"])


def test_images_of_a_cut_record_keep_their_bytes(tmp_path: Path) -> None:
    """The parts of a record in time hold its JPEG files, which lose nothing by being decoded and encoded again."""

    @sr.record
    class Film:
        day: np.ndarray = sr.feature_list("datetime64[D]")
        frame: list[bytes] = sr.feature_list("uint8", shape=(8, 8, 3), storage="jpeg")

    pixels = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 3)).astype("u1")
    files = [tf.io.encode_jpeg(each, quality=30).numpy() for each in pixels]
    sr.write([Film(DAY + np.arange(4), files)], tmp_path / "films")
    [whole] = sr.read_records(tmp_path / "films")
    films = sr.open(tmp_path / "films").all()
    parts = films.split(at={"a": ..., "b": "2026-01-03"}, time="day", straddling="cut")
    for name, steps in (("a", slice(0, 2)), ("b", slice(2, 4))):
        [cut] = sr.read_records(parts[name])
        np.testing.assert_array_equal(np.asarray(cut.frame), np.asarray(whole.frame)[steps])


def test_series_are_cut_into_folds(tmp_path: Path) -> None:
    """Folds of series that start together cut them; all of the past is fitted on, and each step is held out once."""
    stocks = [stock(0, 60), stock(2, 60), stock(4, 45)]
    sr.write(stocks, tmp_path / "d")
    corpus = sr.open(tmp_path / "d").all()
    for more in ({}, {"straddling": "cut"}, {"straddling": "cut", "by": "symbol"}):
        folds = corpus.folds(3, time="day", **more)
        held = [day for _, future in folds for record in future for day in record.day.tolist()]
        for past, future in folds:
            first = min(record.day[0] for record in future)
            assert max(record.day[-1] for record in past) < first
            others = (
                stocks if "by" not in more else [each for each in stocks if each.symbol in {r.symbol for r in past}]
            )
            assert [len(r.day) for r in past] == [int((each.day < first).sum()) for each in others]
        first = min(folds[0][1][0].day)
        if "by" not in more:
            assert sorted(held) == sorted(day for each in stocks for day in each.day[each.day >= first].tolist())
    with pytest.raises(sr.OptionError, match="expected steps at 71 times or more"):
        corpus[[0]].folds(70, time="day", straddling="cut")


def test_rolling_origins(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The last origin leaves a horizon; each trains on what was before it, and windows forecast each step once."""
    stocks = [stock(0, 30), stock(2, 26, 4), stock(6, 0)]
    sr.write(stocks, tmp_path / "d")
    corpus = sr.open(tmp_path / "d").all()
    origins = sr.cutoffs(corpus, 3, time="day", horizon=4)
    assert [origin.since for origin in origins] == [DAY + 18, DAY + 22, DAY + 26]
    assert [origin.until for origin in origins] == [DAY + 22, DAY + 26, None]
    for origin in origins:
        assert max(record.day[-1] for record in origin.train) == origin.since - 1
        window = sr.Window(5, horizon=4, shift=4, time="day", since=origin.since, until=origin.until)
        [batch] = sr.read(corpus, batch=window, fields=["symbol", "day"])
        assert (batch["day_horizon"][:, 0] == (origin.since - np.datetime64(0, "D")).astype(int)).numpy().all()
        assert len(batch["symbol"]) == 2
    assert [text for text in caplog.messages if "which have no 'day'" in text] == 3 * [
        "time: left out 1 of 3 records, which have no 'day'"
    ]
    shifted = sr.cutoffs(corpus, 2, time="day", horizon=4, shift=1)
    assert [(origin.since, origin.until) for origin in shifted] == [(DAY + 25, DAY + 29), (DAY + 26, None)]
    for options, message in (
        ({"count": 8, "horizon": 4}, "8 origins need 33 distinct times or more in 'day', there are 30"),
        ({"count": 0, "horizon": 4}, "count: expected an int of 1 or more"),
        ({"count": 2, "horizon": 4, "time": "size"}, "expected a time for each step"),
        ({"count": 2, "horizon": 4, "selection": tmp_path}, "expected a selection"),
    ):
        with pytest.raises(sr.OptionError, match=message):
            sr.cutoffs(**{"selection": corpus, "time": "day", **options})


def test_results_show_themselves(everything: sr.Selection) -> None:
    """Parts and folds are short in a line; their shares are a table, and pickle."""
    parts = everything.split({"train": 0.5, "eval": 0.5}, stratify="label")
    folds = everything.folds(2)
    assert repr(parts) == "<Parts: train 100, eval 100>"
    assert repr(folds) == "<Folds: 100 + 100, 100 + 100>"
    assert str(parts.shares).splitlines()[0].split() == ["share", "train", "eval"]
    assert "missed by at most" in repr(folds.shares)
    for result in (parts, folds):
        assert "<table>" in result._repr_html_()
        again = pickle.loads(pickle.dumps(result))  # noqa: S301 - our own
        assert again == result
        assert again.shares == result.shares


def test_nothing_is_split(everything: sr.Selection) -> None:
    """Of no records parts are empty, and folds are refused as of too few."""
    nothing = everything[:0]
    for options in ({"shares": {"a": 0.5, "b": 0.5}, "stratify": "label"}, {"at": {"a": ..., "b": 3}, "time": "label"}):
        assert {name: len(part) for name, part in nothing.split(**options).items()} == {"a": 0, "b": 0}
    for straddling in (None, "cut", "drop"):
        with pytest.raises(sr.OptionError, match="2 folds in time need 3 records or more, there are 0"):
            nothing.folds(2, time="stamps", straddling=straddling)


@pytest.mark.parametrize(
    ("method", "arguments", "problem"),
    [
        ("split", {}, "expected shares"),
        ("split", {"shares": {"a": 0.5}}, "add up to"),
        ("split", {"shares": [0.5, 0.5]}, "expected shares by name"),
        ("split", {"shares": {"a/b": 1.0}}, "plain file name"),
        ("split", {"shares": {"a": 1.0}, "time": "start"}, "time does not go with shares"),
        ("split", {"shares": {"a": 0.5, "b": 0.5}, "by": "stamps"}, "one value per record"),
        ("split", {"shares": {"a": 0.5, "b": 0.5}, "by": 3}, "by: expected the name"),
        ("split", {"shares": {"a": 0.5, "b": 0.5}, "by": lambda _: []}, "told apart by their hash"),
        ("split", {"shares": {"a": 0.5, "b": 0.5}, "by": lambda _: 1}, "1 groups for 2 parts"),
        ("split", {"shares": {"a": 0.5, "b": 0.5}, "by": lambda _: None}, "no group"),
        ("split", {"shares": {"a": 1.0}, "seed": "x"}, "seed: expected an int"),
        ("split", {"at": {"a": 1, "b": 2}, "time": "label"}, "and ... for the first"),
        ("split", {"at": {"a": ..., "b": 2, "c": 1}, "time": "label"}, "times that ascend"),
        ("split", {"at": {"a": ..., "b": "x"}, "time": "start"}, "expected a time as datetime64"),
        ("split", {"at": {"a": ..., "b": "2026-01-01T00Z"}, "time": "start"}, r"got '2026-01-01T00Z' .*drop the zone"),
        ("split", {"at": {"a": ..., "b": 1}}, "expected the name of the field"),
        ("split", {"at": {"a": ..., "b": 1}, "time": "key"}, "field of times or numbers"),
        ("split", {"at": {"a": ..., "b": 1}, "time": "label", "by": "key"}, "by does not go with at"),
        ("split", {"at": {"a": ..., "b": 1}, "time": "label", "straddling": "cut"}, "straddling: expected"),
        ("split", {"at": {"a": ..., "b": "2026-02-01"}, "time": "end", "end": "start"}, "before it begins"),
        ("folds", {"count": 1}, "expected an int of 2 or more"),
        ("folds", {"count": 1000}, "1000 folds need as many records"),
        ("folds", {"count": 1000, "time": "start"}, "1000 folds in time need 1001 records"),
        ("folds", {"count": 2, "time": "start", "stratify": "label"}, "stratify does not go with time"),
        ("folds", {"count": 2, "end": "end"}, "end does not go with no time"),
    ],
)
def test_what_makes_no_sense_is_refused(
    everything: sr.Selection, method: str, arguments: dict[str, Any], problem: str
) -> None:
    """Every option that makes no sense is an OptionError that says what was expected."""
    with pytest.raises(sr.OptionError, match=problem):
        getattr(everything, method)(**arguments)


def test_what_is_unknown_to_group_by_is_refused(everything: sr.Selection) -> None:
    """A group's field that does not exist, and a function that fails, are named."""
    for method, more in (("split", {"shares": {"a": 0.5, "b": 0.5}}), ("folds", {"count": 2})):
        with pytest.raises(sr.SchemaError, match="^Visit has no field 'zz'"):
            getattr(everything, method)(by="zz", **more)
        with pytest.raises(sr.RecordError, match="^record 0: by: TypeError: no such thing"):
            getattr(everything, method)(by=failing, **more)
    with pytest.raises(sr.RecordError, match="^record 0: by: TypeError: no such thing"):
        sr.leakage({"a": everything[:1], "b": everything[1:]}, by=failing)


def failing(_: Any) -> Any:
    raise TypeError("no such thing")


def test_a_corpus_of_few_records(tmp_path: Path) -> None:
    """Nothing is split into nothing."""
    sr.write([], tmp_path / "corpus", schema=Visit)
    nothing = sr.open(tmp_path / "corpus").all()
    assert [len(part) for part in nothing.split({"a": 0.5, "b": 0.5}).values()] == [0, 0]
    assert [len(part) for part in nothing.split(at={"a": ..., "b": "2026-01-01"}, time="start").values()] == [0, 0]


@settings(max_examples=100, deadline=None)
@given(
    strata=st.lists(st.integers(0, 4), max_size=60),
    shares=st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(any),
)
def test_no_share_is_missed_by_more_than_is_said(strata: list[int], shares: list[int]) -> None:
    """In all, no share is missed by a record; in a stratum, none by two."""
    codes, targets = np.array(strata, np.int64), np.array(shares) / sum(shares)
    part = _deal_records(targets, codes, np.arange(codes.size).astype(np.uint64)[::-1], 5)
    for stratum in (*range(5), None):
        chosen = part if stratum is None else part[codes == stratum]
        missed = np.bincount(chosen, minlength=targets.size) - targets * chosen.size
        assert (abs(missed) < (1 if stratum is None else 2) + 1e-6).all()
        assert (np.bincount(chosen, minlength=targets.size)[targets == 0] == 0).all()


@settings(max_examples=100, deadline=None)
@given(sizes=st.lists(st.integers(1, 20), min_size=5, max_size=40), parts=st.integers(2, 5))
def test_shares_of_groups_are_missed_by_less_than_the_largest(sizes: list[int], parts: int) -> None:
    """Equal shares of groups are missed by less than the largest group, and no part is empty."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    ranks = np.arange(groups.size).astype(np.uint64)
    part = _deal_groups(np.full(parts, 1 / parts), groups, np.zeros_like(groups), ranks)
    counts = np.bincount(part[groups], minlength=parts)
    assert (counts > 0).all()
    assert (abs(counts - groups.size / parts) <= max(sizes)).all()


def test_parts_of_stratified_groups_are_equally_large() -> None:
    """Where strata leave a choice, the part that lacks records gets the group."""
    number = np.arange(500)
    part = _deal_groups(np.full(5, 0.2), number % 9, number % 6, number.astype(np.uint64))
    assert np.bincount(part).tolist() == [2, 2, 2, 2, 1]
