"""Record what `tf.contrib` gave: `python record.py contrib-1.15.5.json`, in TensorFlow 1.15.5 and Python 3.7.

python3.7 -m venv old
old/bin/pip install tensorflow==1.15.5 'protobuf<3.21' 'numpy<1.19'
old/bin/python tests/legacy/golden/record.py tests/legacy/golden/contrib-1.15.5.json
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import pipelines
import tensorflow as tf


def leaves(value):
    """Flatten what a session gave, sparse tensors in parts."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in leaves(value[key])]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    array = np.asarray(value)
    values = [x.decode("latin-1") if isinstance(x, bytes) else x for x in array.ravel().tolist()]
    return [
        {"dtype": "string" if array.dtype.kind in "SO" else array.dtype.name, "shape": array.shape, "values": values}
    ]


def structure(value):
    """Describe how what a pipeline returns is nested."""
    if isinstance(value, dict):
        return {key: structure(value[key]) for key in sorted(value)}
    if isinstance(value, (list, tuple)) and not isinstance(value, tf.SparseTensor):
        return [structure(item) for item in value]
    return type(value).__name__


def run(function, pause):
    """Return the structure of what a pipeline returns, and all that it gives, with a pause after each step."""
    elements = []
    with tf.Graph().as_default():
        returned = function()
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer(), tf.tables_initializer()])
            tf.train.start_queue_runners(session, tf.train.Coordinator())
            try:
                while True:
                    elements.append(leaves(session.run(returned, options=tf.RunOptions(timeout_in_ms=5000))))
                    time.sleep(pause)
            except (tf.errors.OutOfRangeError, tf.errors.DeadlineExceededError) as error:
                end = type(error).__name__
        return {"structure": structure(returned), "end": end, "elements": elements}


def main(destination):
    """Run all pipelines, and write what they gave."""
    destination = Path(destination).resolve()
    os.chdir(tempfile.mkdtemp())
    pipelines.write_files()
    found = {}
    for name, (function, _) in sorted(pipelines.PIPELINES.items()):
        # Without time between steps, the state saver loses more or less of the end.
        found[name] = run(function, pause=0.5 if name.startswith("segments") else 0)
    text = json.dumps({"tensorflow": tf.__version__, "pipelines": found}, separators=(",", ":"))
    destination.write_text(text + "\n")
    os._exit(0)  # threads of the state saver never end


if __name__ == "__main__":
    main(*sys.argv[1:])
