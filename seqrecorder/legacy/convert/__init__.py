"""Conversion of a TensorFlow 1 input function to a TensorFlow 2 module, and proof that both yield the same batches."""

from seqrecorder.legacy.convert.conversion import Conversion as Conversion
from seqrecorder.legacy.convert.conversion import convert as convert
from seqrecorder.legacy.convert.prove import Comparison as Comparison
from seqrecorder.legacy.convert.prove import compare as compare
