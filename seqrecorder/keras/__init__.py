"""Helpers for Keras: predictions per record, metrics per step, resumable training and stateful layers.

Only this package imports Keras; `import seqrecorder` does not.
"""

from seqrecorder.keras.evaluate import evaluate as evaluate
from seqrecorder.keras.predict import predict as predict
from seqrecorder.keras.resume import Resume as Resume
from seqrecorder.keras.unrolled import Unrolled as Unrolled
from seqrecorder.keras.unrolled import get_states as get_states
from seqrecorder.keras.unrolled import set_states as set_states
