"""The function that is mapped over records, and what it returns for the batch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import only, only_indexed, own_nodes, walk, writes
from seqrecorder.legacy.migrate.rewrite.output import only_call
from seqrecorder.legacy.migrate.rewrite.record_statements import element
from seqrecorder.legacy.migrate.unclear import Unclear

if TYPE_CHECKING:
    from seqrecorder.legacy.migrate.analyze.stages import Batch, Stages
    from seqrecorder.legacy.migrate.analyze.structure import Structures
    from seqrecorder.legacy.migrate.rewrite.output import Delivery
    from seqrecorder.legacy.migrate.rewrite.record_statements import Origin
    from seqrecorder.legacy.migrate.rewrite.text import Text

_ELEMENTS = ("tf.train.range_input_producer", "tf.train.slice_input_producer", "source")
"""Producers whose elements are no serialized records."""

_SEVERAL = 2


class Mapper:
    """Writes the function that is mapped over the records of one scope.

    Args:
        text: writes for the scope.
        delivery: of what the dataset gives.
        stages: of the scope.
    """

    def __init__(self, text: Text, delivery: Delivery, stages: Stages) -> None:
        self.text, self._delivery, self.stages = text, delivery, stages
        self.dataset = delivery.dataset

    def mapping(
        self, origin: Origin, moved: list[ast.stmt], batch: Batch, structures: Structures
    ) -> tuple[list[str], str]:
        """Return the lines that map records to what is batched, and the structure of that."""
        tensors = element(batch)
        bucket = batch.arguments["input_length"] if "input_length" in batch.arguments.given else None
        rebound = {name for statement in moved for name in writes(statement)}
        structure, returned = self._returned(tensors, structures, origin, rebound)
        if bucket is not None:
            inner = (
                f"({returned},)" if structure == "one-list" else f"({returned})" if structure != "dict" else returned
            )
            inner = inner[1:-1] if inner.startswith("(tuple(") else inner
            returned, structure = f"{self.text.of(bucket)}, {inner}", "pair"
        elif structure == "one-list":
            structure = "one"
        dropping: list[str] = []
        if (keep := self._keep(batch)) is not None:
            returned = f"{keep}, ({returned})" if structure in ("list", "pair") else f"{keep}, {returned}"
            dropping.append(f"{self.dataset} = {self.dataset}.filter(lambda keep, tensors: keep)")
            dropping.append(f"{self.dataset} = {self.dataset}.map(lambda keep, tensors: tensors)")
        parameters = ", ".join(("*" if origin.starred else "") + name for name in origin.names)
        if not moved and returned == ", ".join(origin.names) and not origin.starred and origin.call is None:
            return [], structure
        if not moved and origin.starred and returned in (f"tuple({origin.names[0]})", origin.names[0]):
            return [], structure
        listed: list[str] = []
        bare = isinstance(tensors, ast.Name)
        if origin.starred and not only_indexed([*moved, *([] if bare else [tensors])], origin.names[0]):
            listed.append(f"{origin.names[0]} = list({origin.names[0]})")  # as which it may be changed
        function, lines = self._function(moved, parameters, returned, batch, structures, first=listed)
        parallel = self._delivery.parallel(several=batch.arguments.constant("num_threads", 1) != 1)
        lines += [""] * bool(lines)
        return [*lines, f"{self.dataset} = {self.dataset}.map({function}{parallel})", *dropping], structure

    def _keep(self, batch: Batch) -> str | None:
        """Return the expression of whether a record is kept, None where all are."""
        keep = batch.arguments["keep_input"]
        if keep is None or (isinstance(keep, ast.Constant) and keep.value is True):
            return None
        if batch.arguments.constant("enqueue_many", default=False) is not False:
            raise Unclear("keep-input", "keep_input decides on several records at once", batch.statement)
        text = self.text.of(keep)
        return text if self.text.names.called(keep) else f"{self.text.tf}.cast({text}, {self.text.tf}.bool)"

    def _function(
        self,
        moved: list[ast.stmt],
        parameters: str,
        returned: str,
        batch: Batch,
        structures: Structures,
        *,
        first: list[str],
    ) -> tuple[str, list[str]]:
        """Return the function of a record, and the lines that define it, if it is not one of the script's own."""
        if not moved and not first and (own := only_call(returned, [parameters])) is not None:
            return own, []
        unit = self.text.source.unit(self.text.source.indent(batch.statement))
        body = [unit + line for line in first] + self.text.moved(moved, unit)
        if moved and (direct := self._direct(moved[-1], returned, structures)) is not None:
            number, column = direct
            place = len(body) - (self.text.source.span(moved[-1])[1] - number + 1)
            body[place] = f"{unit}return {body[place][column + len(unit) :]}"
        else:
            body.append(f"{unit}return {returned}")
        if len(body) == 1 and (own := only_call(body[0].strip().removeprefix("return "), [parameters])) is not None:
            return own, []
        serialized = any(producer.kind not in _ELEMENTS for producer in self.stages.producers)
        function = self.text.fresh(
            "parse" if serialized else "prepare", "parse_record" if serialized else "prepare_record"
        )
        return function, ["", f"def {function}({parameters}):", *body]

    def _direct(self, last: ast.stmt, returned: str, structures: Structures) -> tuple[int, int] | None:
        """Return where the value stands that a function can return as it is, without naming it first."""
        if not isinstance(last, ast.Assign) or len(last.targets) != 1 or last.value.lineno != last.lineno:
            return None
        if not self.text.source.lines[last.lineno - 1].isascii():  # columns count bytes
            return None
        target = last.targets[0]
        same = ast.unparse(target).strip("()") == returned
        if not same or structures.of(last.value) not in ("dict", "tuple", "one"):
            return None
        if isinstance(target, ast.Tuple) and structures.of(last.value) != "tuple":
            return None
        return last.lineno, last.value.col_offset - last.col_offset

    def _returned(
        self, tensors: ast.expr, structures: Structures, origin: Origin, rebound: set[str]
    ) -> tuple[str, str]:
        """Return the structure of what is batched, and the expression that the mapped function returns."""
        if isinstance(tensors, (ast.List, ast.Tuple)) and not any(isinstance(i, ast.Starred) for i in tensors.elts):
            parts = [self.text.of(item) for item in tensors.elts]
            if len(parts) == 1:
                return "one-list", parts[0]
            return "list", ", ".join(parts)
        if isinstance(tensors, ast.Name) and tensors.id in origin.names and tensors.id not in rebound:
            if origin.starred:
                slices = self.stages.producers[0].arguments["tensor_list"]
                if isinstance(slices, (ast.List, ast.Tuple)) and len(slices.elts) < _SEVERAL:
                    raise Unclear("structure", f"{tensors.id} holds one tensor, of which a batch is no list", tensors)
                return "list", tensors.id
            return "one", tensors.id
        structure = structures.of(tensors)
        if structure is None and self._is_of_one(tensors):
            return "one-list", f"{self.text.of(tensors)}[0]"
        if structure is None:
            raise Unclear(
                "structure", f"whether {ast.unparse(tensors)} is a dictionary or a list cannot be told", tensors
            )
        if structure in ("list", "tuple") and structures.least(tensors) < _SEVERAL:
            said = f"whether {ast.unparse(tensors)} holds one tensor cannot be told, of which a batch would be no list"
            raise Unclear("structure", said, tensors)
        if structure == "list":
            return "list", f"tuple({self.text.of(tensors)})"
        return ("list" if structure == "tuple" else structure), self.text.of(tensors)

    def _is_of_one(self, tensors: ast.expr) -> bool:
        """Whether what is batched is the list of one tensor that a function of the script returns."""
        tree, func = self.text.source.tree, tensors.func if isinstance(tensors, ast.Call) else None
        called = [f for f in only(ast.FunctionDef, walk(tree)) if isinstance(func, ast.Name) and f.name == func.id]
        given = [n.value for function in called for n in only(ast.Return, own_nodes(function))]
        lists = [v.elts for v in given if isinstance(v, (ast.List, ast.Tuple))]
        one = all(len(items) == 1 and not isinstance(items[0], ast.Starred) for items in lists)
        return len(called) == 1 and called[0] in tree.body and bool(lists) and len(lists) == len(given) and one
