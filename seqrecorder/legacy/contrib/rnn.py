"""`tf.contrib.rnn`: the state of an LSTM cell."""

from __future__ import annotations

from typing import Any, NamedTuple


class LSTMStateTuple(NamedTuple):
    """`tf.contrib.rnn.LSTMStateTuple`: the state of an LSTM cell.

    Attributes:
        c: the cell state.
        h: the output.
    """

    c: Any
    h: Any
