"""`Unroll` against a slow, obvious simulation of slots, and against whole sequences through a recurrent network."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slow_records import Trace, assert_resumes_exactly, assert_same, only, trace_of, written

import seqrecorder as sr
from seqrecorder.reading.batching.strategy import WINDOW
from seqrecorder.reading.batching.unroll import Unroll, deal_records

LENGTHS = [5, 0, 12, 1, 3, 4, 9, 0, 2, 7, 8, 1, 30, 6]


def simulated(lengths, order, batch_size, width, tail="drain"):
    """Yield the batches for records (their numbers) in an order: slot by slot, step by step."""
    waiting = [number for number in order if lengths[number] > 0]
    slots = [None] * batch_size  # (record, segment)
    while True:
        for slot in range(batch_size):
            if slots[slot] is None and waiting:
                slots[slot] = (waiting.pop(0), 0)
        if slots.count(None) == batch_size or (tail == "drop" and None in slots):
            return
        rows = []
        for slot in range(batch_size):
            if slots[slot] is None:
                rows.append(empty_row(width))
                continue
            number, segment = slots[slot]
            rows.append(row_of(number, segment, lengths[number], width))
            ended = (segment + 1) * width >= lengths[number]
            slots[slot] = None if ended else (number, segment + 1)
        yield {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def in_parallel(lengths, order, batch_size, width, tail="drain"):
    """Yield the batches in which each slot holds a part of one record, until the longest part is finished."""
    for number in order:
        length = lengths[number]
        edges = [slot * length // batch_size for slot in range(batch_size + 1)]
        sizes = np.diff(edges)
        segments = -(-int(sizes.min() if tail == "drop" else sizes.max()) // width)
        counts = [min(segments, -(-int(size) // width)) for size in sizes]  # those of each part that has them
        for segment in range(segments):
            rows = []
            for slot, size in enumerate(sizes):
                steps = slice(edges[slot] + segment * width, min(edges[slot] + (segment + 1) * width, edges[slot + 1]))
                if segment * width >= size:
                    rows.append(empty_row(width))
                    continue
                row = row_of(number, segment, length, width, steps)
                row["segment_index"] = np.int64(sum(counts[:slot]) + segment)
                row["segment_count"] = np.int64(sum(counts))
                rows.append(row)
            yield {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def row_of(number, segment, length, width, steps=None):
    record = trace_of(number, length)
    steps = steps or slice(segment * width, (segment + 1) * width)
    row = empty_row(width)
    for name in ("x", "word", "flag"):
        part = getattr(record, name)[steps]
        row[name][: len(part)] = part
    return row | {
        "key": np.array(record.key.encode(), object),
        "weight": np.float32(record.weight),
        "sequence_length": np.int64(len(record.x[steps])),
        "reset": np.bool_(segment == 0),
        "segment_index": np.int64(segment),
        "segment_count": np.int64(-(-length // width)),
        "total_length": np.int64(length),
    }


def empty_row(width):
    return {
        "key": np.array(b"", object),
        "weight": np.float32(0),
        "x": np.zeros((width, 2), np.float32),
        "word": np.full(width, b"", object),
        "flag": np.zeros(width, bool),
        "sequence_length": np.int64(0),
        "reset": np.bool_(False),
        "segment_index": np.int64(0),
        "segment_count": np.int64(0),
        "total_length": np.int64(0),
    }


def segments_of(batches):
    """Return (record, segment) for every segment that batches hold."""
    return [
        (int(key[1:]), int(segment))
        for batch in batches
        for key, segment, steps in zip(batch["key"], batch["segment_index"], batch["sequence_length"], strict=True)
        if steps
    ]


def all_segments(lengths, width):
    return [(number, s) for number, length in enumerate(lengths) for s in range(-(-length // width))]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(LENGTHS, tmp_path_factory.mktemp("unroll") / "traces", shards=3)


SLOTS = [(1, 4), (3, 4), (4, 1), (2, 100), (20, 3)]


@pytest.mark.parametrize(
    ("batch_size", "width", "tail"),
    all_at_night(
        [(*slots, tail) for slots in SLOTS for tail in ("drain", "drop")],
        [(4, 1, "drop"), (2, 100, "drain"), (20, 3, "drop")],
    ),
)
def test_batches_are_those_of_the_slots(corpus: Path, batch_size: int, width: int, tail: str) -> None:
    """Every tensor of every batch is what slots give that are filled and moved on one by one."""
    dataset = sr.read(corpus, batch=Unroll(batch_size, width, tail=tail))
    order = range(len(LENGTHS))
    expected = list(simulated(LENGTHS, order, batch_size, width, tail))
    assert_same(dataset, expected)
    assert dataset.element_spec["x"].shape == (batch_size, width, 2)
    assert dataset.element_spec["segment_index"].shape == (batch_size,)


@pytest.mark.parametrize(
    ("batch_size", "width", "tail"),
    all_at_night(
        [(*slots, tail) for slots in [*SLOTS, (3, 2)] for tail in ("drain", "drop")],
        [(3, 2, "drop"), (20, 3, "drain")],
    ),
)
def test_records_in_parallel_parts(corpus: Path, batch_size: int, width: int, tail: str) -> None:
    """Slot n goes on from the n-th part of each record; every batch is counted, planned, and put together again."""
    options = Unroll(batch_size, width, tail=tail, split_records=True)
    dataset = sr.read(corpus, batch=options, epochs=2)
    order = range(len(LENGTHS))
    expected = list(in_parallel(LENGTHS, order, batch_size, width, tail))
    assert_same(dataset, expected * 2)
    assert int(dataset.cardinality()) == 2 * len(expected)
    plan = sr.plan(corpus, "train", options)
    steps = sum(int(batch["sequence_length"].sum()) for batch in expected)
    assert (plan.batches, plan.rows, plan.steps) == (len(expected), batch_size * len(expected), steps)
    assert sum(plan.left_out.values()) == sum(length < (batch_size if tail == "drop" else 1) for length in LENGTHS)
    if tail == "drain":
        assert steps == sum(LENGTHS)


@pytest.mark.parametrize(
    ("length", "batch_size", "width"),
    [(22, 4, 5), (2, 4, 3), *(pytest.param(*case, marks=pytest.mark.nightly) for case in ((7, 3, 2), (40, 4, 5)))],
)
def test_segments_of_parts_are_numbered_without_gaps(tmp_path: Path, length: int, batch_size: int, width: int) -> None:
    """`segment_index` counts from 0 to `segment_count` - 1, in the order of the record's steps."""
    dataset = sr.read(written([length], tmp_path / "trace"), batch=Unroll(batch_size, width, split_records=True))
    rows = [
        (int(index), int(count), word[0])
        for batch in dataset
        for index, count, word, steps in zip(
            *(batch[name].numpy() for name in ("segment_index", "segment_count", "word", "sequence_length")),
            strict=True,
        )
        if steps
    ]
    assert [index for index, *_ in sorted(rows)] == list(range(len(rows)))
    assert {count for _, count, _ in rows} == {len(rows)}
    words = [word.encode() for word in trace_of(0, length).word]
    assert [word for *_, word in sorted(rows)] == [word for word in words if word in {each for *_, each in rows}]


