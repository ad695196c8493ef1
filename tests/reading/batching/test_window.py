"""`Window` against `tf.data.Dataset.window`, record by record."""

import datetime as dt
import itertools
from pathlib import Path

import attrs
import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_records import as_numpy, assert_resumes_exactly, assert_same, only, trace_of, written

import seqrecorder as sr
from seqrecorder.reading.batching.window import _RECORDS, Window

LENGTHS = [5, 0, 12, 1, 3, 4, 9, 0, 2, 7, 8, 1, 30, 6]
LISTS = ("x", "word", "flag")
EMPTY = [0] * _RECORDS  # as many records as are planned together, without a window in them


def starts_of(length, options, times=None):
    """Return where windows start: walk along the record, and look at each start."""
    starts = []
    known = 0 if options.future else options.gap + options.horizon
    if times is not None:
        return starts_in_span(length, options, times)
    for start in range(0, length, options.distance):
        last = start + (options.length + known - 1) * options.stride
        if (options.tail == "drop" or options.pad == "start") and last >= length:
            if options.pad == "start" and not starts and length > known * options.stride:
                starts.append(length - 1 - (options.length + known - 1) * options.stride)
            break
        if options.horizon and not options.future and start + (options.length + options.gap) * options.stride >= length:
            break  # nothing to forecast
        starts.append(start)
        if options.tail == "pad" and last >= length - 1:
            break
    return starts


def has_ended(options, times):
    """Return whether the next step would be before `since`, even at the widest distance of the steps."""
    gaps = [after - before for before, after in itertools.pairwise(times)]
    return options.future and options.since is not None and bool(gaps) and times[-1] + max(gaps) < options.since


def starts_in_span(length, options, times):
    """Return where windows start whose horizon begins in a span, or whose first new step does: walk from the first."""
    width, gap = options.length * options.stride, options.gap * options.stride
    front = options.stride - width if options.pad == "start" else 0
    if has_ended(options, times):
        return []

    def judged(start):  # the step that is to be in the span
        if options.horizon:
            return start + width + gap
        return next(
            at
            for at in range(start, start + width, options.stride)
            if at > start + width - options.stride - options.distance
        )

    def last(start):
        more = gap + options.horizon * options.stride if not options.future else 0
        return start + width + more - options.stride

    if options.since is not None:
        ahead = (start for start in range(front, length + 1) if judged(start) >= (times < options.since).sum())
        start = next(ahead, length)
    else:
        start = max(front, min(0, length - 1 - last(0)))
    starts = []
    while start < length and (judged(start) < length or options.future):
        unborn = (
            options.future and judged(start) >= length and (times < options.until).all() if options.until else False
        )
        if options.until is not None and not unborn and judged(start) >= (times < options.until).sum():
            break
        if (options.tail == "drop" or options.pad == "start") and last(start) >= length:
            break
        starts.append(start)
        if options.tail == "pad" and last(start) >= length - 1:
            break
        start += options.distance
    return starts


def padded(values, size, like):
    out = np.full((size, *like.shape[1:]), b"" if like.dtype == object else 0, like.dtype)
    out[: len(values)] = values
    return out


@sr.record
class Dated:
    key: str = sr.context(str, key=True)
    day: np.ndarray = sr.feature_list("datetime64[D]")
    x: np.ndarray = sr.feature_list("float32")


SPANNED = [
    *({"horizon": 2, "tail": tail} for tail in ("keep", "pad", "drop")),
    {"horizon": 3, "gap": 1, "stride": 2},
    {"horizon": 2, "future": True, "tail": "drop"},
    {"horizon": 2, "future": True},
    {"horizon": 2, "pad": "start"},
    {"horizon": 1, "gap": 2, "pad": "start", "stride": 2},
    {"horizon": 2, "future": True, "pad": "start"},
    {},
    {"stride": 2},
    {"tail": "drop"},
    {"pad": "start"},
]


def spanned_rows(records, options):
    """Return the key, the number, the steps and the horizon of each window: those that there are, counted from 1."""
    for record in records:
        for index, start in enumerate(starts_of(len(record.x), options, record.day)):
            end, stride = start + options.length * options.stride, options.stride
            after = range(end + options.gap * stride, end + (options.gap + options.horizon) * stride, stride)
            steps = [[at + 1 for at in part if 0 <= at < len(record.x)] for part in (range(start, end, stride), after)]
            yield record.key, index, *steps


def rows_in(dataset):
    for batch in dataset.as_numpy_iterator():
        after = batch.get("x_horizon", np.zeros((len(batch["x"]), 0)))
        for key, index, *steps in zip(batch["key"], batch["window_index"], batch["x"], after, strict=True):
            yield key.decode(), int(index), *(part[part > 0].tolist() for part in steps)


