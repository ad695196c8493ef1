"""`convert`: print a TensorFlow 1 input function as a TensorFlow 2 module, and prove both equal."""

from seqrecorder.legacy.convert.conversion import Conversion as Conversion
from seqrecorder.legacy.convert.conversion import convert as convert
from seqrecorder.legacy.convert.prove import Comparison as Comparison
from seqrecorder.legacy.convert.prove import compare as compare
