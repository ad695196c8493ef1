"""`tf.contrib.rnn`, reduced to the state of an LSTM cell."""

from __future__ import annotations

from typing import Any, NamedTuple


class LSTMStateTuple(NamedTuple):
    """State of an LSTM cell, as in `tf.contrib.rnn.LSTMStateTuple`.

    Attributes:
        c: the cell state.
        h: the output.
    """

    c: Any
    h: Any
