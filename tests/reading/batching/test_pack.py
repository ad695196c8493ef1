"""`Pack` against a slow, obvious packing of one sequence after the other."""

import functools
import operator

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slow_records import assert_resumes_exactly, assert_same

import seqrecorder as sr
from seqrecorder.errors import OptionError
from seqrecorder.reading.batching.pack import PLANNED, Pack, best_fit_rows, first_fit_rows, length_classes

LENGTHS = [5, 0, 12, 1, 3, 4, 9, 0, 2, 7, 8, 1, 11, 6, 2, 2, 10, 3, 12, 1, 1, 4, 6, 5]
MANY = LENGTHS * 45  # more than are planned together

VECTORS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
PIPELINES = settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))


@sr.record
class Speech:
    key: str = sr.context(str, key=True)
    x: np.ndarray = sr.feature_list("float64", shape=(2,))
    word: list = sr.feature_list(str)
    grade: np.ndarray = sr.context("float16", shape=(3,))
    flag: np.ndarray = sr.feature_list(bool)
    z: np.ndarray = sr.feature_list("complex64", storage="packed")
    note: str | None = sr.context(str, optional=True, default=None)
    code: np.ndarray | None = sr.feature_list("uint8", optional=True, default=None)


@functools.cache
def speech_of(number, length):
    """Return a record with genuine zeros, of which some lack optional fields."""
    steps = np.arange(length) + 100 * number
    return Speech(
        f"k{number}",
        np.stack([steps / 7, -steps * 0.0], 1),
        [f"w{step}" if step % 3 else "" for step in steps.tolist()],
        np.array([number, 0, -number], np.float16),
        steps % 2 == 1,
        (steps * (1 + 2j)).astype(np.complex64),
        note=None if number % 3 == 0 else f"n{number}",
        code=None if number % 4 == 1 else (steps % 251).astype(np.uint8),
    )


def written(lengths, path, shards=1):
    sr.write({"train": (speech_of(number, length) for number, length in enumerate(lengths))}, path, shards=shards)
    return path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return written(LENGTHS, tmp_path_factory.mktemp("pack") / "speeches", shards=3)


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    assert len(MANY) > PLANNED
    return written(MANY, tmp_path_factory.mktemp("many") / "speeches", shards=3)


def in_file_order(path):
    """Return the numbers of the records in the order in which an unshuffled stream gives them."""
    return [int(record["key"].numpy()[1:]) for record in sr.read(path, fields=["key"])]


# The slow way ---------------------------------------------------------------------------------------------------------


def one_by_one(sizes, length):
    """Best-fit decreasing: each sequence goes to the fullest row that has room for it."""
    rows, free = [0] * len(sizes), []
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        room = [(space, row) for row, space in enumerate(free) if space >= sizes[number]]
        if not room:
            room = [(length, len(free))]
            free.append(length)
        rows[number] = min(room)[1]
        free[rows[number]] -= sizes[number]
    return rows