def test_parallel_parts_shuffle_shard_resume_and_predict(corpus: Path, tmp_path: Path, stride: int) -> None:
    """A record's steps come once each, whatever the order and the reader, also after a restart; and in their order."""
    options = Unroll(3, 4, split_records=True)
    names = ["key", "word"]
    build = lambda **more: sr.read(corpus, batch=options, fields=names, shuffle=5, seed=2, **more)  # noqa: E731
    assert_resumes_exactly(lambda: build(epochs=2), tmp_path, stride)
    words = [word for index in range(2) for batch in build(shard=(index, 2)) for word in batch["word"].numpy().ravel()]
    records = list(sr.read_records(corpus))
    assert sorted(filter(None, words)) == sorted(word.encode() for record in records for word in record.word)
    outputs = sr.keras.predict(lambda x, training: 2 * x, corpus, batch=options, inputs="x")
    for record, output in zip(records, outputs, strict=True):
        np.testing.assert_array_equal(output, record.x * 2)
    with pytest.raises(sr.OptionError, match="bucket: orders records in slots"):
        Unroll(3, 4, bucket=True, split_records=True)


def test_the_next_step_of_a_part_is_the_first_of_the_next_part(tmp_path: Path) -> None:
    """It is that of the record; only the record's last step has none."""
    path = written([10], tmp_path / "trace")
    read = sr.read(path, batch=Unroll(2, 3, split_records=True), inputs="word", targets=sr.next_step("x"))
    weights = np.concatenate([np.asarray(weights) for *_, weights in read], 1)
    assert weights.tolist() == [[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 0, 0]]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(st.integers(0, 9), max_size=7), min_size=1, max_size=6), st.integers(1, 3), st.booleans())
