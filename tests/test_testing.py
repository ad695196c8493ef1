"""`testing.assert_round_trip`: it passes for what is exact and says what is not."""

import numpy as np
import pytest

import seqrecorder as sr


@sr.record
class Frame:
    name: str = sr.context(str)
    pixels: np.ndarray = sr.feature_list("uint8", shape=(8, 8, 3), storage="jpeg")


def test_lossy_storage_is_noticed() -> None:
    """A value that comes back changed is an AssertionError that names the field, the record and the way."""
    noise = np.random.default_rng(0).integers(0, 255, (1, 8, 8, 3)).astype("uint8")
    with pytest.raises(AssertionError, match="encode and decode: record 0, field 'pixels'"):
        sr.testing.assert_round_trip([Frame("a", noise)])


def test_a_record_that_cannot_be_encoded_is_said() -> None:
    """A record that cannot be encoded raises as `encode` does."""
    with pytest.raises(sr.RecordError, match="pixels"):
        sr.testing.assert_round_trip([Frame("a", np.zeros((1, 8, 8), "uint8"))])


@sr.record
class Loaded:
    name: str = sr.context(str)
    values: np.ndarray = sr.feature_list("float32", deferred=True, default=None)

    def load(self, length: int) -> None:
        if self.name == "none":
            raise sr.SkipRecord
        self.values = np.arange(length, dtype="float32")

    def split(self) -> object:
        yield Loaded(self.name, self.values[:2])
        yield Loaded(self.name, self.values[2:])


def test_hooks_are_run_first() -> None:
    """A class with deferred loading and chunks is checked as it would be written, with the parameters of its hooks."""
    sr.testing.assert_round_trip([Loaded("a"), Loaded("none")], length=5)
    with pytest.raises(sr.OptionError, match="left every record out"):
        sr.testing.assert_round_trip([Loaded("none")], length=5)
    with pytest.raises(sr.OptionError, match="did you mean 'length'"):
        sr.testing.assert_round_trip([Loaded("a")], lenght=5)


def test_no_record_is_a_mistake() -> None:
    """Without a record nothing would be checked, which is refused."""
    with pytest.raises(sr.OptionError, match="at least one"):
        sr.testing.assert_round_trip([])