def class_by_class(sizes, length):
    """The same, where for a class of lengths all count as the longest of them when room is looked for."""
    rows, free = [0] * len(sizes), [length] * len(sizes)
    kind = np.searchsorted(length_classes(length), sizes, side="right")
    for current in sorted(set(kind), reverse=True):
        members = sorted(np.flatnonzero(kind == current), key=lambda number: -sizes[number])
        longest = sizes[members[0]]
        for space, row in sorted((space, row) for row, space in enumerate(free)):
            for _ in range(space // longest):
                if members:
                    rows[members[0]] = row
                    free[row] -= sizes[members.pop(0)]
    return rows


def filled(lengths, order, options):
    """Lay records end to end, and cut them where a row is full; return batches of rows of (record, start, steps)."""
    rows, room = [[]], options.length
    for number in order:
        start = 0
        while start < lengths[number]:
            steps = min(room, lengths[number] - start)
            rows[-1].append((number, start, steps))
            start, room = start + steps, room - steps
            if not room:
                rows.append([])
                room = options.length
    if options.drop_remainder or not rows[-1]:
        rows.pop()
    batches = [rows[at : at + options.batch_size] for at in range(0, len(rows), options.batch_size)]
    return [batch for batch in batches if len(batch) == options.batch_size or not options.drop_remainder]


def first_fit(sizes, limits):
    """Each segment of several sequences goes to the first row that has room for all of them."""
    rows, free = [], []
    for size in sizes:
        row = next((row for row, room in enumerate(free) if all(np.less_equal(size, room))), len(free))
        free += [limits] if row == len(free) else []
        free[row] = np.subtract(free[row], size)
        rows.append(row)
    return rows


def best_of_three(sizes, limits):
    """First-fit in the order of the stream, of the largest share of a row, or of the sum; of these the fewest rows."""
    shares = [[size / limit for size, limit in zip(each, limits, strict=True)] for each in sizes]
    places = range(len(sizes))
    orders = [places, sorted(places, key=lambda p: -max(shares[p])), sorted(places, key=lambda p: -sum(shares[p]))]
    found = [dict(zip(order, first_fit([sizes[p] for p in order], limits), strict=True)) for order in orders]
    best = min(found, key=lambda rows: max(rows.values(), default=0))
    return [best[place] for place in places]


def pieces(steps, options):
    """Return the first step and the steps of each segment of a record."""
    if isinstance(steps, tuple):
        kept = tuple(min(pair) for pair in zip(steps, options.length.values(), strict=True))
        return [(0, kept)] if any(kept) else []
    steps = min(steps, options.length) if options.too_long == "cut_end" else steps
    return [(start, min(options.length, steps - start)) for start in range(0, steps, options.length)]


def fits(steps, options):
    pairs = isinstance(steps, tuple)
    return all(map(operator.le, steps, options.length.values())) if pairs else steps <= options.length


def packed(lengths, order, options):
    """Yield the batches of an unshuffled epoch, each a list of rows of segments (record, first step, steps)."""
    if options.fill:
        yield from filled(lengths, order, options)
        return
    left_over = []
    if options.too_long == "drop":
        order = [number for number in order if fits(lengths[number], options)]
    buffers = [order[at : at + PLANNED] for at in range(0, len(order), PLANNED)]
    for last, buffer in [*((False, buffer) for buffer in buffers), (True, [])]:
        segments = list(left_over)
        for number in buffer:
            segments += [(number, *piece) for piece in pieces(lengths[number], options)]
        rows, sizes = {}, [size for _, _, size in segments]
        pairs = isinstance(options.length, dict)
        plan = best_of_three(sizes, [*options.length.values()]) if pairs else class_by_class(sizes, options.length)
        for position, row in enumerate(plan):
            rows.setdefault(row, []).append(position)
        leaving = len(rows)
        if not last or options.drop_remainder:
            leaving -= leaving % options.batch_size
        used = {row: sum(np.sum(segments[position][2]) for position in rows[row]) for row in rows}
        waited = {row for row in rows if rows[row][0] < len(left_over)}
        ranked = sorted(rows, key=lambda row: (row not in waited, row not in waited and -used[row], row))
        chosen = sorted(ranked[:leaving], key=lambda row: rows[row][0])
        left_over = [segments[p] for p in sorted(p for row in ranked[leaving:] for p in rows[row])]
        for at in range(0, leaving, options.batch_size):
            yield [[segments[p] for p in rows[row]] for row in chosen[at : at + options.batch_size]]


def assembled(batch, lengths, options):
    """Return the tensors of a batch, step by step."""
    size, widest = len(batch), max(map(len, batch))
    out = {
        "key": np.full((size, widest), b"", object),
        "x": np.zeros((size, options.length, 2)),
        "word": np.full((size, options.length), b"", object),
        "grade": np.zeros((size, widest, 3), np.float16),
        "flag": np.zeros((size, options.length), bool),
        "note": np.full((size, widest), b"", object),
        "note_present": np.zeros((size, widest), bool),
        "code": np.zeros((size, options.length), np.uint8),
        "code_present": np.zeros((size, widest), bool),
        "z": np.zeros((size, options.length), np.complex64),
        "sequence_length": np.array([sum(steps for _, _, steps in row) for row in batch]),
        "segment_ids": np.zeros((size, options.length), np.int64),
        "positions": np.zeros((size, options.length), np.int64),
        "segment_count": np.array([len(row) for row in batch]),
    }
    if options.too_long == "split":
        out["segment_start"] = np.zeros((size, widest), np.int64)
    for i, row in enumerate(batch):
        at = 0
        for j, (number, start, steps) in enumerate(row):
            record = speech_of(number, lengths[number])
            out["key"][i, j] = record.key.encode()
            out["grade"][i, j] = record.grade
            out["note"][i, j] = (record.note or "").encode()
            out["note_present"][i, j] = record.note is not None
            out["code_present"][i, j] = record.code is not None
            if options.too_long == "split":
                out["segment_start"][i, j] = start
            for position in range(steps):
                for name in ("x", "flag", "z"):
                    out[name][i, at] = getattr(record, name)[start + position]
                out["word"][i, at] = record.word[start + position].encode()
                if record.code is not None:
                    out["code"][i, at] = record.code[start + position]
                out["segment_ids"][i, at] = j + 1
                out["positions"][i, at] = position
                at += 1
    return out


def segments_of(batch):
    """Return (record, first step, steps) for every segment of a batch, having checked each step against its record."""
    found = []
    batch = {name: np.asarray(value) for name, value in batch.items()}
    for i, ids in enumerate(batch["segment_ids"]):
        assert (np.diff(ids[: batch["sequence_length"][i]]) >= 0).all()
        assert not ids[batch["sequence_length"][i] :].any()
        for j in range(batch["segment_count"][i]):
            steps = np.flatnonzero(ids == j + 1)
            assert batch["positions"][i, steps].tolist() == list(range(len(steps)))
            number = int(batch["key"][i, j][1:])
            start = int(batch["segment_start"][i, j]) if "segment_start" in batch else 0
            record = speech_of(number, MANY[number])
            stretch = slice(start, start + len(steps))
            assert np.array_equal(batch["x"][i, steps], record.x[stretch])
            assert batch["word"][i, steps].tolist() == [word.encode() for word in record.word[stretch]]
            found.append((number, start, len(steps)))
    return found


def all_segments(length, lengths=MANY):
    return sorted(
        (number, start, min(length, steps - start))
        for number, steps in enumerate(lengths)
        for start in range(0, steps, length)
    )


# Planning -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planner():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64)], autograph=False)
    def plan(sizes):
        return best_fit_rows(sizes, 200)

    return lambda sizes: plan(tf.constant(sizes, tf.int64, [len(sizes)])).numpy().tolist()


@VECTORS
@given(sizes=st.lists(st.integers(1, 200), max_size=80))
def test_rows_are_those_found_class_by_class(planner, sizes):
    """In vectors or one sequence after the other; no row is overfull, and rows have numbers without gaps."""
    rows = planner(sizes)
    assert rows == class_by_class(sizes, 200)
    loads = np.bincount(rows, sizes) if sizes else np.zeros(0)
    assert (loads <= 200).all()
    assert (loads > 0).all()


@VECTORS
@given(sizes=st.lists(st.integers(1, 31), max_size=80))
def test_short_sequences_are_packed_by_best_fit_decreasing(planner, sizes):
    """Where every length is a class, each sequence is where it goes when one is placed after the other."""
    assert planner(sizes) == one_by_one(sizes, 200)


@pytest.mark.parametrize("size", [8, 67, 100, 101, 106, 200])
def test_sequences_of_one_length_fill_rows(planner, size):
    """As many to a row as fit, also where that leaves almost half of each row empty."""
    assert planner([size] * 300) == [number // (200 // size) for number in range(300)]


@pytest.mark.parametrize(("seed", "mean", "length"), [(0, 90, 512), (1, 40, 128), (2, 400, 2048)])
def test_log_normal_lengths_fill_rows_to_97_percent(seed, mean, length):
    """Real steps of all steps, for the lengths that functions or sentences have."""
    drawn = np.random.default_rng(seed).lognormal(np.log(mean) - 0.32, 0.8, 1024)
    sizes = np.clip(drawn, 1, length).astype(np.int64)
    rows = best_fit_rows(tf.constant(sizes), length).numpy()
    assert sizes.sum() / ((rows.max() + 1) * length) > 0.97


# Batches --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(Pack(12, 2), marks=pytest.mark.nightly),
        Pack(12, 20, drop_remainder=True),
        pytest.param(Pack(7, 30, too_long="drop"), marks=pytest.mark.nightly),
        pytest.param(Pack(7, 30, too_long="cut_end"), marks=pytest.mark.nightly),
        Pack(5, 20, too_long="split"),
        pytest.param(Pack(1, 400, too_long="split"), marks=pytest.mark.nightly),
        pytest.param(Pack(7, 20, too_long="split", fill=True), marks=pytest.mark.nightly),
        Pack(7, 20, too_long="split", fill=True, drop_remainder=True),
        pytest.param(Pack(100, 32), marks=pytest.mark.nightly),
    ],
    ids=repr,
)
def test_unshuffled_batches_are_those_packed_one_by_one(many, options):
    """Every tensor of every batch, with its dtype, zeros where they are genuine and where they pad."""
    order = in_file_order(many)
    expected = [assembled(batch, MANY, options) for batch in packed(MANY, order, options)]
    assert_same(sr.read(many, batch=options), expected)


