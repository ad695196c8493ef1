"""Planned reads: the records of a selection in place, a run of neighbours after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.graph_ops import checked
from seqrecorder.dataset.manifest import column
from seqrecorder.reading.tfdata_ops import flat_mapped, rebatched, scanned
from seqrecorder.storage.tfrecord import FOOTER, HEADER, advice, opened, tf_records

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqrecorder.dataset.shard_set import Origin


@attrs.frozen(eq=False)
class PlannedReads:
    """What is read instead of some files.

    Attributes:
        paths: of all shards that runs are of.
        table: int64, `(n, 5)`: the runs of all files (see `seqrecorder.dataset.shard_set.Runs`).
        ends: int64, `(files + 1,)`: which of the runs each file has.
        hint: what to verify.
    """

    paths: list[str]
    table: NDArray[np.int64]
    ends: NDArray[np.int64]
    hint: Any

    @classmethod
    def of(cls, origin: Origin) -> PlannedReads:
        """Return what is read of an origin, of whose files all have runs."""
        runs = column(origin.files, "runs")
        bases = np.cumsum([0, *(len(run.paths) for run in runs)])
        tables = [run.table + np.array([base, 0, 0, 0, 0]) for run, base in zip(runs, bases.tolist(), strict=False)]
        paths = [str(path) for run in runs for path in run.paths]
        ends = np.cumsum([0, *(len(table) for table in tables)])
        return cls(paths, np.concatenate(tables), ends, origin.manifest.path if origin.manifest else "")

    def records(self, file: Any, window: int) -> Any:
        """Return the windows of the records of a file, a `tf.data.Dataset` of string `(w,)`.

        Args:
            file: its number, int64 scalar.
            window: records to a window.
        """
        import tensorflow as tf

        first, stop = tf.unstack(tf.gather(tf.constant(self.ends, tf.int64), tf.stack([file, file + 1])))
        runs = tf.data.Dataset.from_tensor_slices(tf.constant(self.table)[first:stop])
        return rebatched(flat_mapped(runs, lambda run: self._run(run, window)), window)

    def _run(self, run: Any, window: int) -> Any:
        """Return the records of a run in vectors, of which the last is empty, once all of them came."""
        import tensorflow as tf

        shard, row, count, start, stop = tf.unstack(run)
        path = tf.gather(tf.constant(self.paths), shard)
        # As of whole files: a record that is damaged ends the run, whose count then fails.
        found = opened(path).concatenate(tf_records(path, None, (start, stop)).ignore_errors()).take(count)
        ended = tf.data.Dataset.from_tensors(tf.zeros([0], tf.string))

        def counted(state: tuple[Any, Any], serialized: Any) -> tuple[Any, Any]:
            done, byte = state
            size = tf.size(serialized, tf.int64)
            serialized = checked(
                serialized,
                (size > 0) | tf.equal(done, count),
                *("shard", path, "record", row + done, "at byte", byte, "is damaged or missing;"),
                advice(self.hint),
            )
            frames = tf.cast(tf.strings.length(serialized), tf.int64) + (HEADER + FOOTER)
            return (done + size, byte + tf.reduce_sum(frames)), serialized

        return scanned(found.batch(window).concatenate(ended), (tf.zeros_like(count), start), counted)
