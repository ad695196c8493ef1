"""A migrated script one step further: the features that it parses become an attrs class, and `seqrecorder.read` reads.

This is for scripts whose records are SequenceExamples and whose features are written out where they are parsed. Where
the files come in their own order, `seqrecorder.read` takes the place of the datasets of files and records; where they
are shuffled, those stay, and the class's schema parses what they give.
"""

from __future__ import annotations

import ast
import keyword
from typing import TYPE_CHECKING

import attrs

from seqrecorder.errors import SchemaError
from seqrecorder.legacy.migrate.analyze.data_flow import binds, loads, walk
from seqrecorder.legacy.migrate.analyze.names import Names
from seqrecorder.legacy.migrate.source import Edit, Source
from seqrecorder.legacy.migrate.unclear import Unclear
from seqrecorder.schema.dtypes import element_type
from seqrecorder.schema.field import Field
from seqrecorder.schema.schema import Schema
from seqrecorder.schema.source_code import RESERVED, draft

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


def with_record_class(text: str) -> str:
    """Return a script for which `target="eager"` was chosen, with an attrs class of the features that it parses.

    Raises:
        Unclear: they are not those of one SequenceExample, or not written out; the reason says which.
    """
    source = Source(text)
    tree = source.tree
    names = Names(tree)
    used = {node.id for node in walk(tree) if isinstance(node, ast.Name)}
    taking = [node for node in walk(tree) if names.called(node) in _PARSE]
    if len(taking) != 1:
        raise Unclear("records", f"{len(taking) or 'no'} places take SequenceExamples apart, where one should", tree)
    found = [parsing for function in _functions(tree) if (parsing := _parsing(function, tree, names))]
    if len(found) != 1:
        raise Unclear("records", "SequenceExamples are not taken apart by a function of their own", taking[0])
    if {_CLASS, "sr"} & used or not names.imports:
        raise Unclear("records", f"the names {_CLASS} and sr are in use, or TensorFlow has none", tree)
    [parsing] = found
    schema = _schema(parsing, names)
    edits = [*_parsing_edits(source, parsing), *_reading(source, parsing), *_imports(source, names)]
    place = next(node for node in tree.body if parsing.function in walk(node))
    first = source.span(place)[0]
    lines = draft(schema).split("\n")
    edits.append(Edit(first, first - 1, (*lines, "", "")))
    return source.edited(edits)


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in walk(tree) if isinstance(node, ast.FunctionDef))


def _parsing(function: ast.FunctionDef, tree: ast.Module, names: Names) -> _Parsing | None:
    """Return how a function parses, None where it does not."""
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
        if len(targets) != 2:  # noqa: PLR2004 - the context and the sequence
            raise Unclear("records", "what is parsed is not unpacked into a context and a sequence", statement)
        alone = isinstance(serialized, ast.Name) and serialized.id in parameters
        if not isinstance(serialized, ast.Name) or not alone or len(loads(function, serialized.id)) != 1:
            raise Unclear("records", "what is parsed is used for more, or is no parameter", statement)
        gone = list[ast.stmt]()
        context, sequence = (
            _literal(tree, statement, given.get(part), gone) for part in ("context_features", "sequence_features")
        )
        if set(context) & set(sequence):
            raise Unclear("records", "a context feature and a feature list have the same name", statement)
        return _Parsing(function, statement, (targets[0], targets[1]), (context, sequence), tuple(gone))
    return None