@pytest.fixture(scope="module")
def dated():
    random = np.random.default_rng(7)
    firsts = np.datetime64("2021-03-01") + random.integers(-6, 12, 16)
    lengths = zip(firsts, [*LENGTHS, 25, 11], strict=True)
    days = [first + np.cumsum(random.integers(0, 4, length)) for first, length in lengths]
    return [Dated(f"k{number}", day, np.arange(1, len(day) + 1)) for number, day in enumerate(days)]


@pytest.fixture(scope="module")
def dated_path(dated, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("spans") / "dated"
    sr.write(dated, path, shards=3)
    return path


SPANS = [("2021-03-08", None), (None, "2021-03-27"), ("2021-03-08", "2021-03-24")]


@pytest.mark.parametrize(
    ("number", "span"),
    all_at_night(
        itertools.product(range(len(SPANNED)), range(len(SPANS))),
        [(number, number % len(SPANS)) for number in range(len(SPANNED)) if number in (0, 4, 7, 12)],
    ),
)
def test_windows_of_a_span_are_those_made_one_by_one(dated, dated_path: Path, number: int, span: int) -> None:
    """All come whose horizon begins there, with the steps before it; `plan` and the cardinality count them."""
    (since, until), shift = SPANS[span], (1, 2, 5)[span]
    window = Window(4, shift=shift, time="day", since=since, until=until, batch_size=7, **SPANNED[number])
    bounds = {name: np.datetime64(day) for name, day in (("since", since), ("until", until)) if day}
    expected = sorted(spanned_rows(dated, attrs.evolve(window, **bounds)))
    dataset = sr.read(dated_path, batch=window)
    assert sorted(rows_in(dataset)) == expected
    assert int(dataset.cardinality()) == -(-len(expected) // 7)
    assert sr.plan(dated_path, None, window).batches == int(dataset.cardinality())
    if (number, span) in ((0, 0), (6, 0)):
        parts = [rows_in(sr.read(dated_path, batch=window, shard=(part, 2))) for part in range(2)]
        assert sorted(row for part in parts for row in part) == expected


def test_windows_of_a_span_are_moved_inside_it(dated, tmp_path: Path) -> None:
    """No horizon begins outside of it where windows are moved at random, shuffled and in further epochs."""
    sr.write(dated, tmp_path / "dated")
    span = {"time": "day", "since": np.datetime64("2021-03-08"), "until": np.datetime64("2021-03-16")}
    options = {"batch": Window(3, shift=3, horizon=2, jitter=5, **span), "fields": ["key", "x"], "max_length": 20}
    drawn = list(rows_in(sr.read(tmp_path / "dated", shuffle=9, seed=3, epochs=4, **options)))
    starts = {key: [] for key, *_ in drawn}
    for key, _, _, after in drawn:
        starts[key].append(dated[int(key[1:])].day[int(after[0]) - 1])
    assert all(span["since"] <= day < span["until"] for days in starts.values() for day in days)
    assert len({day for days in starts.values() for day in days}) > 3
    assert "k14" not in starts, "it has more than 20 steps"


def test_jitter_moves_no_horizon_beyond_the_span(tmp_path: Path) -> None:
    """Steps after `until` are those of a later split: where no horizon reaches them, none is moved there."""
    day = np.datetime64("2021-01-01") + np.arange(100)
    sr.write([Dated("a", day, list(range(100)))], tmp_path / "dated")
    window = Window(10, horizon=5, shift=5, jitter=2, time="day", since=day[50], until=day[70], tail="drop")
    epochs = [
        batch["x_horizon"].numpy()[:, -1].tolist()
        for batch in sr.read(tmp_path / "dated", batch=window, fields=["x"], seed=1, epochs=40)
    ]
    assert {last for *_, last in epochs} == {67, 68, 69}
    assert {last for _, last, *_ in epochs} == {57, 58, 59, 60, 61}


@pytest.mark.nightly  # by day, windows of whole records resume
def test_windows_of_a_span_resume_exactly(dated, tmp_path: Path, stride: int) -> None:
    """A fresh iterator, restored, gives the whole remainder."""
    empty = [Dated(f"empty{number}", [], []) for number in range(2 * _RECORDS)]
    sr.write([*dated[:6], *empty[::2], *dated[6:11], *empty[1::2], *dated[11:]], tmp_path / "dated")
    window = Window(3, shift=2, horizon=1, time="day", since="2021-03-12", batch_size=4)
    build = lambda: sr.read(tmp_path / "dated", batch=window, fields=["x"], shuffle=5, seed=1, epochs=2)  # noqa: E731
    assert_resumes_exactly(build, tmp_path, stride)


TIMES = {
    "datetime64[ns]": "2021-03-05T00:00:00",
    "datetime64[s]": np.datetime64("2021-03-05", "D"),
    "datetime64[h]": dt.date(2021, 3, 5),
    "datetime64[D]": dt.datetime(2021, 3, 5),  # noqa: DTZ001
    "int64": 18691,
    "uint64": 18691,
    "float64": 18690.5,
}
STEPS = {"all": slice(None), "from the third": slice(3, None), "every other": slice(None, None, 2)}


@pytest.mark.parametrize(
    ("dtype", "steps"),
    all_at_night(
        itertools.product(TIMES, STEPS),
        [
            *((dtype, "all") for dtype in ("datetime64[ns]", "uint64")),
            ("datetime64[h]", "from the third"),
            ("float64", "every other"),
        ],
    ),
)
def test_a_span_is_of_any_times(tmp_path: Path, dtype: str, steps: str) -> None:
    """Dates in each unit, numbers, texts and objects; steps that `read` leaves out do not count."""
    record = sr.record(
        type("Other", (), {"__annotations__": {}, "t": sr.feature_list(dtype), "x": sr.feature_list("int64")})
    )
    days = np.arange("2021-03-01", "2021-03-11", dtype="datetime64[D]")
    times = days.astype(dtype) if dtype.startswith("date") else days.astype("int64").astype(dtype)
    sr.write([record(times, np.arange(10))], tmp_path / "data")
    window = Window(2, shift=1, horizon=1, time="t", since=TIMES[dtype])
    part = None if steps == "all" else STEPS[steps]
    [batch] = sr.read(tmp_path / "data", batch=window, fields=["x"], steps=part)
    assert batch["x_horizon"].numpy().ravel().tolist() == [n for n in range(10)[STEPS[steps]][2:] if n >= 4]
    chosen = sr.open(tmp_path / "data").all()[[0, 0, 0]]
    assert sr.plan(chosen, window).rows == 18


def test_spans_that_make_no_sense(dated, tmp_path: Path) -> None:
    """An error says what there should be, and what there is; series that were cut have nothing to look back on."""
    sr.write(dated, tmp_path / "dated")
    sr.write(
        [record for record in dated if len(record.x)],
        tmp_path / "cut",
        splits={"train": ..., "eval": "2021-03-12"},
        time="day",
        straddling="cut",
    )
    sr.write(
        [
            Dated("a", days := np.arange(3).astype("datetime64[D]"), days.astype("f4")),
            Dated("b", days[::-1], days.astype("f4")),
        ],
        tmp_path / "backwards",
    )
    for options, message in (({"time": "day"}, "goes with since"), ({"since": "2021-03-08"}, "goes with since")):
        with pytest.raises(sr.OptionError, match=message):
            Window(2, **options)
    for path, options, message in (
        ("dated", {"time": "key", "since": "2021-03-08"}, "expected a field of times"),
        ("dated", {"time": "day", "since": "NaT"}, "since: expected a time as"),
        ("dated", {"time": "day", "until": 3}, "until: expected a time as"),
        ("dated", {"time": "day", "until": "2021-03-08T12:00"}, "until: expected a time as"),
        ("cut", {"time": "day", "since": "2021-03-12"}, "series of .* were cut where its splits begin"),
        ("backwards", {"time": "day", "since": "1970-01-01"}, "record 1: field 'day': expected times that ascend"),
        ("dated", {"time": "day", "since": "2031-03-08"}, "expected an epoch of a batch or more"),
    ):
        with pytest.raises((sr.OptionError, sr.RecordError), match=message):
            sr.read(tmp_path / path, "eval" if path == "cut" else None, batch=Window(2, horizon=1, **options))
    whole = sr.open(tmp_path / "dated").all().where(lambda record: len(record.x) > 0)
    fast = {"x": sr.feature_list("int8"), "t": sr.feature_list("float64", align="t", per_step=3)}
    sr.write([sr.record(type("Fast", (), fast))(x=[1], t=[1, 2, 3])], tmp_path / "fast")
    with pytest.raises(sr.OptionError, match="time: expected one time for each step that is cut, got 3 in 't'$"):
        sr.read(tmp_path / "fast", batch=Window(1, time="t", since=0))
    parts = whole.folds(2, time="day", straddling="cut")[0]
    assert len(list(sr.read(parts[0], batch=Window(2, horizon=1, time="day", until="2021-03-12")))) > 0
    with pytest.raises(sr.OptionError, match="were cut where its splits begin"):
        sr.read(parts[1], batch=Window(2, horizon=1, time="day", since="2021-03-12"))
    with pytest.raises(sr.OptionError, match="batch: Window"):
        sr.batch(tf.data.Dataset.from_tensors({"x": [1]}), Window(2, time="x", since=1))


def row_of(number, length, start, index, options):
    record = trace_of(number, length)
    end = start + options.length * options.stride
    row = {"key": np.array(record.key.encode(), object), "weight": np.float32(record.weight)}
    for name in LISTS:
        values = np.asarray(getattr(record, name), object if name == "word" else None)
        steps = [at for at in range(start, end, options.stride) if 0 <= at < length]
        row[name] = padded(values[steps], options.length, values)
        if start < 0:
            row[name] = np.roll(row[name], options.length - len(steps), axis=0)
        if options.horizon:
            after = values[end + options.gap * options.stride :: options.stride][: options.horizon]
            row[f"{name}_horizon"] = padded(after, options.horizon, values)
            row["horizon_length"] = np.int64(len(after))
    row["window_index"] = np.int64(index)
    row["sequence_length"] = np.int64(sum(0 <= at < length for at in range(start, end, options.stride)))
    return row


def slow(lengths, order, options):
    """Return the batches, made window by window."""
    rows = [
        row_of(number, lengths[number], start, index, options)
        for number in order
        for index, start in enumerate(starts_of(lengths[number], options))
    ]
    batches = [rows[at : at + options.batch_size] for at in range(0, len(rows), options.batch_size)]
    if options.drop_remainder:
        batches = [batch for batch in batches if len(batch) == options.batch_size]
    return [{name: np.stack([row[name] for row in batch]) for name in batch[0]} for batch in batches]


def windows_in(batches):
    return [pair for batch in batches for pair in zip(batch["key"], batch["window_index"].tolist(), strict=True)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(LENGTHS, tmp_path_factory.mktemp("window") / "traces")


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(Window(4, batch_size=5), marks=pytest.mark.nightly),
        Window(4, stride=2, batch_size=5),
        pytest.param(Window(3, stride=2, shift=1, batch_size=4, horizon=2), marks=pytest.mark.nightly),
        pytest.param(Window(3, batch_size=4, tail="drop", drop_remainder=True), marks=pytest.mark.nightly),
        pytest.param(Window(3, shift=1, batch_size=4, tail="drop", horizon=2), marks=pytest.mark.nightly),
        pytest.param(Window(3, shift=2, batch_size=4, tail="pad"), marks=pytest.mark.nightly),
        Window(2, stride=2, shift=5, batch_size=100, tail="pad", horizon=1),
        Window(50, batch_size=3),
        pytest.param(Window(12, batch_size=3, tail="drop"), marks=pytest.mark.nightly),
        pytest.param(Window(1, shift=1, batch_size=1, tail="drop", horizon=1), marks=pytest.mark.nightly),
        pytest.param(Window(3, stride=2, shift=1, batch_size=4, horizon=2, gap=1), marks=pytest.mark.nightly),
        pytest.param(Window(2, shift=1, batch_size=4, tail="drop", horizon=1, gap=3), marks=pytest.mark.nightly),
        Window(3, shift=2, batch_size=4, horizon=2, gap=1, future=True),
        Window(4, shift=1, batch_size=4, tail="drop", horizon=2, future=True),
        Window(6, shift=2, stride=2, batch_size=4, horizon=2, pad="start"),
        pytest.param(Window(6, shift=1, batch_size=4, horizon=2, future=True, pad="start"), marks=pytest.mark.nightly),
    ],
    ids=repr,
)
def test_batches_are_those_made_window_by_window(corpus: Path, options: Window) -> None:
    """Every tensor of every batch is the same, and their number is known."""
    dataset = sr.read(corpus, batch=options)
    expected = slow(LENGTHS, range(len(LENGTHS)), options)
    assert_same(dataset, expected)
    assert int(dataset.cardinality()) == len(expected)
    rows = options.batch_size if options.drop_remainder else None
    assert dataset.element_spec["x"].shape.as_list() == [rows, options.length, 2]


@pytest.mark.parametrize("examples", [5, pytest.param(20, marks=pytest.mark.nightly)])
def test_windows_are_those_of_tf_data(examples: int) -> None:
    """`keep` and `drop` give as many windows as `Dataset.window`, and `pad` those until the end is reached.

    With a horizon those are left out that end before it.
    """

    @settings(max_examples=examples, deadline=None)
    @given(st.integers(0, 25), st.integers(1, 6), st.integers(1, 3), st.integers(1, 7), st.integers(0, 3))
    def check(length: int, size: int, stride: int, shift: int, horizon: int) -> None:
        assert_windows_are_those_of_tf_data(length, size, stride, shift, horizon)

    check()


def assert_windows_are_those_of_tf_data(length: int, size: int, stride: int, shift: int, horizon: int) -> None:
    counts = {}
    for tail in ("keep", "drop", "pad"):
        options = Window(size, stride=stride, shift=shift, horizon=horizon, tail=tail)
        starts = starts_of(length, options)
        assert options.counts(np.array([length]), np).tolist() == [len(starts)]
        assert options.counts(tf.constant([length], tf.int64), tf).numpy().tolist() == [len(starts)]
        counts[tail] = len(starts)
    for more in ({"pad": "start"}, {"pad": "start", "future": horizon > 0}, {"tail": "drop", "future": horizon > 0}):
        options = Window(size, stride=stride, shift=shift, horizon=horizon, **more)
        starts = starts_of(length, options)
        assert options.counts(np.array([length]), np).tolist() == [len(starts)]
        assert options.counts(tf.constant([length], tf.int64), tf).numpy().tolist() == [len(starts)]
    for tail, drop in (("keep", False), ("drop", True)):
        windows = tf_data_windows(length, size + horizon, shift, stride, drop=drop)
        assert counts[tail] == sum(horizon == 0 or len(window) > size for window in windows)
    assert counts["drop"] <= counts["pad"] <= counts["keep"]


def tf_data_windows(length, size, shift, stride, *, drop):
    windows = tf.data.Dataset.range(length).window(size, shift, stride, drop_remainder=drop)
    return [list(window.as_numpy_iterator()) for window in windows]


def test_contents_are_those_of_tf_data(corpus: Path) -> None:
    """The simulation of these tests means by size, shift and stride what `Dataset.window` does."""
    (batch,) = sr.read(corpus, batch=Window(4, stride=3, shift=2, batch_size=1000), fields=["x"]).as_numpy_iterator()
    got = [x[:steps, 0].tolist() for x, steps in zip(batch["x"], batch["sequence_length"], strict=True)]
    expected = [
        trace_of(number, length).x[window, 0].tolist()
        for number, length in enumerate(LENGTHS)
        for window in tf_data_windows(length, 4, 2, 3, drop=False)
    ]
    assert got == expected


def test_batches_go_on_over_many_windows_of_records(tmp_path: Path) -> None:
    """Batches go on from records held together to the next as if all were held together."""
    lengths = EMPTY + EMPTY + np.random.default_rng(3).integers(0, 9, 2 * _RECORDS + 88).tolist()
    options = Window(4, shift=3, batch_size=17)
    path = written(lengths, tmp_path / "traces")
    dataset = sr.read(path, batch=options, fields=["key", "x"])
    assert_same(dataset, only(dataset.element_spec, slow(lengths, range(len(lengths)), options)))


@pytest.mark.parametrize("empty", [EMPTY, pytest.param([], marks=pytest.mark.nightly)], ids=["many", "few"])
def test_shuffled_epochs_hold_every_window_once(tmp_path: Path, empty: list[int]) -> None:
    """Windows of different records mix; each epoch has an order of its own, the same for the same seed."""
    options = Window(4, shift=2, batch_size=7, drop_remainder=False)
    lengths = [*LENGTHS[:5], *empty, *LENGTHS[5:10], *empty, *LENGTHS[10:]]
    path = written(lengths, tmp_path / "traces")

    def build(**more):
        return sr.read(path, batch=options, shuffle=20, seed=5, epochs=3, **more)

    batches = [as_numpy(batch) for batch in build()]
    plain = windows_in(slow(lengths, range(len(lengths)), options))
    got = windows_in(batches)
    epochs = [got[at : at + len(plain)] for at in range(0, len(got), len(plain))]
    assert [sorted(epoch) for epoch in epochs] == [sorted(plain)] * 3
    assert len({tuple(epoch) for epoch in epochs}) == 3
    first = [index for _, index in epochs[0]]
    assert first != sorted(first), "windows of a record do not come in turn"
    again = build(fields=["key", "x"])
    assert_same(again, only(again.element_spec, batches))
    for batch in batches:
        for row, (key, index) in enumerate(zip(batch["key"], batch["window_index"], strict=True)):
            number = int(key[1:])
            expected = row_of(number, lengths[number], index * 2, index, options)
            assert_same(
                [{name: value[row : row + 1] for name, value in batch.items()}],
                [{name: value[np.newaxis] for name, value in expected.items()}],
            )


@pytest.mark.parametrize("shuffle", [pytest.param(0, marks=pytest.mark.nightly), 20])
def test_resumes_exactly_at_every_batch(tmp_path: Path, shuffle: int, stride: int) -> None:
    """A fresh iterator, restored, gives the whole remainder: inside windows, at their ends, and between epochs."""
    path = written([5, *EMPTY, 9, 1, *EMPTY, 4], tmp_path / "traces")
    options = {"batch": Window(3, shift=2, batch_size=3), "fields": ["key", "x"], "shuffle": shuffle}
    assert_resumes_exactly(lambda: sr.read(path, seed=1, epochs=2, **options), tmp_path, stride)


def test_fields_that_may_be_missing(tmp_path: Path) -> None:
    """A feature list that is None gives padding beside the others, and presence is repeated for each window."""

    @sr.record
    class Pair:
        x: np.ndarray = sr.feature_list("int64")
        y: np.ndarray | None = sr.feature_list("float64", optional=True, default=None)
        note: str | None = sr.context(str, optional=True, default=None)

    records = [Pair([1, 2, 3], [0.1, 0.2, 0.3], "a"), Pair([4, 5, 6]), Pair([7], [0.7])]
    sr.write(records, tmp_path / "pairs")
    (batch,) = sr.read(tmp_path / "pairs", batch=Window(2)).as_numpy_iterator()
    assert batch["x"].tolist() == [[1, 2], [3, 0], [4, 5], [6, 0], [7, 0]]
    assert batch["y"].tolist() == [[0.1, 0.2], [0.3, 0], [0, 0], [0, 0], [0.7, 0]]
    assert batch["y_present"].tolist() == [True, True, False, False, True]
    assert batch["note"].tolist() == [b"a", b"a", b"", b"", b""]
    assert batch["note_present"].tolist() == [True, True, False, False, False]
    assert list(batch)[:5] == ["x", "y", "y_present", "note", "note_present"]


STORED = {
    "bool": "packed",
    "uint8": "tensor",
    "uint64": "raw",
    "float16": "auto",
    "bfloat16": "raw",
    "float64": "auto",
    "complex64": "raw",
}


def test_any_dtype_is_cut(tmp_path: Path) -> None:
    """Steps of every dtype and storage come as `Pad` gives them."""
    sample = sr.record(
        type("Sample", (), {name: sr.feature_list(name, shape=(2,), storage=how) for name, how in STORED.items()})
    )
    values = np.arange(14).reshape(7, 2)
    sr.write([sample(*(values.astype(tf.as_dtype(name).as_numpy_dtype) for name in STORED))], tmp_path / "samples")
    (whole,) = sr.read(tmp_path / "samples", batch=sr.Pad(1))
    (batch,) = sr.read(tmp_path / "samples", batch=Window(3))
    for name in STORED:
        assert batch[name].dtype == whole[name].dtype
        got = tf.reshape(batch[name], [9, 2])[:7]
        np.testing.assert_array_equal(got, whole[name][0], err_msg=name)


def record_classes():
    @sr.record
    class Ragged:
        x: np.ndarray = sr.feature_list("int64")
        bad: list = sr.feature_list("int64", shape=(None,))

    @sr.record
    class Sparse:
        x: np.ndarray = sr.feature_list("int64")
        bad: object = sr.context("float32", sparse=10)

    @sr.record
    class Freed:
        x: np.ndarray = sr.feature_list("int64")
        bad: np.ndarray = sr.feature_list("int64", align=None)

    @sr.record
    class SparseList:
        x: np.ndarray = sr.feature_list("int64")
        bad: list = sr.feature_list("float32", sparse=10)

    return (
        (Ragged([1, 2, 3], [[1], [], [2]]), "is ragged and cannot be cut"),
        (Sparse([1, 2, 3], sr.SparseVector([1], [2.0], 10)), "is sparse, and Window takes only dense context fields"),
        (SparseList([1, 2, 3], [{1: 2.0}] * 3), "is sparse and cannot be cut"),
        (Freed([1, 2, 3], [1]), "has lengths of its own"),
    )


@pytest.mark.parametrize(("record", "message"), record_classes(), ids=["ragged", "sparse", "sparse list", "freed"])
def test_fields_that_cannot_be_cut(tmp_path: Path, record: object, message: str) -> None:
    """They are refused by name, with the way out, which works."""
    sr.write([record], tmp_path / "bad")
    with pytest.raises(sr.OptionError, match=rf"Window: field 'bad' {message}.*leave it out: fields=\['x'\]"):
        sr.read(tmp_path / "bad", batch=Window(2))
    (batch,) = sr.read(tmp_path / "bad", batch=Window(2), fields=["x"])
    assert batch["x"].numpy().tolist() == [[1, 2], [3, 0]]


def test_sparse_context_fields_that_are_read_as_dense(tmp_path: Path) -> None:
    """They are repeated as other context fields are, and zero in rows without a record."""

    @sr.record
    class Dense:
        x: np.ndarray = sr.feature_list("int64")
        bag: object = sr.context("float32", sparse=3, dense=True)

    sr.write([Dense([1, 2, 3], {1: 2.0}), Dense([4], {0: 5.0})], tmp_path / "dense")
    first, second = [0, 2, 0], [5, 0, 0]
    for strategy, expected in (
        (Window(2, batch_size=9), [first, first, second]),
        (sr.Unroll(2, 2), [first, second, first, [0, 0, 0]]),
        (sr.Pack(4, 1), [[first, second]]),
    ):
        got = np.concatenate([batch["bag"] for batch in sr.read(tmp_path / "dense", batch=strategy)])
        np.testing.assert_array_equal(got, expected, err_msg=str(strategy))


def test_fields_without_steps(corpus: Path) -> None:
    """Context fields alone cannot be cut."""
    with pytest.raises(sr.OptionError, match="expected a feature list, .* among the read fields of Trace"):
        sr.read(corpus, batch=Window(2), fields=["key"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Window(0), "length: expected an int of 1 or more, got 0"),
        (lambda: Window(2, stride=0), "stride: expected an int of 1 or more, got 0"),
        (lambda: Window(2, shift=0), "shift: expected an int of 1 or more, got 0"),
        (lambda: Window(2, horizon=-1), "horizon: expected an int of 0 or more, got -1"),
        (lambda: Window(2, batch_size=0), "batch_size"),
        (lambda: Window(2, tail="cut"), "tail: expected one of keep, pad, drop, got 'cut'"),
    ],
)
def test_options_that_make_no_sense(make: object, message: str) -> None:
    """An option that makes no sense is refused where it stands, by name."""
    with pytest.raises(sr.OptionError, match=message):
        make()


