"""What a person can do about what is left of a script, by the code of its reason."""

from __future__ import annotations

_LIFT = "seqrecorder.legacy.lift(function) runs it unchanged, as a tf.data.Dataset"
_BY_HAND = f"rewrite it by hand, or keep it: {_LIFT}"
_ADVICE = {
    "batch-elsewhere": "assign the batch to a name, or return it, and migrate again",
    "callers": "give it what it takes now, and use what it returns now: the diff of its file shows both",
    "consumer": "iterate over the dataset in place of the session's loop",
    "contrib": "take what is there from seqrecorder.legacy.contrib, or run it: seqrecorder legacy run SCRIPT",
    "datasetdataprovider": f"{_LIFT}, with seqrecorder.legacy.compat() around the import",
    "defined-twice": "give each of them a name of its own, and migrate again",
    "differs": "please report it; until then write that function by hand",
    "internal": "please report it, with the script if you may",
    "later-python": "write it as an assignment, an if or an except, and migrate again",
    "missing": "write what TensorFlow 2 has for it",
    "escapes": "batch it too, or compute it from the batch",
    "fed": "write what Python code puts into the queue as a generator, for tf.data.Dataset.from_generator; or keep it, "
    "in graphs alone, with --fallback=lift",
    "graph-state": "move it behind the batch, or to where the batch is used",
    "returns": "choose --target=graph, which keeps tensors; or let a function return what is read",
    "not-tensorflow": "write import tensorflow as tf, where that is what it is, and migrate again",
    "old-api": "change it first: the script is for a TensorFlow before 1.0",
    "reader-class": f"{_LIFT}; TF-Slim's providers are found with seqrecorder.legacy.compat() around the import",
    "queue-given": f"let that take a serialized record, and map it over a dataset of the files' records; or {_LIFT}",
    "queue-from-elsewhere": "migrate it in one directory with its caller, if any; or let it take a serialized record",
    "read-batch-features": f"tf.data.experimental.make_batched_features_dataset is the nearest; {_LIFT}",
    "read-batch-record-features": f"tf.data.experimental.make_batched_features_dataset is the nearest; {_LIFT}",
    "notebook": "make it a script, jupyter nbconvert --to script NOTEBOOK, and migrate that",
    "python2": "write what Python 3 has for it",
    "sparse": "make them dense before the batch, with tf.sparse.to_dense, and migrate again",
    "summary": "write the summary of each batch in the loop that takes it",
    "syntax": "make it Python 3 that can be read",
    "tensors-from-elsewhere": "migrate it in one directory with what makes them, if known; or let it take a dataset",
    "together": "see what is said of that one, and migrate again",
    "unreadable": "save it in the encoding that it declares",
    "unhashable": "unite the dictionaries as {**one, **other}",
    "unsynced": "write it again where the disk can be trusted",
    "unwritable": "nothing of it was changed; make it writable, and migrate again",
    "changed": "nothing of it was written; migrate again",
}


def advice(code: str) -> str:
    """Return what to do about a reason.

    >>> advice("unhashable")
    'unite the dictionaries as {**one, **other}'
    """
    return _ADVICE.get(code, _BY_HAND)
