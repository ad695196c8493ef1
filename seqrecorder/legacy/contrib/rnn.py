"""`tf.contrib.rnn`: the state of an LSTM, which code beside the input makes and takes apart."""

from __future__ import annotations

from typing import Any, NamedTuple


class LSTMStateTuple(NamedTuple):
    """`tf.contrib.rnn.LSTMStateTuple`: the state of an LSTM cell.

    Attributes:
        c: of the cell.
        h: its output.
    """

    c: Any
    h: Any
