"""TF-Slim's providers in plainer words: made where they are asked for the items of a record."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from seqrecorder.legacy.migrate.analyze.data_flow import block_of, names_in, only, own_nodes, scopes, target_of
from seqrecorder.legacy.migrate.analyze.effects import effects_of
from seqrecorder.legacy.migrate.analyze.names import PROVIDER, Names
from seqrecorder.legacy.migrate.analyze.reaching import reaching
from seqrecorder.legacy.migrate.source import Edit, Source

if TYPE_CHECKING:
    from seqrecorder.legacy.migrate.analyze.data_flow import Scope


def providers_asked(text: str) -> str:
    """Let `provider = DatasetDataProvider(dataset)` and `x = provider.get(items)` be one statement, if they can be."""
    if "DatasetDataProvider" not in text:
        return text
    source = Source(text)
    names = Names(source.tree)
    for scope in scopes(source.tree):
        for made in only(ast.Assign, own_nodes(scope)):
            target = target_of(made)
            own = isinstance(target, ast.Name) and names.bindings.scope_of(target) is scope
            if own and names.called(made.value) == PROVIDER and (edits := _together(source, names, scope, made)):
                return providers_asked(source.edited(edits))
    return text


def _together(source: Source, names: Names, scope: Scope, made: ast.Assign) -> list[Edit]:
    """Return the edits by which a provider is made where it is asked, or asked where it is made; none where neither."""
    provider, flow = ast.unparse(made.targets[0]), reaching(scope)
    uses = flow.uses([made], provider)
    for asked in only(ast.Assign, own_nodes(scope)):
        match asked.value:
            case ast.Call(ast.Attribute(ast.Name() as use, "get"), [items], []) if uses == [use]:
                break
    else:
        return []
    if flow.of(use) != {made} or not (source.alone(made) and source.alone(asked)):
        return []
    block, place, effects = block_of(scope, made), block_of(scope, asked), effects_of(names)
    said = f"{source.segment(asked.targets[0])} = {source.segment(made.value)}.get({source.segment(items)})"
    if block is place and not effects.between(scope, made.value, made.lineno, asked.lineno):
        last = next(n for n in range(made.end_lineno or 0, asked.lineno) if source.lines[n].strip())
        gone = Edit(made.lineno, last, ())  # with the blank lines behind it
        return [gone, Edit.instead(asked, *(source.indent(asked) + said).split("\n"))]
    between = [n for n in own_nodes(scope) if made.lineno < getattr(n, "lineno", 0) < asked.lineno]
    mentioned = {name for node in between for name in names_in(node)} & names_in(asked.targets[0])
    while block is not place:
        holding = [node for node in only(ast.With, own_nodes(scope)) if node.body is block]
        if not holding:
            return []
        block = block_of(scope, holding[0])
    if mentioned or effects.between(scope, items, made.lineno, asked.lineno):
        return []
    return [Edit.instead(asked), Edit.instead(made, *(source.indent(made) + said).split("\n"))]