@PIPELINES
@given(
    lengths=st.builds(
        operator.mul, st.lists(st.integers(0, 20), min_size=1, max_size=25), st.sampled_from([1, 1 + PLANNED // 20])
    ),
    options=st.builds(
        lambda length, size, cuts, **options: Pack(length, size, **cuts, **options),
        st.integers(1, 20),
        st.integers(1, 4),
        st.sampled_from([{"too_long": "drop"}, {"too_long": "split"}, {"too_long": "split", "fill": True}]),
        drop_remainder=st.booleans(),
    ),
)
def test_any_lengths_are_packed_as_one_by_one(tmp_path_factory, lengths, options):
    """Whatever the lengths and options, twice in two epochs."""
    path = written(lengths, tmp_path_factory.mktemp("any") / "speeches")
    expected = [assembled(batch, lengths, options) for batch in packed(lengths, range(len(lengths)), options)]
    if lengths and not any(options.too_long == "split" or n <= options.length for n in lengths if n):
        with pytest.raises(sr.OptionError, match="expected an epoch of a batch or more"):
            sr.read(path, batch=options)
        return
    assert_same(sr.read(path, batch=options, epochs=2), expected * 2)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(Pack(12, 3), marks=pytest.mark.nightly),
        Pack(5, 20, too_long="split"),
    ],
    ids=repr,
)
def test_shuffled_epochs_hold_every_step_once_in_the_order_of_their_seed(many, options):
    """Each step of each record comes once an epoch; the seed decides the order, which no two epochs share."""

    def epochs(seed, count):
        dataset = sr.read(many, batch=options, shuffle=16, seed=seed, fields=["key", "x", "word"])
        return [[segments_of(batch) for batch in dataset] for _ in range(count)]

    first = epochs(4, 2)
    for epoch in first:
        assert sorted(segment for batch in epoch for segment in batch) == all_segments(options.length)
    assert epochs(4, 1) == first[:1]
    assert epochs(5, 1) != first[:1]
    assert first[0] != first[1]


