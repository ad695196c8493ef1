"""Statements of a pipeline that share a line, in plainer words: each on lines of its own."""

from __future__ import annotations

import ast

from seqrecorder.legacy.migrate.analyze.data_flow import only, scopes, simple, walk
from seqrecorder.legacy.migrate.analyze.names import PIPELINE, Names
from seqrecorder.legacy.migrate.analyze.reaching import reaching
from seqrecorder.legacy.migrate.source import Edit, Source


def on_own_lines(text: str) -> str:
    """Let `a = f(record); b = a` be two lines, of pipelines and of imports of TensorFlow; all others stay."""
    if ";" not in text:
        return text
    source = Source(text)
    groups = list[list[ast.stmt]]()
    plain = [node for node in only(ast.stmt, walk(source.tree)) if not hasattr(node, "body")]
    for node in sorted(plain, key=lambda node: (node.lineno, node.col_offset)):
        if groups and groups[-1][-1].end_lineno == node.lineno:
            groups[-1].append(node)
        else:
            groups.append([node])
    shared = [g for g in groups if not all(map(source.alone, g)) and not source.indent(g[0]).strip()]
    if not shared:
        return text
    names = Names(source.tree)
    wanted: set[ast.stmt] = {*names.imports}
    for scope in scopes(source.tree):
        making = [s for s in simple(scope) if any(names.mentions(s, PIPELINE))]
        wanted |= {s for made in making for s in reaching(scope).hanging(made)}
    return source.edited([_apart(source, group) for group in shared if wanted & {*group}])


def _apart(source: Source, group: list[ast.stmt]) -> Edit:
    """Return the edit that gives each of some statements lines of its own; a comment stays with the last."""
    found, rest = list[str](), ""
    for each in group:
        lines = source.lines[each.lineno - 1 : each.end_lineno]
        rest = lines[-1].encode()[each.end_col_offset :].decode()
        lines[-1] = lines[-1].encode()[: each.end_col_offset].decode()
        lines[0] = source.indent(group[0]) + lines[0].encode()[each.col_offset :].decode()
        found += lines
    comment = rest.strip(" \t;")
    found[-1] += f"  {comment}" if comment else ""
    return Edit(group[0].lineno, group[-1].end_lineno or 1, tuple(found))
