"""For Keras: layers whose state goes on, predictions by record, metrics by step, and training that goes on.

This is the one room that imports Keras; `seqrecorder` itself does not.
"""

from seqrecorder.keras.evaluate import evaluate as evaluate
from seqrecorder.keras.predict import predict as predict
from seqrecorder.keras.training import Resume as Resume
from seqrecorder.keras.training import Unrolled as Unrolled
from seqrecorder.keras.training import get_states as get_states
from seqrecorder.keras.training import set_states as set_states