def test_any_lengths_in_any_windows(deal, windows, width, drain) -> None:
    """Plans deal records of any lengths, windows of any sizes, to slots as the simulation does."""
    lengths = [length for window in windows for length in window]
    numbers = iter(range(len(lengths)))
    stream = [([f"{next(numbers)}" for _ in window], window) for window in windows] + [([], [])] * drain
    slots, got = (np.full(3, "", object), np.zeros(3, np.int64), np.zeros(3, np.int64)), []
    for number, (serialized, some) in enumerate(stream):
        last = drain and number == len(windows)
        slots, (kept, kept_lengths, rows, indices) = deal(
            slots, (np.array(serialized, object), np.array(some, np.int64), last), width
        )
        assert [lengths[int(name)] for name in kept.numpy()] == kept_lengths.numpy().tolist()
        assert sorted(set(rows.numpy()) - {len(kept)}) == list(range(len(kept))), "only those that are needed"
        names = [*kept.numpy().tolist(), b""]
        got += [(names[row], index) for row, index in zip(rows.numpy(), indices.numpy().tolist(), strict=True)]
    batches = simulated(lengths, range(len(lengths)), 3, width, "drain" if drain else "drop")
    assert got == [
        (key[1:], index) for b in batches for key, index in zip(b["key"], b["segment_index"].tolist(), strict=True)
    ]


@pytest.fixture(scope="module")
def deal():
    """The step of a plan of three slots, traced once."""
    strings, numbers = tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int64)
    of_slots = tf.TensorSpec([3], tf.string), tf.TensorSpec([3], tf.int64), tf.TensorSpec([3], tf.int64)
    window = strings, numbers, tf.TensorSpec([], tf.bool)
    return tf.function(deal_records, input_signature=(of_slots, window, tf.TensorSpec([], tf.int64)), autograph=False)


@pytest.mark.parametrize("batch_size", [2, pytest.param(5, marks=pytest.mark.nightly)])
def test_records_are_dealt_over_many_windows(tmp_path: Path, batch_size: int) -> None:
    """Slots go on from window to window as if there were one window only, even where one has records without steps."""
    lengths = [0] * 2 * WINDOW + np.random.default_rng(3).integers(0, 4, 2 * WINDOW).tolist()
    lengths[-WINDOW - 9 : -WINDOW + 9] = range(30, 48)  # some segments of these are in the window behind
    path = written(lengths, tmp_path / "traces")
    dataset = sr.read(path, batch=Unroll(batch_size, 3), fields=["key", "x"])
    assert_same(dataset, only(dataset.element_spec, simulated(lengths, range(len(lengths)), batch_size, 3)))


def test_shuffled_epochs_hold_every_segment_once(corpus: Path) -> None:
    """Each epoch is a simulation over its own order, the same for the same seed and another in each epoch."""
    dataset = sr.read(corpus, batch=Unroll(3, 4), shuffle=6, seed=5, epochs=3)
    batches = list(dataset.as_numpy_iterator())
    segments = segments_of(batches)
    count = len(all_segments(LENGTHS, 4))
    epochs = [segments[at : at + count] for at in range(0, len(segments), count)]
    assert len(epochs) == 3
    expected, orders = [], []
    for epoch in epochs:
        assert sorted(epoch) == all_segments(LENGTHS, 4)
        orders.append([number for number, segment in epoch if segment == 0])
        expected += simulated(LENGTHS, orders[-1], 3, 4)
    assert_same(batches, expected)
    assert orders[0] != orders[1] != orders[2]
    again = sr.read(corpus, batch=Unroll(3, 4), fields=["key", "x"], shuffle=6, seed=5, epochs=3)
    assert_same(again, only(again.element_spec, expected))


@pytest.mark.parametrize("shuffle", [pytest.param(0, marks=pytest.mark.nightly), 5])
def test_resumes_exactly_at_every_batch(tmp_path: Path, shuffle: int, stride: int) -> None:
    """A fresh iterator, restored, gives the whole remainder: inside windows, at their ends, and between epochs."""
    empty = [0] * (WINDOW - 2)  # fill the windows up without a batch more
    path = written([5, 0, *empty, 7, 1, *empty, 3], tmp_path / "traces")
    options = {"batch": Unroll(2, 3), "fields": ["key", "x"], "shuffle": shuffle}
    assert_resumes_exactly(lambda: sr.read(path, seed=1, epochs=2, **options), tmp_path, stride)