def test_every_reader_of_a_share_packs_its_own_records(corpus):
    """Together, the readers of all shares hold every step once."""
    options = {"batch": Pack(12, 3), "fields": ["key", "x", "word"]}
    batches = [batch for index in range(2) for batch in sr.read(corpus, shard=(index, 2), **options)]
    assert sorted(segment for batch in batches for segment in segments_of(batch)) == all_segments(12, LENGTHS)


@pytest.mark.parametrize("shuffle", [pytest.param(0, marks=pytest.mark.nightly), 10])
def test_resumes_exactly_before_every_batch(many, shuffle, tmp_path, stride):
    """Saved before any batch of two epochs, the whole remainder follows in an iterator built anew."""
    options = {"batch": Pack(8, 80, too_long="split"), "fields": ["key", "x", "word"]}
    assert_resumes_exactly(lambda: sr.read(many, shuffle=shuffle, seed=3, epochs=2, **options), tmp_path, stride)


def test_shapes_are_static_where_they_are_certain(corpus):
    """Rows always have `length` steps; batches all have `batch_size` rows where the remainder is dropped."""
    spec = sr.read(corpus, batch=Pack(12, 3, drop_remainder=True)).element_spec
    assert spec["x"].shape.as_list() == [3, 12, 2]
    assert spec["word"].shape.as_list() == spec["segment_ids"].shape.as_list() == [3, 12]
    assert spec["grade"].shape.as_list() == [3, None, 3]
    assert sr.read(corpus, batch=Pack(12, 3)).element_spec["x"].shape.as_list() == [None, 12, 2]


