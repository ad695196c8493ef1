"""Variables, lookup tables and placeholders of a TensorFlow 1 graph, as they are after initialisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.errors import LiftError, first_line
from seqrecorder.legacy.graph import back_from, consumers, through_identities
from seqrecorder.legacy.refusals import TABLES, VARIABLES

if TYPE_CHECKING:
    from collections.abc import Mapping

_FILLING = ("InitializeTable", "LookupTableImport", "LookupTableInsert")
"""How operations are called that fill a table."""


class State:
    """What a graph holds besides its queues.

    Args:
        graph: a `tf.Graph`.
        feed: values of placeholders, by name.
    """

    def __init__(self, graph: Any, feed: Mapping[str, Any]) -> None:
        self.graph, self.feed = graph, dict(feed)
        self._session: Any = None
        self._done: set[str] = set()
        self._values: dict[str, Any] = {}
        self._resources: dict[str, Any] = {}

    def value(self, op: Any) -> Any:
        """Return what stands, in the graph that is being built, for the first output of a cut operation.

        That is a constant for a variable that is read and for a placeholder, and a resource for a table, or for a
        variable that is gathered from.
        """
        import tensorflow as tf

        if op.type == "Placeholder":
            return tf.constant(self.feed[op.name], op.outputs[0].dtype)
        if op.type not in (*TABLES, "VarHandleOp"):
            return tf.constant(self._initial(op))
        if op.name not in self._resources:
            self._resources[op.name] = self._table(op) if op.type in TABLES else self._variable(op)
        held = self._resources[op.name]
        return tf.identity(held.resource_handle if op.type in TABLES else held.handle)

    def limit(self, op: Any) -> int:
        """Return how often an operation that counts up to a limit can run."""
        return max(0, int(op.get_attr("limit")) - int(self._initial(through_identities(op.inputs[0]).op)))

    def close(self) -> None:
        """Release the session in which the initialisers ran."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _initial(self, op: Any) -> Any:
        """Return the initial value of a variable, given by itself or by the operation that reads it."""
        import tensorflow as tf

        if op.name not in self._values:
            tensor = op.outputs[0]
            if op.type == "VarHandleOp":
                with self.graph.as_default():
                    tensor = tf.raw_ops.ReadVariableOp(resource=tensor, dtype=op.get_attr("dtype"))
            self._values[op.name] = self._run(tensor, op)
        return self._values[op.name]

    def _variable(self, op: Any) -> Any:
        import tensorflow as tf

        value = self._initial(op)
        with tf.init_scope():
            return tf.Variable(value, trainable=False)

    def _table(self, op: Any) -> Any:
        import tensorflow as tf

        kinds = op.get_attr("key_dtype"), op.get_attr("value_dtype")
        with self.graph.as_default():
            exported = tf.raw_ops.LookupTableExportV2(table_handle=op.outputs[0], Tkeys=kinds[0], Tvalues=kinds[1])
        keys, values = self._run(exported, op)
        with tf.init_scope():
            default = tf.zeros([], kinds[1]) if kinds[1] != tf.string else tf.constant("")
            if op.type == "HashTableV2":
                return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values, *kinds), default)
            table = tf.lookup.experimental.MutableHashTable(*kinds, default)
            table.insert(tf.constant(keys, kinds[0]), tf.constant(values, kinds[1]))
            return table

    def _run(self, fetch: Any, op: Any) -> Any:
        """Initialise what an operation holds or reads, and evaluate."""
        import tensorflow as tf

        if self._session is None:
            self._session = tf.compat.v1.Session(graph=self.graph)
        feed = {self.graph.get_operation_by_name(name).outputs[0]: value for name, value in self.feed.items()}
        try:
            self._initialise(through_identities(op.inputs[0]).op if op.inputs else op, feed)
            return self._session.run(fetch, feed)
        except tf.errors.OpError as error:
            self.close()
            raise LiftError(
                f"it cannot be initialised: {_said(error)}",
                advice="initialise it in the input function; lift(..., feed={name: value}) gives placeholders values",
                op=op.name,
            ) from error

    def _initialise(self, op: Any, feed: Any) -> None:
        """Run what initialises a variable or table, once, as chance would draw again; what it reads comes first."""
        if op.name in self._done:
            return
        self._done.add(op.name)
        steps = _initialisers(op)
        for other in [each for each in back_from(steps) if each.type in VARIABLES or each.type in TABLES]:
            self._initialise(other, feed)
        self._session.run(steps, feed)


def _initialisers(op: Any) -> list[Any]:
    """Return the operations that initialise a variable or a table."""
    return [
        user
        for user in consumers(op)
        if user.type.startswith(_FILLING) or (user.type.startswith("Assign") and user.name == op.name + "/Assign")
    ]


def _said(error: Any) -> str:
    """Return what an error of a session says, without the heading that all of them have."""
    return first_line(ValueError(error.message.removeprefix("Graph execution error:").strip()))