def test_segments_with_state_equal_whole_sequences(corpus: Path) -> None:
    """A GRU that keeps each slot's state, and starts anew at `reset`, gives what it gives for the whole sequence."""
    cell = tf.keras.layers.GRUCell(4, bias_initializer="glorot_uniform")
    cell.build((None, 2))
    outputs: dict[int, list[np.ndarray]] = {}
    state = tf.zeros([3, 4])
    for batch in sr.read(corpus, batch=Unroll(3, 4), fields=["key", "x"], shuffle=20, seed=2):
        state = tf.where(batch["reset"][:, tf.newaxis], 0.0, state)
        for step in range(4):
            output, state = cell(batch["x"][:, step], state)
            for slot in np.flatnonzero(step < batch["sequence_length"].numpy()):
                outputs.setdefault(int(batch["key"][slot].numpy()[1:]), []).append(output[slot].numpy())
    assert sorted(outputs) == [number for number, length in enumerate(LENGTHS) if length]
    for number, got in outputs.items():
        state, whole = tf.zeros([1, 4]), []
        for value in trace_of(number, LENGTHS[number]).x:
            output, state = cell(value[np.newaxis], state)
            whole.append(output[0].numpy())
        np.testing.assert_allclose(got, whole, atol=1e-6)


def test_weights_for_fit_are_zero_where_a_slot_is_empty(corpus: Path) -> None:
    """The sample weights of `fit` are those of the true steps, so that empty slots do not count."""
    for x, _, weights in sr.read(corpus, batch=Unroll(4, 5), inputs="x", targets="flag"):
        np.testing.assert_array_equal(weights, np.any(x.numpy() != 0, -1))


def test_a_dataset_without_steps_is_refused(tmp_path: Path) -> None:
    """Records without steps take no slot, and an epoch of them would have no batches."""
    path = written([0, 0, 0], tmp_path / "traces")
    with pytest.raises(sr.OptionError, match="left out .no steps"):
        sr.read(path, batch=Unroll(2, 2), epochs=2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Unroll(0, 4), "batch_size: expected an int of 1 or more, got 0"),
        (lambda: Unroll(2, 0), "length: expected an int of 1 or more, got 0"),
        (lambda: Unroll(2, True), "length"),
        (lambda: Unroll(2, 4, tail="keep"), "tail: expected one of drain, drop, got 'keep'"),
    ],
)
def test_options_that_make_no_sense(make: object, message: str) -> None:
    """An option that makes no sense is refused where it stands, by name."""
    with pytest.raises(sr.OptionError, match=message):
        make()


def test_fields_that_carry_the_names_of_what_batches_carry(tmp_path: Path) -> None:
    """A field called `reset` is refused by name, unless it is left out."""

    @sr.record
    class Switch:
        reset: int = sr.context("int64")
        x: np.ndarray = sr.feature_list("int64")

    sr.write([Switch(1, [1, 2])], tmp_path / "switches")
    with pytest.raises(sr.OptionError, match="field 'reset', as Unroll names"):
        sr.read(tmp_path / "switches", batch=Unroll(2, 2))
    assert len(list(sr.read(tmp_path / "switches", batch=Unroll(2, 2), fields=["x"]))) == 1


def test_written_lengths_that_are_wrong_are_noticed(tmp_path: Path) -> None:
    """Plans go by the lengths beside the shards; records of other lengths are an error that names the field."""
    path = written([3, 4], tmp_path / "traces")
    (lengths,) = path.rglob("*.lengths")
    lengths.write_bytes(np.array([4, 3], "<i8").tobytes())
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"lengths.*field \\'x\\'"):
        list(sr.read(path, batch=Unroll(1, 2), check="none"))


def test_elements_can_be_records(corpus: Path) -> None:
    """Elements can be records too, whose further attributes are those that batches carry."""
    element = next(iter(sr.read(corpus, batch=Unroll(2, 3), output="record", schema=Trace)))
    assert isinstance(element, Trace)
    assert element.reset.numpy().all()