def test_records_longer_than_a_row_are_an_error_before_anything_is_read(corpus):
    """The message says how many there are, how long they get, and what can be done."""
    with pytest.raises(
        OptionError, match=r"length=10: 3 records are longer than 10 steps, the longest has 12; .*'drop'.*'split'"
    ):
        sr.read(corpus, batch=Pack(10, 4))


def test_lengths_under_another_name_and_fields_for_fit(corpus):
    """`length_name` renames the used steps, and inputs and targets are picked as from padded batches."""
    options = Pack(12, 3, length_name="used")
    batch = next(iter(sr.read(corpus, batch=options, fields=["x"])))
    assert list(batch) == ["x", "segment_ids", "positions", "segment_count", "used"]
    x, flag, weights = next(iter(sr.read(corpus, batch=options, inputs="x", targets="flag")))
    np.testing.assert_array_equal(x, batch["x"])
    assert flag.shape == (3, 12, 1)
    assert weights.shape == (3, 12)
    assert weights.numpy().sum() == batch["used"].numpy().sum()


def test_only_empty_records_are_refused(tmp_path):
    """They take no place, so that an epoch would have no batches."""
    with pytest.raises(sr.OptionError, match="left out .no steps"):
        sr.read(written([0, 0, 0], tmp_path / "speeches"), batch=Pack(4, 2))


# Several lengths ------------------------------------------------------------------------------------------------------


@sr.record
class Pair:
    key: int = sr.context("int64")
    source: np.ndarray = sr.feature_list("int64", align="source")
    weight: np.ndarray = sr.feature_list("float32", align="source")
    target: list = sr.feature_list(str, align="target")


@functools.cache
def pair_of(number, steps):
    source, target = (np.arange(count) + 100 * number + 1 for count in steps)
    return Pair(number, source, source.astype("f4"), [f"t{step}" for step in target])


def pairs_written(lengths, path, shards=1):
    sr.write({"train": [pair_of(number, steps) for number, steps in enumerate(lengths)]}, path, shards=shards)
    return path