def test_names_that_clash(tmp_path: Path) -> None:
    """A field that has the name of another's horizon is refused, where there is a horizon."""

    @sr.record
    class Both:
        x: np.ndarray = sr.feature_list("int64")
        x_horizon: np.ndarray = sr.feature_list("int64")

    sr.write([Both([1, 2], [3, 4])], tmp_path / "both")
    with pytest.raises(sr.OptionError, match="field 'x_horizon', as Window names"):
        sr.read(tmp_path / "both", batch=Window(1, horizon=1))
    assert len(list(sr.read(tmp_path / "both", batch=Window(1)))) == 1


DRAWN = Window(3, shift=3, stride=2, batch_size=8, horizon=1, gap=1, jitter=2, max_windows=2)


def starts_drawn(batches):
    """Return, by record, the numbers and the first steps of its windows, in their order."""
    found: dict[int, list[tuple[int, int]]] = {}
    for batch in batches:
        for key, index, x in zip(batch["key"], batch["window_index"], batch["x"], strict=True):
            number = int(key[1:])
            found.setdefault(number, []).append((int(index), round(x[0, 0] * 1000) - 1000 * (number + 1)))
    return found


@pytest.mark.parametrize("shuffle", [pytest.param(0, marks=pytest.mark.nightly), 20])
def test_windows_are_drawn_anew_in_every_epoch(corpus: Path, shuffle: int) -> None:
    """No more than asked for, moved no further than asked for, as full as without; the same for the same seed."""
    options = {"batch": DRAWN, "fields": ["key", "x"], "shuffle": shuffle, "seed": 1}
    dataset = sr.read(corpus, epochs=20, **options)
    batches = [as_numpy(batch) for batch in dataset]
    assert int(dataset.cardinality()) == len(batches)
    each = len(batches) // 20
    epochs = [starts_drawn(batches[at : at + each]) for at in range(0, len(batches), each)]
    assert len({repr(sorted(epoch.items())) for epoch in epochs}) > 15
    assert_same(sr.read(corpus, **options), batches[:each])
    seen = set()
    for epoch in epochs:
        for number, length in enumerate(LENGTHS):
            fixed, windows = starts_of(length, DRAWN), epoch.get(number, [])
            assert len(windows) == len({index for index, _ in windows}) == min(len(fixed), 2)
            for index, start in windows:
                last = max(fixed[index], length - 9)  # where a window, its gap and its horizon are full
                assert max(fixed[index] - 2, 0) <= start <= min(fixed[index] + 2, last)
                if number == 12:
                    seen.add((index, start - fixed[index]))
    assert {move for _, move in seen} == {-2, -1, 0, 1, 2}
    assert len({index for index, _ in seen}) > 3


