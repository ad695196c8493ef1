"""The benchmark: what it measures is the same work, and what it says is what was measured."""

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import attrs
import numpy as np
import pytest
from bench import (
    access,
    candidates,
    cores,
    peers,
    recordings,
    run,
    table,
    tables,
    training,
)
from bench.__main__ import main
from bench.candidates import Operation
from bench.content import LENGTH, content, whole
from bench.timing import Effort, Taken
from bench.workloads import WORKLOADS, make

from seqrecorder.schema.schema import Schema


@pytest.fixture(scope="module")
def clicks():
    return make("W4", quick=True)


@pytest.fixture(scope="module")
def report():
    """W5 has text, a key and two lists; nothing but reading and writing it once."""
    return run.measure("W5", Effort(quick=True, rounds=1, seconds=0.01))


@pytest.mark.parametrize("name", ["W1", "W5", "W6"])
def test_workloads_are_the_same_each_time(name):
    """Two calls give equal records, whose flat values are those of the workload."""
    first, second = make(name, quick=True), make(name, quick=True)
    assert first.records == second.records
    assert len(first.records) == first.lengths.size
    for field, flat in first.flat.items():
        assert np.concatenate([getattr(record, field) for record in first.records]).tolist() == flat.tolist()


def test_raw_bytes_are_those_of_the_arrays(clicks):
    """The size that files are compared with is eight bytes for each int64."""
    assert clicks.raw_bytes == 8 * clicks.lengths.sum()


def test_content_does_not_depend_on_the_order_or_the_padding(clicks):
    """The number of the same records in other batches is the same, whatever the padding holds."""
    columns = {"ids": clicks.flat["ids"]}
    batches = list(peers.from_columns(clicks, columns, seed=3))
    for batch in batches:
        batch["ids"][np.arange(batch["ids"].shape[1]) >= batch[LENGTH][:, None]] = 99
    assert content(batches, clicks) == content([whole(clicks)], clicks)


@pytest.mark.parametrize("change", ["value", "order", "length", "lost"])
def test_content_tells_other_records_apart(clicks, change):
    """One changed value, two swapped steps, one step or one record less give another number."""
    batch = whole(clicks)
    expected = content([batch], clicks)
    row = int(np.argmax((clicks.lengths > 1) & (batch["ids"][:, 0] != batch["ids"][:, 1])))
    if change == "value":
        batch["ids"][row, 0] += 1
    elif change == "order":
        batch["ids"][row, :2] = batch["ids"][row, 1::-1].copy()
    elif change == "length":
        batch[LENGTH] = batch[LENGTH].copy()
        batch[LENGTH][row] -= 1
    else:
        batch = {name: values[1:] for name, values in batch.items()}
    assert content([batch], clicks) != expected


def test_planned_batches_hold_every_record_once(clicks):
    """The batches of peers are bucketed, of at most 64 records, and hold each record once."""
    batches = list(peers.planned(clicks, seed=0))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(clicks.records)))
    assert max(batch.size for batch in batches) == 64
    bounds = np.array(clicks.boundaries)
    assert all(np.ptp(np.searchsorted(bounds, clicks.lengths[batch], side="right")) == 0 for batch in batches)


def test_every_measure_has_ours_and_the_hand_written_way(report):
    """Each measure names both, with medians within their spread, and ratios to the hand-written way."""
    for measure in run.MEASURES:
        if measure in (*run.ACCESS, *run.TABLES):
            continue
        timings = {timing.candidate: timing for timing in report.timings if timing.measure == measure}
        assert {"seqrecorder", "hand-written"} <= set(timings)
        assert timings["hand-written"].ratio == 1
        assert all(t.least <= t.median <= t.most for t in timings.values())
    assert {"seqrecorder", "hand-written", "npz"} <= set(report.bytes)