def pairs_assembled(batch, lengths, options):
    size, widest = len(batch), max(map(len, batch))
    out = {"key": np.zeros((size, widest), np.int64), "segment_count": np.array([len(row) for row in batch])}
    for place, (group, length) in enumerate(options.length.items()):
        own = f"{group}_" if place else ""
        values = {"source": np.zeros((size, length), np.int64), "weight": np.zeros((size, length), np.float32)}
        values = {"target": np.full((size, length), b"", object)} if place else values
        ids, positions = (np.zeros((size, length), np.int64) for _ in range(2))
        used = np.zeros(size, np.int64)
        for i, row in enumerate(batch):
            for j, (number, _, steps) in enumerate(row):
                out["key"][i, j] = number
                stretch = slice(used[i], used[i] + steps[place])
                for name, value in values.items():
                    value[i, stretch] = getattr(pair_of(number, lengths[number]), name)[: steps[place]]
                ids[i, stretch], positions[i, stretch] = j + 1, range(steps[place])
                used[i] += steps[place]
        out |= values | {f"{own}segment_ids": ids, f"{own}positions": positions}
        out[f"{own}length" if place else "sequence_length"] = used
    return out


TWO = list(zip(LENGTHS, LENGTHS[7:] + LENGTHS[:7], strict=True))
PAIRED = {"source": 12, "target": 14}


@pytest.mark.parametrize("options", [
    Pack(PAIRED, 3),
    pytest.param(Pack({"source": 7, "target": 9}, 4, too_long="drop"), marks=pytest.mark.nightly),
    Pack({"source": 7, "target": 9}, 4, too_long="cut_end", drop_remainder=True),
], ids=repr)  # fmt: skip
def test_pairs_are_packed_as_one_by_one(tmp_path, options):
    """Every tensor of every batch; segment n of one list belongs to segment n of the other, empty or not."""
    path = pairs_written(TWO, tmp_path / "pairs", shards=2)
    order = [int(record["key"]) for record in sr.read(path, fields=["key"])]
    expected = [pairs_assembled(batch, TWO, options) for batch in packed(TWO, order, options)]
    assert_same(sr.read(path, batch=options, epochs=2), expected * 2)
    plan = sr.plan(path, "train", options)
    rows = [len(batch["segment_count"]) for batch in expected]
    assert (plan.batches, plan.rows, plan.padded_steps) == (
        len(rows),
        sum(rows),
        sum(rows) * sum(options.length.values()),
    )
    assert plan.steps == sum(int(batch["sequence_length"].sum() + batch["target_length"].sum()) for batch in expected)
    long = sum(not fits(steps, options) for steps in TWO)
    gone = sum(not any(steps) for steps in TWO) + (long if options.too_long == "drop" else 0)
    assert sum(plan.left_out.values()) == gone


@VECTORS
@given(sizes=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 20)).filter(any), max_size=40))
def test_pairs_need_no_more_rows_than_first_fit(sizes):
    """The rows are those found one by one, and never more than first-fit needs in the order of the stream."""
    rows = first_fit_rows(tf.constant(sizes, tf.int64, [len(sizes), 2]), [9, 20]).numpy().tolist()
    assert rows == best_of_three(sizes, [9, 20])
    assert max(rows, default=0) <= max(first_fit(sizes, [9, 20]), default=0)


@pytest.mark.nightly  # by day, rows of one length resume
def test_pairs_resume_shard_and_shuffle(tmp_path, stride):
    """As one length does: the whole remainder follows a checkpoint, and readers of shares hold each record once."""
    path = pairs_written(TWO, tmp_path / "pairs", shards=2)
    names = ["key", "source", "target"]
    build = lambda **more: sr.read(path, batch=Pack(14, 2), fields=names, shuffle=8, seed=3, **more)  # noqa: E731
    assert_resumes_exactly(lambda: build(epochs=2), tmp_path, stride)
    found = [batch["key"].numpy()[i, :count] for index in range(2) for batch in build(shard=(index, 2))
             for i, count in enumerate(batch["segment_count"].numpy())]  # fmt: skip
    assert sorted(np.concatenate(found)) == [number for number, steps in enumerate(TWO) if any(steps)]