def test_values_are_those_at_the_steps_that_were_drawn(corpus: Path) -> None:
    """A window that was moved has its steps, its gap and its horizon from there on."""
    for batch in sr.read(corpus, batch=DRAWN, seed=4).as_numpy_iterator():
        for row, (number, places) in enumerate(zip(map(int, (k[1:] for k in batch["key"])), batch["x"], strict=True)):
            start = round(places[0, 0] * 1000) - 1000 * (number + 1)
            expected = row_of(number, LENGTHS[number], start, batch["window_index"][row], DRAWN)
            assert_same(
                [{name: value[row : row + 1] for name, value in batch.items()}],
                [{name: value[np.newaxis] for name, value in expected.items()}],
            )


@pytest.mark.parametrize("shuffle", [pytest.param(0, marks=pytest.mark.nightly), 20])
def test_what_is_drawn_resumes_exactly(tmp_path: Path, shuffle: int, stride: int) -> None:
    """A restored iterator draws what the one that was saved would have drawn."""
    path = written([5, *EMPTY, 19, 1, *EMPTY, 14], tmp_path / "traces")
    options = {"batch": Window(3, shift=2, batch_size=3, jitter=3, max_windows=3), "fields": ["key", "x"]}
    assert_resumes_exactly(lambda: sr.read(path, shuffle=shuffle, seed=1, epochs=2, **options), tmp_path, stride)