@pytest.mark.nightly
def test_fields_that_are_no_plain_columns_are_measured_of_us_and_by_hand():
    """Images, ragged tags and scores that may lack are written and read both ways; of others it is told why not."""
    report = run.measure("W6", Effort(quick=True, rounds=1), only=["write"])
    assert {timing.candidate for timing in report.timings} == {"seqrecorder", "seqrecorder, columns", "hand-written"}
    assert report.skipped["npz"] == "W6 has fields that are no plain columns there: image, score, tags"
    assert report.bytes["seqrecorder"] == report.bytes["seqrecorder, columns"]


def test_access_is_measured_beside_others(report):
    """Single records and a tenth of all are timed of everybody who can seek; h5py has no slices of texts."""
    measured = {measure: {t.candidate for t in report.timings if t.measure == measure} for measure in run.ACCESS}
    seeking = {"seqrecorder", "Hugging Face datasets", "grain over ArrayRecord"} - set(report.skipped)
    assert measured == {"by_position": seeking, "tenth": seeking, "by_key": {"seqrecorder"}}


def test_keys_find_their_records(tmp_path):
    """Of workloads with keys, records by key are timed too, and all have the values that were written."""
    words = make("W1", quick=True)
    candidates.write(words.records[:300], tmp_path / "own", schema=words.record_class)
    words = attrs.evolve(words, records=words.records[:300], lengths=words.lengths[:300])
    timed = access.own(words, tmp_path / "own")
    assert [(each.measure, each.prepare()()) for each in timed] == [("by_position", 30), ("tenth", 30), ("by_key", 30)]
    words.records[access.drawn(words)[0]].ids[0] += 1
    with pytest.raises(AssertionError, match="W1: field 'ids' of record .* is not what was written"):
        timed[0].prepare()


def test_reading_is_told_as_a_steady_state_and_a_first_batch(report):
    """Whoever is read from in batches has the time to the first of them, and the processor time of an epoch."""
    timings = {(timing.measure, timing.candidate): timing for timing in report.timings}
    readers = {candidate for measure, candidate in timings if measure == "read"}
    assert readers == {candidate for measure, candidate in timings if measure == "first_batch"}
    assert candidates.EXPERT in readers
    assert all(timings["read", reader].processor > 0 for reader in readers)


def test_whole_epochs_are_measured(clicks):
    """After a first epoch, epochs are counted to their ends until the time is over, and nothing is left out."""
    delivered = []

    def open_(seed, epochs):
        assert (seed, epochs) == (0, None)
        while True:
            for size in (12_000, 7_999, 1):
                delivered.append(size)
                yield size

    found = run._time_reading(candidates.Reading("somebody", open_, count=int), clicks, seconds=0)
    assert delivered == [12_000, 7_999, 1] * 2
    assert set(found) == {"read", "first_batch"}


def test_an_epoch_with_other_records_stops_the_benchmark(clicks):
    """A stream whose batches do not end where an epoch does is an error that names the candidate."""
    reading = candidates.Reading("somebody", lambda seed, epochs: iter([30_000] * 9), count=lambda batch: batch)
    with pytest.raises(AssertionError, match="W4, read: somebody did 60000 of 40000"):
        run._time_reading(reading, clicks, seconds=0)


def test_peers_are_measured_or_named(report):
    """Each other library is there with its timing, or named with the reason why not."""
    measured = {timing.candidate for timing in report.timings}
    for name in [peer.name for peer in peers.PEERS]:
        assert (name in measured) != (name in report.skipped)


def test_peers_deliver_what_was_written(tmp_path):
    """Of steps of floats and of bytes, each library that is installed gives the values, in their dtypes."""
    frames = make("W3", quick=True)
    few = attrs.evolve(
        frames,
        records=frames.records[:3],
        lengths=frames.lengths[:3],
        contexts={name: values[:3] for name, values in frames.contexts.items()},
        flat={name: values[: frames.lengths[:3].sum()] for name, values in frames.flat.items()},
    )
    for peer in [peer for peer in peers.PEERS if peer.missing() is None]:
        operations = peer.operations(few, tmp_path)
        run._write_all(operations)
        run._compare(few, operations)


