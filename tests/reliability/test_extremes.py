"""Records that are far larger, and classes that are far wider, than anybody's."""

import attrs
import numpy as np
import pytest

import seqrecorder as sr


@sr.record
class Wide:
    steps: np.ndarray = sr.feature_list("int64")
    packed: np.ndarray = sr.feature_list("float32", storage="packed", align="packed")


def test_a_million_steps(tmp_path, figure):
    """A record of a million steps comes back by both decoders, beside one without any."""
    records = [Wide(np.arange(10**6), np.ones(10**6, "float32")), Wide([], [])]
    sr.write(records, tmp_path / "c")
    assert list(sr.read_records(tmp_path / "c", schema=Wide)) == records
    [batch] = sr.read(tmp_path / "c", batch=sr.Pad(2))
    assert (batch["steps"][0].numpy() == records[0].steps).all()
    assert batch["sequence_length"].numpy().tolist() == [10**6, 0]
    figure(12, "steps of one record", 10**6, "all there")


def test_a_thousand_fields(tmp_path, figure):
    """A class of a thousand fields is written and read."""
    fields = {f"f{n}": sr.context("int64") if n % 2 else sr.feature_list("float32") for n in range(1000)}
    record_class = attrs.make_class("Many", fields)
    records = [record_class(*(n if n % 2 else np.full(3, n, "float32") for n in range(1000))) for _ in range(2)]
    sr.write(records, tmp_path / "c")
    assert list(sr.read_records(tmp_path / "c", schema=record_class)) == records
    [batch] = sr.read(tmp_path / "c", batch=sr.Pad(2), fields=["f1", "f998"])
    assert batch["f998"].numpy().tolist() == [[998.0] * 3] * 2
    figure(12, "fields of one class", 1000, "all there")


@sr.record
class Large:
    key: str = sr.context(str, key=True)
    data: np.ndarray = sr.context("float64", shape=(None,))


@pytest.mark.nightly
def test_a_record_over_two_gigabytes(tmp_path, figure):
    """A record over 2 GiB is refused by its key before protobuf or a file sees it, and nothing is published."""
    data = np.broadcast_to(np.float64(1), 2**28 + 1)
    with pytest.raises(sr.LimitExceededError, match=r"key 'large'.*`split`"):
        sr.write([Large("small", [1.0]), Large("large", data)], tmp_path / "c")
    assert list(tmp_path.iterdir()) == []
    figure(12, "records over 2 GiB", 1, "an error, nothing published")
