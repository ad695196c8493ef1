"""A migrated script one step further: the features that it parses become an attrs class, and `seqrecorder.read` reads.

This is for scripts whose records are SequenceExamples and whose features are written out where they are parsed. Where
the files come in their own order, `seqrecorder.read` takes the place of the datasets of files and records; where they
are shuffled, those stay, and the class's schema parses what they give.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import attrs

from seqrecorder.draft import draft
from seqrecorder.dtypes import element_type
from seqrecorder.errors import SchemaError
from seqrecorder.fields import Field
from seqrecorder.migrate.flow import binds, loads
from seqrecorder.migrate.names import Names
from seqrecorder.migrate.source import Edit, Source
from seqrecorder.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PARSE = frozenset({"tf.parse_single_sequence_example", "tf.io.parse_single_sequence_example"})
_KINDS = {
    "tf.FixedLenFeature": "context",
    "tf.io.FixedLenFeature": "context",
    "tf.FixedLenSequenceFeature": "feature_list",
    "tf.io.FixedLenSequenceFeature": "feature_list",
}
_DTYPES = {"tf.int64": "int64", "tf.float32": "float32", "tf.string": "bytes"}
_CLASS = "Record"


@attrs.frozen(eq=False)
class _Parsing:
    """A function that takes one serialized record apart, and does nothing else with it."""

    function: ast.FunctionDef
    statement: ast.Assign
    targets: tuple[str, str]
    specs: tuple[dict[str, ast.expr], dict[str, ast.expr]]
    gone: tuple[ast.stmt, ...]


def with_record_class(text: str) -> str | None:
    """Return a script for which `target="eager"` was chosen, with an attrs class; None where that is not clear."""
    source = Source(text)
    names = Names(source.tree)
    used = {node.id for node in ast.walk(source.tree) if isinstance(node, ast.Name)}
    found = [parsing for function in _functions(source.tree) if (parsing := _parsing(function, names))]
    if len(found) != 1 or {_CLASS, "sr"} & used or not names.imports:
        return None
    [parsing] = found
    schema = _schema(parsing, names)
    reading = _reading(source, parsing)
    if schema is None or reading is None:
        return None
    edits = [*_parsing_edits(source, parsing), *reading, *_imports(source, names)]
    place = next(node for node in source.tree.body if parsing.function in ast.walk(node))
    first = source.span(place)[0]
    lines = draft(schema).split("\n")
    edits.append(Edit(first, first - 1, (*lines, "", "")))
    return source.edited(edits)


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _parsing(function: ast.FunctionDef, names: Names) -> _Parsing | None:
    """Return how a function parses, None where it does not or where that is not clear."""
    parameters = [argument.arg for argument in function.args.args]
    for statement in function.body:
        call = statement.value if isinstance(statement, ast.Assign) else None
        if not isinstance(call, ast.Call) or names.called(call) not in _PARSE or not isinstance(statement, ast.Assign):
            continue
        given = dict(zip(("serialized", "context_features", "sequence_features"), call.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        pair = statement.targets[0]
        items = pair.elts if isinstance(pair, ast.Tuple) else []
        targets = [item.id for item in items if isinstance(item, ast.Name)]
        serialized = given.get("serialized")
        if len(targets) != len(("context", "sequence")) or not isinstance(serialized, ast.Name):
            return None
        if serialized.id not in parameters or len(loads(function, serialized.id)) != 1:
            return None
        specs, gone = [], list[ast.stmt]()
        for part in ("context_features", "sequence_features"):
            spec = _literal(function, given.get(part), gone)
            if spec is None:
                return None
            specs.append(spec)
        return _Parsing(function, statement, (targets[0], targets[1]), (specs[0], specs[1]), tuple(gone))
    return None


def _literal(function: ast.FunctionDef, node: ast.expr | None, gone: list[ast.stmt]) -> dict[str, ast.expr] | None:
    """Return the features that are written out in a dictionary, or in one that a name stands for."""
    if node is None:
        return {}
    if isinstance(node, ast.Name):
        made = [s for s in function.body if isinstance(s, ast.Assign) and node.id in binds(s)]
        if not made or len(loads(function, node.id)) != 1 or not isinstance(made[0].value, ast.Dict):
            return None
        gone.append(made[0])
        node = made[0].value
    if not isinstance(node, ast.Dict):
        return None
    keys = [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    return dict(zip(keys, node.values, strict=True)) if len(keys) == len(node.values) else None


def _schema(parsing: _Parsing, names: Names) -> Schema | None:
    fields = []
    for name, spec in {**parsing.specs[0], **parsing.specs[1]}.items():
        field = _field(name, spec, names)
        if field is None:
            return None
        fields.append(field)
    return Schema(_CLASS, tuple(fields)) if fields else None


def _field(name: str, spec: ast.expr, names: Names) -> Field | None:
    """Return the field of a feature, None where it is not written out or there is none."""
    kind = _KINDS.get(names.called(spec) or "")
    if kind is None or not isinstance(spec, ast.Call) or not name.isidentifier():
        return None
    given = dict(zip(("shape", "dtype"), spec.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in spec.keywords if keyword.arg}
    shape, dtype = given.get("shape"), _DTYPES.get(names.resolve(given["dtype"]) or "") if "dtype" in given else None
    if dtype is None or set(given) != {"shape", "dtype"} or not isinstance(shape, (ast.List, ast.Tuple)):
        return None
    sizes = [item.value for item in shape.elts if isinstance(item, ast.Constant) and isinstance(item.value, int)]
    if len(sizes) != len(shape.elts):
        return None
    try:
        # The parser lets the lists of a record differ in length.
        return Field(name, name, kind, element_type(dtype), tuple(sizes), align=None)  # type: ignore[arg-type]
    except SchemaError:
        return None


def _parsing_edits(source: Source, parsing: _Parsing) -> list[Edit]:
    """Return the edits that take the features from a parsed record."""
    function, statement = parsing.function, parsing.statement
    indent = source.indent(statement)
    parameter = next(
        a for a in function.args.args if len(loads(function, a.arg)) == 1 and _is_serialized(parsing, a.arg)
    )
    lines = [
        f"{indent}{target} = {{name: {parameter.arg}[name] for name in {_listed(spec)}}}"
        for target, spec in zip(parsing.targets, parsing.specs, strict=True)
        if spec and target != "_"
    ]
    edits = [Edit(statement.lineno, statement.end_lineno or statement.lineno, tuple(lines))]
    return edits + [Edit(*source.span(gone), ()) for gone in parsing.gone]


def _listed(names: Iterable[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def _is_serialized(parsing: _Parsing, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(parsing.statement.value))


def _reading(source: Source, parsing: _Parsing) -> list[Edit] | None:
    """Return the edits that let `seqrecorder.read`, or the schema, parse; None where it is not clear where."""
    name = parsing.function.name
    mapped = [f for f in _functions(source.tree) if f is parsing.function or _only_calls(f, name)]
    maps = [
        (scope, statement)
        for scope in _functions(source.tree)
        for statement in ast.walk(scope)
        if isinstance(statement, ast.Assign)
        and _mapping(statement) in {f.name for f in mapped}
        and _owns(scope, statement)
    ]
    uses = [n for n in ast.walk(source.tree) if isinstance(n, ast.Name) and n.id == name]
    if len(maps) != 1 or len(uses) != 1:
        return None
    [(scope, mapping)] = maps
    dataset = ast.unparse(mapping.targets[0])
    own = [s for s in ast.walk(scope) if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == dataset]
    before = sorted((s for s in own if s.lineno < mapping.lineno), key=lambda s: s.lineno)
    if not before or ast.unparse(before[-1].value) != f"{dataset}.flat_map(tf.data.TFRecordDataset)":
        return None
    files = _in_order(before[0].value) if len(before) == len(("files", "records")) else None
    if files is None:
        last = before[-1]
        line = f"{source.indent(last)}{dataset} = {dataset}.map(sr.Schema.of({_CLASS}).parse)"
        return [Edit((last.end_lineno or last.lineno) + 1, last.end_lineno or last.lineno, (line,))]
    indent = source.indent(before[0])
    what, epochs = files
    repeated = source.segment(epochs) if epochs else None
    line = f"{indent}{dataset} = sr.read({source.segment(what)}, schema={_CLASS}, epochs={repeated})"
    return [
        Edit(before[0].lineno, before[0].end_lineno or 0, (line,)),
        Edit(before[1].lineno, before[1].end_lineno or 0, ()),
    ]


def _only_calls(function: ast.FunctionDef, name: str) -> bool:
    """Whether a function hands its only parameter on to another, and does nothing else with it."""
    given = [argument.arg for argument in function.args.args]
    if len(given) != 1 or len(loads(function, given[0])) != 1:
        return False
    calls = [n for n in ast.walk(function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    return any(
        c.func.id == name and c.args and ast.unparse(c.args[0]) == given[0]
        for c in calls
        if isinstance(c.func, ast.Name)
    )


def _mapping(statement: ast.Assign) -> str | None:
    """Return the function that a statement maps a dataset with."""
    call = statement.value
    if (
        not isinstance(call, ast.Call)
        or not isinstance(call.func, ast.Attribute)
        or call.func.attr != "map"
        or not call.args
    ):
        return None
    same = ast.unparse(call.func.value) == ast.unparse(statement.targets[0])
    return call.args[0].id if same and isinstance(call.args[0], ast.Name) else None


def _owns(scope: ast.FunctionDef, statement: ast.stmt) -> bool:
    inner = [f for f in ast.walk(scope) if isinstance(f, ast.FunctionDef) and f is not scope]
    return not any(statement in ast.walk(f) for f in inner)


def _in_order(made: ast.expr) -> tuple[ast.expr, ast.expr | None] | None:
    """Return files and epochs of `tf.data.Dataset.from_tensor_slices(FILES).repeat(EPOCHS)`, None for all else."""
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute) or made.func.attr != "repeat":
        return None
    inner = made.func.value
    if not isinstance(inner, ast.Call) or ast.unparse(inner.func) != "tf.data.Dataset.from_tensor_slices":
        return None
    return inner.args[0], made.args[0] if made.args else None


def _imports(source: Source, names: Names) -> list[Edit]:
    """Return the edits that import what the class needs."""
    have = {
        (alias.name, alias.asname) for node in source.tree.body if isinstance(node, ast.Import) for alias in node.names
    }
    wanted = (("numpy", "np"), ("seqrecorder", "sr"))
    node = names.imports[0]
    last = node.end_lineno or node.lineno
    lines = [f"{source.indent(node)}import {name} as {short}" for name, short in wanted if (name, short) not in have]
    return [Edit(last + 1, last, tuple(lines))]