@pytest.mark.nightly
def test_a_fixed_phase_no_longer_fools_a_model(tmp_path: Path) -> None:
    """Of weekly data, windows that all begin on a Monday teach nothing of other days; jitter lets a model see them."""

    @sr.record
    class Sales:
        day: np.ndarray = sr.feature_list("float32")

    week = np.array([1, 2, 4, 8, 16, 32, 64], np.float32)
    sr.write([Sales(np.tile(week, 30))], tmp_path / "sales")

    def fitted(jitter):
        options = Window(7, shift=7, horizon=1, tail="drop", batch_size=1000, jitter=jitter)
        read = sr.read(tmp_path / "sales", batch=options, seed=1, inputs="day", targets="day_horizon")
        ((x, y, _),) = read.as_numpy_iterator()
        return np.linalg.lstsq(x, y[:, 0, 0], rcond=None)[0]

    ((x, y, _),) = sr.read(
        tmp_path / "sales",
        batch=Window(7, shift=1, horizon=1, tail="drop", batch_size=1000),
        inputs="day",
        targets="day_horizon",
    ).as_numpy_iterator()
    wrong, right = (np.abs(x @ fitted(jitter) - y[:, 0, 0]).max() for jitter in (0, 3))
    assert right < 0.1
    assert wrong > 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"future": True}, "future: is about the horizon after a window"),
        ({"pad": "start", "tail": "pad"}, "leave one of them out"),
        ({"gap": 2}, "gap: is about the horizon after a window; give horizon, too"),
        ({"jitter": -1}, "jitter: expected an int of 0 or more"),
        ({"max_windows": 0}, "max_windows: expected an int of 1 or more"),
    ],
)
def test_draws_that_make_no_sense_are_refused(options, message) -> None:
    """Each with an error that names the option."""
    with pytest.raises(sr.OptionError, match=message):
        Window(4, **options)


