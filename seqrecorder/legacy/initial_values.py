"""Variables, lookup tables and placeholders of a TensorFlow 1 graph, as they are after initialisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqrecorder.errors import LiftError, first_line
from seqrecorder.legacy.graph import consumers, through_identities

if TYPE_CHECKING:
    from collections.abc import Mapping

_INITIALISES_TABLES = (
    "InitializeTableV2",
    "InitializeTableFromTextFileV2",
    "LookupTableImportV2",
    "LookupTableInsertV2",
)


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
        self._tables: dict[str, Any] = {}
        self._variables: dict[str, Any] = {}

    def value(self, op: Any) -> Any:
        """Return what stands, in the graph that is being built, for the first output of a cut operation.

        That is a constant for a variable that is read and for a placeholder, and a resource for a table, or for a
        variable that is gathered from.
        """
        import tensorflow as tf

        if op.type == "Placeholder":
            return tf.constant(self.feed[op.name], op.outputs[0].dtype)
        if op.type in ("HashTableV2", "MutableHashTableV2"):
            return tf.identity(self._table(op).resource_handle)
        if op.type == "VarHandleOp":
            return tf.identity(self._variable(op).handle)
        return tf.constant(self.initial(op))

    def initial(self, op: Any) -> Any:
        """Return the initial value of a variable, given by itself or by the operation that reads it."""
        if op.name not in self._values:
            self._values[op.name] = self._run(op.outputs[0], op)
        return self._values[op.name]

    def limit(self, op: Any) -> int:
        """Return how often an operation that counts up to a limit can run."""
        import tensorflow as tf

        variable = through_identities(op.inputs[0]).op
        if variable.name not in self._values:
            tensor = variable.outputs[0]
            if variable.type == "VarHandleOp":
                with self.graph.as_default():
                    tensor = tf.raw_ops.ReadVariableOp(resource=tensor, dtype=variable.get_attr("dtype"))
            self._values[variable.name] = self._run(tensor, variable)
        return max(0, int(op.get_attr("limit")) - int(self._values[variable.name]))

    def close(self) -> None:
        """Release the session in which the initialisers ran."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _table(self, op: Any) -> Any:
        import tensorflow as tf

        if op.name not in self._tables:
            kinds = op.get_attr("key_dtype"), op.get_attr("value_dtype")
            with self.graph.as_default():
                exported = tf.raw_ops.LookupTableExportV2(table_handle=op.outputs[0], Tkeys=kinds[0], Tvalues=kinds[1])
            keys, values = self._run(exported, op)
            with tf.init_scope():
                default = tf.zeros([], kinds[1]) if kinds[1] != tf.string else tf.constant("")
                table: Any
                if op.type == "HashTableV2":
                    content = tf.lookup.KeyValueTensorInitializer(keys, values, *kinds)
                    table = tf.lookup.StaticHashTable(content, default)
                else:
                    table = tf.lookup.experimental.MutableHashTable(*kinds, default)
                    table.insert(tf.constant(keys, kinds[0]), tf.constant(values, kinds[1]))
            self._tables[op.name] = table
        return self._tables[op.name]

    def _variable(self, op: Any) -> Any:
        import tensorflow as tf

        if op.name not in self._variables:
            with self.graph.as_default():
                read = tf.raw_ops.ReadVariableOp(resource=op.outputs[0], dtype=op.get_attr("dtype"))
            value = self._run(read, op)
            with tf.init_scope():
                self._variables[op.name] = tf.Variable(value, trainable=False)
        return self._variables[op.name]

    def _run(self, fetch: Any, op: Any) -> Any:
        """Initialise what an operation holds or reads, and evaluate."""
        import tensorflow as tf

        feed = {self.graph.get_operation_by_name(name).outputs[0]: value for name, value in self.feed.items()}
        try:
            self._initialise(op, feed)
            return self._session.run(fetch, feed)
        except tf.errors.OpError as error:
            self.close()
            raise LiftError(
                f"it cannot be initialised: {_said(error)}",
                advice="initialise it in the input function; lift(..., feed={name: value}) gives placeholders values",
                op=op.name,
            ) from error

    def _initialise(self, op: Any, feed: Any) -> None:
        """Run what initialises a variable or table, once: what is random would be drawn again."""
        import tensorflow as tf

        if self._session is None:
            self._session = tf.compat.v1.Session(graph=self.graph)
        steps = [step for step in _initialisers(op) if step.name not in self._done]
        try:
            self._session.run(steps, feed)
            self._done |= {step.name for step in steps}
        except tf.errors.FailedPreconditionError:  # they depend on others
            self._session.close()
            self._session = tf.compat.v1.Session(graph=self.graph)
            self._initialise_all(feed)

    def _initialise_all(self, feed: Any) -> None:
        """Run the initialisers of all variables, those that depend on others after these."""
        import tensorflow as tf

        collections = [self.graph.get_collection(name) for name in self.graph.get_all_collection_keys()]
        variables = [value for values in collections for value in values if _is_variable(value)]
        waiting = dict.fromkeys(variable.initializer for variable in variables)
        self._done |= {step.name for step in waiting}
        while waiting:
            failed: dict[Any, Exception] = {}
            for initializer in waiting:
                try:
                    self._session.run(initializer, feed)
                except tf.errors.FailedPreconditionError as error:
                    failed[initializer] = error
            if len(failed) == len(waiting):
                raise next(iter(failed.values()))
            waiting = dict.fromkeys(failed)
        tables = self.graph.get_collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS)
        self._session.run(tables, feed)
        self._done |= {step.name for step in tables}


def _initialisers(op: Any) -> list[Any]:
    """Return the operations that initialise a variable or a table, given by itself or by what reads it."""
    if op.inputs:
        op = through_identities(op.inputs[0]).op
    found = [user for user in consumers(op) if user.type in _INITIALISES_TABLES]
    found += [user for user in consumers(op) if user.type.startswith("Assign") and user.name == op.name + "/Assign"]
    return found


def _said(error: Any) -> str:
    """Return what an error of a session says, without the heading that all of them have."""
    return first_line(ValueError(error.message.removeprefix("Graph execution error:").strip()))


def _is_variable(value: Any) -> bool:
    import tensorflow as tf

    return isinstance(value, tf.compat.v1.Variable)
