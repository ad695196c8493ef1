"""`convert`: print an input function of TensorFlow 1 as a module of TensorFlow 2, and prove both equal."""

from seqrecorder.legacy.convert.conversion import Conversion as Conversion
from seqrecorder.legacy.convert.conversion import convert as convert
from seqrecorder.legacy.convert.prove import Comparison as Comparison
from seqrecorder.legacy.convert.prove import compare as compare