def _literal(tree: ast.Module, statement: ast.stmt, node: ast.expr | None, gone: list[ast.stmt]) -> dict[str, ast.expr]:
    """Return the features that are written out in a dictionary, or in one that a name stands for."""
    if node is None:
        return {}
    if isinstance(node, ast.Name):
        name = node.id
        made = [s for s in walk(tree) if isinstance(s, ast.Assign) and name in binds(s) and s is not statement]
        rebound = name in binds(statement)  # what is used after that is something else
        uses = [
            use for use in walk(tree)
            if isinstance(use, ast.Name) and use.id == name and isinstance(use.ctx, ast.Load)
            and not (rebound and use.lineno > (statement.end_lineno or statement.lineno))
        ]  # fmt: skip
        if len(made) != 1 or len(uses) != 1 or not isinstance(made[0].value, ast.Dict):
            raise Unclear("records", f"{name} is not written out in one place, or is changed", node)
        gone.append(made[0])
        node = made[0].value
    if not isinstance(node, ast.Dict):
        raise Unclear("records", f"{ast.unparse(node)} is not a dictionary that is written out", node)
    keys = [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    if len(keys) != len(node.values):
        raise Unclear("records", "names of features are computed", node)
    return dict(zip(keys, node.values, strict=True))


def _schema(parsing: _Parsing, names: Names) -> Schema:
    fields = tuple(_field(name, spec, names) for name, spec in {**parsing.specs[0], **parsing.specs[1]}.items())
    if not fields:
        raise Unclear("records", "no features are parsed", parsing.statement)
    return Schema(_CLASS, fields)


def _field(name: str, spec: ast.expr, names: Names) -> Field:
    """Return the field of a feature."""
    kind = _KINDS.get(names.called(spec) or "")
    if kind is None or not isinstance(spec, ast.Call):
        raise Unclear("records", f"the feature {name!r} is {ast.unparse(spec)}", spec)
    given = dict(zip(("shape", "dtype"), spec.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in spec.keywords if keyword.arg}
    shape, dtype = given.get("shape"), _DTYPES.get(names.resolve(given["dtype"]) or "") if "dtype" in given else None
    if dtype is None or set(given) != {"shape", "dtype"} or not isinstance(shape, (ast.List, ast.Tuple)):
        raise Unclear(
            "records", f"the feature {name!r} has a default, or no shape and dtype that are written out", spec
        )
    sizes = [item.value for item in shape.elts if isinstance(item, ast.Constant) and isinstance(item.value, int)]
    if len(sizes) != len(shape.elts):
        raise Unclear("records", f"the shape of the feature {name!r} is computed: {ast.unparse(shape)}", spec)
    if not name.isidentifier() or keyword.iskeyword(name) or name in RESERVED:
        raise Unclear("records", f"the feature {name!r} cannot be an attribute", spec)
    try:
        # The parser lets the lists of a record differ in length.
        return Field(name, name, kind, element_type(dtype), tuple(sizes), align=None)  # type: ignore[arg-type]
    except SchemaError as error:
        raise Unclear("records", f"the feature {name!r} cannot be a field: {error}", spec) from None


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
    return any(isinstance(node, ast.Name) and node.id == name for node in walk(parsing.statement.value))


def _reading(source: Source, parsing: _Parsing) -> list[Edit]:
    """Return the edits that let `seqrecorder.read`, or the schema, parse."""
    name = parsing.function.name
    mapped = {f.name for f in _functions(source.tree) if f is parsing.function or _only_calls(f, name)}
    maps = [
        (scope, statement, found[1])
        for scope in _functions(source.tree)
        for statement in walk(scope)
        if isinstance(statement, (ast.Assign, ast.Return))
        and (found := _mapping(statement)) is not None
        and found[0] in mapped
        and _owns(scope, statement)
    ]
    uses = [n for n in walk(source.tree) if isinstance(n, ast.Name) and n.id == name]
    if len(maps) != 1 or len(uses) != 1:
        raise Unclear("records", f"{name} is not mapped over one dataset, and used for that only", parsing.function)
    [(scope, mapping, dataset)] = maps
    own = [s for s in walk(scope) if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == dataset]
    before = sorted((s for s in own if s.lineno < mapping.lineno), key=lambda s: s.lineno)
    if not before or ast.unparse(before[-1].value) != f"{dataset}.flat_map(tf.data.TFRecordDataset)":
        raise Unclear(
            "records", "records are read with keys, many at a time, or from files that are compressed", mapping
        )
    files = _in_order(before[0].value) if len(before) == 2 else None  # noqa: PLR2004 - of files, of records
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
    calls = [n for n in walk(function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    return any(
        c.func.id == name and c.args and ast.unparse(c.args[0]) == given[0]
        for c in calls
        if isinstance(c.func, ast.Name)
    )


def _mapping(statement: ast.Assign | ast.Return) -> tuple[str, str] | None:
    """Return the function that a statement maps a dataset with, and the dataset."""
    call = statement.value
    while isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        what = call.func.value
        if call.func.attr == "map" and isinstance(what, ast.Name) and call.args and isinstance(call.args[0], ast.Name):
            return call.args[0].id, what.id
        call = what
    return None


def _owns(scope: ast.FunctionDef, statement: ast.stmt) -> bool:
    inner = [f for f in walk(scope) if isinstance(f, ast.FunctionDef) and f is not scope]
    return not any(statement in walk(f) for f in inner)


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
