"""Queue-based readers of TensorFlow 1, run in current TensorFlow or converted to tf.data.

`lift` turns an unchanged input function into a `tf.data.Dataset`, `get_next` feeds the elements of a dataset to an old
training loop, and `compat` provides `tf.contrib` and the other names of TensorFlow 1 to old scripts. `text_lines`,
`tf_records`, `fixed_length_records`, `whole_files` and `producer` are for new code that must return the same elements
as old code, including keys.
"""

from seqrecorder.legacy import contrib as contrib
from seqrecorder.legacy.compatibility import compat as compat
from seqrecorder.legacy.convert import Comparison as Comparison
from seqrecorder.legacy.convert import Conversion as Conversion
from seqrecorder.legacy.convert import compare as compare
from seqrecorder.legacy.convert import convert as convert
from seqrecorder.legacy.lifted import Lifted as Lifted
from seqrecorder.legacy.lifted import Stage as Stage
from seqrecorder.legacy.lifting import lift as lift
from seqrecorder.legacy.lifting import trace as trace
from seqrecorder.legacy.readers import fixed_length_records as fixed_length_records
from seqrecorder.legacy.readers import producer as producer
from seqrecorder.legacy.readers import text_lines as text_lines
from seqrecorder.legacy.readers import tf_records as tf_records
from seqrecorder.legacy.readers import whole_files as whole_files
from seqrecorder.legacy.session import get_next as get_next