def test_pairs_give_inputs_targets_and_weights(tmp_path):
    """Weights of records reach the steps of the target by its own segments; what is made of a group brings its list."""
    path = pairs_written([(3, 2), (1, 2)], tmp_path / "pairs")
    vocabulary = {"target": sr.Vocabulary([f"t{step}" for step in (1, 2, 101, 102)])}
    names = {"inputs": ("source", "target_segment_ids"), "targets": sr.next_step("target"), "weights": "key"}
    [(x, y, weights)] = sr.read(path, batch=Pack({"source": 4, "target": 5}, 1), vocabulary=vocabulary, **names)
    assert x[1].numpy().tolist() == [[1, 1, 2, 2, 0]]
    assert weights.numpy().tolist() == [[0, 0, 1, 0, 0]]
    assert y.numpy()[0, 2] == vocabulary["target"].ids["t102"]
    for strategy in (sr.Pad(2), Pack(5, 1)):
        [got] = sr.read(path, batch=strategy, inputs=("source", "target_length"))
        assert int(got[1].numpy().sum()) == 4


@pytest.mark.parametrize(("options", "message"), [
    (Pack(5, too_long="split"), r"too_long='split': the lists of Pair have lengths of their own \(source, target\)"),
    (Pack({"source": 9}), "length: expected the steps of a row for 'target' too, got {'source': 9}"),
    (Pack({"source": 9, "key": 9}), "length: 'key' is a context field and has no steps"),
    (Pack({"source": 12, "target": 5}), "9 records are longer than 5 steps of 'target', the longest has 12; .*'drop'"),
])  # fmt: skip
def test_lengths_of_pairs_that_make_no_sense_are_refused(tmp_path, options, message):
    """Before anything is read, with the list and the way out."""
    with pytest.raises(OptionError, match=message):
        sr.read(pairs_written(TWO, tmp_path / "pairs"), batch=options)


# Refusals -------------------------------------------------------------------------------------------------------------


@sr.record
class Odd:
    ids: np.ndarray = sr.feature_list("int64")
    ragged: list = sr.feature_list("int64", shape=(None,))
    sparse: list = sr.feature_list("float32", sparse=9)
    positions: int = sr.context("int64", default=0)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("ragged", r"'ragged' is ragged .*fields=\['ids'\]"),
        ("sparse", r"'sparse' is sparse .*fields=\['ids'\]"),
        ("positions", "a field 'positions', as Pack names what batches carry: .*fields="),
    ],
)
def test_fields_that_cannot_be_packed_are_refused(field, message, tmp_path):
    """The message names the field and the way out, which is then taken."""
    sr.write([Odd([1, 2], [[1], []], [sr.SparseVector([], [], 9)] * 2)], tmp_path / "odd")
    with pytest.raises(OptionError, match=message):
        sr.read(tmp_path / "odd", batch=Pack(4), fields=["ids", field])
    (batch,) = sr.read(tmp_path / "odd", batch=Pack(4), fields=["ids"])
    assert batch["ids"].numpy().tolist() == [[1, 2, 0, 0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"length": 0}, "length: expected an int of 1 or more, got 0"),
        ({"length": {"x": 0}}, "length: expected an int of 1 or more, got 0"),
        ({"length": 4, "batch_size": True}, "batch_size: expected an int of 1 or more, got True"),
        ({"length": 4, "fill": True}, "fill: cuts records at the ends of rows, give too_long='split', not 'error'"),
        ({"length": 4, "too_long": "cut"}, "too_long: expected one of error, drop, cut_end, split, got 'cut'"),
    ],
)
def test_options_that_make_no_sense_are_refused(arguments, message):
    """The message says what was expected and what came."""
    with pytest.raises(OptionError, match=message):
        Pack(**arguments)