def test_a_peer_that_is_missing_says_so(monkeypatch):
    """Where a library cannot be imported, the reason is text."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "pyarrow" in (attrs.evolve(peers.PEERS[1], needs=("pyarrow",)).missing() or "")


@pytest.mark.nightly
def test_a_peer_that_fails_says_so():
    """A library that cannot write its files is named with its error, and the others are measured."""

    def fail():
        raise ValueError("no such table")

    def operations(_, directory):
        return [Operation("write", "broken", fail, files=directory / "broken")]

    broken = peers.Peer("broken", (), operations)
    report = run.measure("W5", Effort(quick=True, rounds=1), only=["encode"], libraries=[broken])
    assert report.skipped["broken"] == "failed (ValueError: no such table)"
    assert {timing.candidate for timing in report.timings} == {"seqrecorder", "hand-written"}


def test_the_report_is_told_as_tables_and_as_json(report, monkeypatch, capsys):
    """The command prints a table for each measure, or the same as JSON; progress goes to stderr."""
    whole_report = run.BenchReport("2026-01-01", "a machine", "3.x", {"numpy": "2"}, 1, 0.01, True, (report,))
    asked = []

    def fake(names, effort, *, say, **options):
        say("W5 ...")
        asked.append((list(names), effort, options))
        return whole_report

    monkeypatch.setattr(run, "run", fake)
    main(["--workload", "W5", "--quick"])
    out = capsys.readouterr().out
    assert out.count("| candidate") == len(run.MEASURES) + 1
    assert "a tenth of the data" in out
    main(["--json", "--rounds", "2", "--seconds", "0.5", "--no-peers"])
    captured = capsys.readouterr()
    data = json.loads(captured.out)
    assert data["workloads"][0]["timings"][0]["candidate"] == "seqrecorder"
    assert captured.err == "W5 ...\n"
    assert asked == [
        (["W5"], Effort(quick=True, rounds=3, seconds=1), {"peers": True}),
        (list(WORKLOADS), Effort(rounds=2, seconds=0.5), {"peers": False}),
    ]
    assert table.text(whole_report) in out


def test_a_candidate_that_delivers_something_else_stops_the_benchmark(clicks):
    """Other content than was written is an error that names the workload and the candidate."""
    first = {name: values[:1] for name, values in whole(clicks).items()}
    with pytest.raises(AssertionError, match="W4: somebody delivered 1 records of 20000"):
        run._compare(clicks, [candidates.Reading("somebody", lambda seed, epochs: [first])])


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        *(
            (f"--seconds={text}", f"expected a number above 0, got '{text}'")
            for text in ("0", "-1", "nan", "inf", "soon")
        ),
        ("--rounds=0.5", "expected a number above 0, got '0.5'"),
        ("--workload=W1,W9", "expected some of W1,W2"),
    ],
)
def test_wrong_usage_says_what_is_expected(option, expected, capsys):
    """A time that cannot be waited for and a workload that does not exist are wrong usage."""
    with pytest.raises(SystemExit):
        main([option])
    assert expected in capsys.readouterr().err


def test_it_runs_in_a_checkout():
    """`python -m tests.bench` finds its modules from the root of the repository."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--help"], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("usage: python -m tests.bench")


def test_packed_files_have_the_same_fields():
    """What is packed differs from its workload's class in the storage of lists alone."""
    for name in ("W1", "W2", "W4"):
        workload = make(name, quick=True)
        plain, packed = Schema.of(workload.record_class), workload.packed
        assert {field.storage for field in packed.fields if field.is_list} == {"packed"}
        assert [attrs.evolve(field, storage="auto") for field in packed.fields] == list(plain.fields)