def test_padding_at_the_front_weighs_nothing(tmp_path: Path) -> None:
    """The mask and the weights of a short record's window are of its last steps; a horizon is counted as ever."""

    @sr.record
    class Series:
        x: np.ndarray = sr.feature_list("float32")

    sr.write([Series([1, 2, 3]), Series(np.arange(10, 16))], tmp_path / "data")
    window = Window(4, shift=2, horizon=1, pad="start", mask_name="mask")
    [batch] = sr.read(tmp_path / "data", batch=window).as_numpy_iterator()
    assert batch["x"].tolist() == [[0, 0, 1, 2], [10, 11, 12, 13]]
    assert batch["mask"].tolist() == [[False, False, True, True], [True] * 4]
    assert batch["sequence_length"].tolist() == [2, 4]
    assert batch["x_horizon"].tolist() == [[3], [14]]
    [(_, _, weights)] = sr.read(tmp_path / "data", batch=window, inputs="x", targets="x").as_numpy_iterator()
    assert weights.tolist() == [[0, 0, 1, 1], [1, 1, 1, 1]]
    [(_, _, weights)] = sr.read(tmp_path / "data", batch=window, inputs="x", targets="x_horizon").as_numpy_iterator()
    assert weights.tolist() == [[1], [1]]


@pytest.mark.parametrize("pad", ["end", "start"])
def test_series_that_have_ended_are_not_forecast(tmp_path: Path, pad: str) -> None:
    """A window to forecast from is given where the next step may be at `since` or later, by the widest of the gaps."""

    @sr.record
    class Shop:
        name: str = sr.context(str, key=True)
        month: np.ndarray = sr.feature_list("datetime64[M]")

    first = np.datetime64("2019-01")
    lengths = {"open": 36, "late": 37, "closed": 35, "closed before": 20, "new": 1}
    sr.write([Shop(name, first + 36 - max(36, n) + np.arange(n)) for name, n in lengths.items()], tmp_path / "shops")
    window = sr.Window(6, horizon=3, shift=1, time="month", since="2022-01", future=True, tail="drop", pad=pad)
    names = [name.decode() for batch in sr.read(tmp_path / "shops", batch=window) for name in batch["name"].numpy()]
    # One month is no distance: `new` may go on.
    assert set(names) == {"open", "late"} | ({"new"} if pad == "start" else set())
    assert sr.plan(tmp_path / "shops", "train", window).rows == len(names)


def test_horizons_in_the_future_are_no_inputs(tmp_path: Path) -> None:
    """They would be zeros. With the steps to come written, and NaN for what is forecast, they are what is known."""

    @sr.record
    class Shop:
        month: np.ndarray = sr.feature_list("datetime64[M]")
        sales: np.ndarray = sr.feature_list("float32")
        price: np.ndarray = sr.feature_list("float32")

    month = np.datetime64("2021-01") + np.arange(15)
    sales = np.where(np.arange(15) < 12, np.arange(15), np.nan)
    for name, steps in (("past", 12), ("ahead", 15)):
        sr.write([Shop(month[:steps], sales[:steps], np.full(steps, 7.0))], tmp_path / name)
    options = {"inputs": ("sales", "price_horizon"), "targets": "month_horizon", "missing": "mask"}
    window = sr.Window(6, horizon=3, shift=1, time="month", since="2022-01", tail="drop")
    with pytest.raises(sr.OptionError, match="'price_horizon' is unknown where a horizon lies in the future"):
        sr.read(tmp_path / "past", batch=attrs.evolve(window, future=True), **options)
    [((_, price), *_)] = sr.read(tmp_path / "ahead", batch=window, **options)
    assert price.numpy().tolist() == [[7, 7, 7]]