@pytest.mark.nightly
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux tells what threads take")
def test_cores_tells_what_the_busiest_thread_leaves(capsys, monkeypatch):
    """No thread takes more than all do; all candidates are read on one core and on those that there are."""
    monkeypatch.setattr(cores, "in_new_process", lambda function, *args, **options: function(*args, **options))
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    main(["--cores", "--quick", "--seconds", "0.1", "--workload", "W2", "--json"])
    figures = json.loads(capsys.readouterr().out)["W2"]
    assert 0 < figures["busiest"] <= figures["processor"]
    assert figures["cores"] == figures["processor"] / figures["busiest"]
    names = [candidates.OURS, candidates.EXPERT, "TensorFlow's parser alone", candidates.RAW]
    assert [(name, list(by_count)) for name, by_count in figures["records_per_second"].items()] == [
        (name, ["1", "2"]) for name in names
    ]
    assert all(speed > 0 for speeds in figures["records_per_second"].values() for speed in speeds.values())
    figures["records_per_second"] = {candidates.OURS: {1: 1.0, 2: 2000.0}}
    assert "| W2       | seqrecorder | 1 | 2,000 |" in cores.text({"W2": figures})


@pytest.mark.nightly
def test_training_tells_how_long_it_waits(capsys):
    """A GRU is trained on tokens and sensors, and the share of waiting is that of the seconds that are told."""
    main(["--training", "--quick", "--workload", "W2", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report["device"] == "CPU"
    assert f"{os.cpu_count()} cores" in report["machine"]
    assert f"on CPU ({report['machine']})" in training.text(report)
    figures = report["workloads"]["W2"]
    assert 0 < figures["waiting"] <= figures["seconds"]
    assert figures["share"] == figures["waiting"] / figures["seconds"]


def test_tables_are_written_and_read_beside_parquet(clicks, tmp_path):
    """Each candidate gives the table back that was written, and is compared with Parquet."""
    timed = tables.operations(clicks, tmp_path)
    candidates_of = [candidates.OURS, candidates.PACKED, tables.PARQUET, tables.PLAIN]
    assert [each.candidate for each in timed] == [name for name in candidates_of for _ in run.TABLES]
    assert {each.prepare()() for each in timed} == {20_000}
    taken = {("read_table", name): [Taken(float(2**at), 1.0)] for at, name in enumerate(candidates_of)}
    assert [timing.ratio for timing in run._timings(taken, 20_000)] == [4, 2, 1, 0.5]


def test_a_table_that_comes_back_changed_stops_the_benchmark(clicks, tmp_path, monkeypatch):
    """A candidate that gives another table than was written is named."""
    other = types.SimpleNamespace(equals=lambda _: False)
    monkeypatch.setattr("pyarrow.parquet.read_table", lambda _: other)
    with pytest.raises(AssertionError, match="W4: Parquet gave another table than was written"):
        tables.operations(clicks, tmp_path)[-3].prepare()


def test_recordings_are_written_and_read_beside_hdf5(capsys, monkeypatch):
    """Each candidate gives back what was written, and has four speeds, which the table tells."""
    monkeypatch.setattr(recordings, "in_new_process", lambda function, *args: function(*args))
    main(["--recordings", "--quick", "--rounds", "1", "--json"])
    report = json.loads(capsys.readouterr().out)
    speeds = report["speeds"]
    assert {candidates.OURS, "npy", "Parquet"} <= set(speeds)
    assert all(speed > 0 for halves in speeds.values() for both in halves.values() for speed in both)
    report["speeds"] = {candidates.OURS: {"write": [1.0, 2.0], "read": [3.0, 4000.0]}}
    line = recordings.text(report).splitlines()[-1]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [candidates.OURS, "1", "2", "3", "4,000"]


def test_recordings_that_come_back_changed_stop_the_benchmark(monkeypatch):
    """A candidate that gives other values than were written is named."""
    monkeypatch.setattr(
        recordings, "_ways", lambda signals, _: {"x": (lambda: None, lambda: iter([s + 1 for s in signals]))}
    )
    with pytest.raises(AssertionError, match="recordings: x gave something else"):
        recordings._measure(Effort(quick=True))
