"""What the scripts of one directory take from each other: functions that make records, or batch what is in a queue."""

from __future__ import annotations

import ast
import functools
import re
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from seqrecorder.legacy.migrate.analyze.data_flow import (
    LOOPS,
    walk,
)
from seqrecorder.legacy.migrate.analyze.names import PIPELINE, Names
from seqrecorder.legacy.migrate.analyze.pipeline_functions import Shared
from seqrecorder.legacy.migrate.normalize.python2 import as_python3
from seqrecorder.legacy.migrate.rewrite.lifted import WITH_QUEUES
from seqrecorder.legacy.migrate.rewrite.script import shared_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from seqrecorder.legacy.migrate.analyze.pipeline_functions import Part
    from seqrecorder.legacy.migrate.findings import Finding
    from seqrecorder.legacy.migrate.rewrite.script import Rewritten


@attrs.frozen
class Link:
    """A function of one script that another one calls.

    Attributes:
        taking: the script that calls it.
        giving: the script that it is of.
        called: how it is called there.
        function: its name here.
    """

    taking: Path
    giving: Path
    called: str
    function: str


def shared(
    scripts: Mapping[Path, str], others: Iterable[Path], findings: Callable[[Path, Shared], Sequence[Finding]]
) -> dict[Path, Shared]:
    """Return what scripts have in common that are clear only together, and why others are not.

    Args:
        scripts: the texts of those that may have queues.
        others: files beside them, which may call their functions too.
        findings: what keeps a script from being rewritten, with what it has in common with others.
    """
    trees = {path: tree for path, text in scripts.items() if (tree := _tree(text)) is not None}
    links = [link for path, tree in trees.items() for link in _links(path, tree, trees)]
    beside = [path for path in others if path not in trees] if links else []
    known = {(link.giving, link.function) for link in links}
    gone = {each: f"{path.name} may call it too" for path in beside for each in _may_call(path, known, trees)}
    lost: dict[Path, dict[str, str]] = {}
    while True:
        for link in (link for link in links if (link.giving, link.function) in gone):
            why = f"not rewritten together with this: {gone[link.giving, link.function]}"
            lost.setdefault(link.taking, {})[link.called] = f"{link.called} is of {link.giving.name}, and {why}"
            lost.setdefault(link.giving, {})[link.function] = (
                f"{link.taking.name} imports {link.function}, and is {why}"
            )
        links = [link for link in links if (link.giving, link.function) not in gone]
        found = _of(links, scripts)
        left = [link for link in links if link.called not in found[link.taking].parts]
        gone = {(n.giving, n.function): why for n in left if (why := _why_no_part(n, trees, findings))}
        if gone:
            continue
        links = [link for link in links if link not in left]
        unclear = {
            path: f"{path.name}, line {first.line}: {first.reason}"
            for path, each in found.items()
            if each.parts or each.wanted
            for first in findings(path, each)[:1]
        }
        gone = {(n.giving, n.function): unclear[p] for n in links for p in (n.taking, n.giving) if p in unclear}
        if not gone:
            return {p: attrs.evolve(found.get(p, Shared()), lost=lost.get(p, {})) for p in sorted({*found, *lost})}


def _why_no_part(
    link: Link, trees: Mapping[Path, ast.Module], findings: Callable[[Path, Shared], Sequence[Finding]]
) -> str:
    """Return why a function is no part of a pipeline that can go on in another script; nothing where it has none."""
    tree = trees[link.giving]
    [function] = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == link.function][-1:]
    if not any(Names(tree).mentions(function, PIPELINE)):
        return ""
    lines = range(function.lineno, (function.end_lineno or 0) + 1)
    found = [each for each in findings(link.giving, Shared()) if each.line in lines]
    return f"{link.giving.name}, line {found[0].line}: {found[0].reason}" if found else ""


def _may_call(
    path: Path, known: Iterable[tuple[Path, str]], scripts: Mapping[Path, ast.Module]
) -> set[tuple[Path, str]]:
    """Return the functions of scripts that a file may call; of what is no Python 3, those whose words it has."""
    text = path.read_bytes().decode("latin-1")
    words = {*re.findall(r"\w+", text)}
    named = {(giving, function) for giving, function in known if {*re.findall(r"\w+", giving.stem), function} <= words}
    tree = _tree(text) if named and path.suffix == ".py" else None
    return named if tree is None else named & {(n.giving, n.function) for n in _links(path, tree, scripts)}


def _of(links: Iterable[Link], scripts: Mapping[Path, str]) -> dict[Path, Shared]:
    """Return what scripts have in common by some links, of those functions that are parts of pipelines."""
    wanted: dict[Path, set[str]] = {}
    for link in links:
        wanted.setdefault(link.giving, set()).add(link.function)
    parts = {path: shared_parts(scripts[path], frozenset(names)) for path, names in wanted.items()}
    taken: dict[Path, dict[str, Part]] = {link.taking: {} for link in links}
    for link in links:
        if (part := parts[link.giving].get(link.function)) is not None:
            taken[link.taking][link.called] = attrs.evolve(part, called=link.called)
    files = {path: frozenset(link.giving for link in links if link.taking == path) for path in taken}
    every = sorted({*taken, *wanted})
    return {p: Shared(frozenset(parts.get(p, ())), taken.get(p, {}), files=files.get(p, frozenset())) for p in every}


def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(as_python3(text))
    except (SyntaxError, ValueError):
        return None


def _links(path: Path, tree: ast.Module, scripts: Mapping[Path, ast.Module]) -> Iterable[Link]:
    """Yield the functions of other scripts that a script imports, by whatever name."""
    used = {ast.unparse(n) for n in walk(tree) if isinstance(n, (ast.Attribute, ast.Name))}
    for node in walk(tree):
        for alias in node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
            called = alias.asname or alias.name
            module = f"{'.' * node.level}{node.module or ''}" if isinstance(node, ast.ImportFrom) else ""
            inside = _script(path, module, scripts.__contains__)
            if inside is not None and alias.name == "*":
                own = sorted(_functions(scripts[inside]) & used)
                hidden = {f for f in own for n in walk(tree) if n is not node and _may_hide(path, n, f)}
                yield from (Link(path, inside, f, f) for f in own if f not in hidden)
            elif inside is not None and alias.name in _functions(scripts[inside]):
                yield Link(path, inside, called, alias.name)
            elif inside is None or module.endswith("."):
                whole = f"{module}{'.' * (module.strip('.') != '')}{alias.name}"
                other = _script(path, whole, scripts.__contains__)
                for function in sorted(_functions(scripts[other])) if other is not None else ():
                    if other is not None and f"{called}.{function}" in used:
                        yield Link(path, other, f"{called}.{function}", function)


def _may_hide(path: Path, node: ast.AST, name: str) -> bool:
    """Whether all names are imported of something that may have one of that name."""
    if not isinstance(node, ast.ImportFrom) or node.names[0].name != "*":
        return False
    found = _script(path, "." * node.level + (node.module or ""), Path.exists)
    return found is None or re.search(rf"\b{name}\b", found.read_bytes().decode("latin-1")) is not None


def _functions(tree: ast.Module) -> set[str]:
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def _script(path: Path, module: str, known: Callable[[Path], bool]) -> Path | None:
    """Return the script that a module is, beside the one that imports it, or in a directory above."""
    parts = module.lstrip(".").split(".")
    above = [*path.parents] if not module.startswith(".") else [path.parents[len(module) - len(module.lstrip(".")) - 1]]
    found = (place.joinpath(*parts).with_suffix(".py") for place in above if parts[0])
    return next((each for each in found if known(each) and each != path), None)


def lifted_together(
    texts: Mapping[Path, str], change: Callable[..., Rewritten]
) -> tuple[dict[Path, frozenset[str]], dict[Path, str]]:
    """Return the scripts that others have to be lifted with, and those that others keep as they are.

    A function that would take, or return, something else than before is lifted if other scripts call it; and a script
    that gives queues to a function of another, or makes them for it, needs no more than that the other is lifted. What
    takes from the queues of a script that is kept goes on to do so.

    Args:
        texts: of the scripts.
        change: says what becomes of one that is tied to others by some functions.

    Returns:
        The functions by which scripts are tied to others, and why scripts are kept.
    """
    found: dict[Path, frozenset[str]] = {}
    done = {script: change(text) for script, text in texts.items()}

    for script, each in done.items():
        if each.status == "converted" and not each.lifted and each.changed:
            found[script] = frozenset[str]().union(*(_called_in(texts, user, script, each.changed) for user in texts))
    again = {script: change(texts[script], others=known) for script, known in found.items() if known}
    lifted = {script: each for script, each in (done | again).items() if each.lifted}
    for script in [script for script, each in done.items() if each.status == "flagged"]:
        own = re.findall(r"\bdef (\w+)", texts[script])
        ties = [
            _called_in(texts, script, of, (f.rpartition(".")[2] for f in each.functions)) for of, each in lifted.items()
        ]
        ties += [_called_in(texts, of, script, own) for of in lifted]
        found[script] = frozenset[str]().union(*ties)
    done |= again | {script: change(texts[script], others=known) for script, known in found.items() if known}
    return found, _kept(texts, done)


def _called_in(texts: Mapping[Path, str], user: Path, of: Path, functions: Iterable[str]) -> frozenset[str]:
    """Return the functions of a script that another one seems to call."""
    if user == of or not _imports(texts, user, of):
        return frozenset()
    return frozenset(function for function in functions if _calls(texts[user], function))


def _imports(texts: Mapping[Path, str], user: Path, of: Path) -> bool:
    """Whether a script imports another one, or what is of that name and no other script that is known."""
    modules = _imported(texts[user])
    if modules is None:
        return of.stem in texts[user]
    name = of.parent.name if of.stem == "__init__" else of.stem
    named = [module for module in modules if name in module.split(".")]
    found = [_script(user, module, texts.__contains__) for module in named]
    return of in found or (bool(named) and not any(found))


@functools.cache
def _imported(text: str) -> frozenset[str] | None:
    """Return all modules that a script may import; None where it is no Python."""
    if (tree := _tree(text)) is None:
        return None
    found = set[str]()
    for node in walk(tree):
        for alias in node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
            above = f"{'.' * node.level}{node.module or ''}" if isinstance(node, ast.ImportFrom) else ""
            found |= {above, f"{above}{'.' * (above.strip('.') != '')}{alias.name}"}
    return frozenset(found)


def _calls(text: str, function: str) -> bool:
    return re.search(rf"\b(?<!def ){re.escape(function)}\s*\(", text) is not None


def _kept(texts: Mapping[Path, str], done: Mapping[Path, Rewritten]) -> dict[Path, str]:
    """Return the scripts that would lift what others take a part of, with those, or what is tf.data, and why."""
    kept: dict[Path, str] = {}
    rewritten = {script: each for script, each in done.items() if each.status == "converted" and not each.lifted}
    for of, giving in product((script for script, each in done.items() if each.lifted), rewritten):
        lines = _functions_in(texts[of], done[of].functions) if _imports(texts, of, giving) else ""
        tensors = [function.rpartition(".")[2] for function in rewritten[giving].functions]
        if called := [function for function in tensors if _calls(lines, function)]:
            kept[of] = f"{', '.join(called)} of {giving.name}, which gives it records, is tf.data now"
    waiting = [*texts]
    for user in waiting:
        for of in [script for script, each in done.items() if each.lifted and script not in kept]:
            functions = {function.rpartition(".")[2] for function in done[of].functions}
            given = [name for name in functions if f"def {name}{WITH_QUEUES}(" not in done[of].text]
            called = sorted(_called_in(texts, user, of, given))
            stays = user in kept or done[user].status in ("kept", "flagged")
            if (stays and called) or any(_again(texts[user], name) for name in called):
                kept[of] = f"{user.name} calls {', '.join(called)} with a queue that others take from"
                if done[user].status == "flagged":
                    kept[user] = f"functions of {of.name} take from queues of this script, and divide what they hold"
                waiting.append(of)
    return kept


def _functions_in(text: str, functions: Iterable[str]) -> str:
    """Return the text of some functions of a script, or all of it where something of it is in none."""
    names = {function.rpartition(".")[2] for function in functions}
    nodes = [n for n in walk(_tree(text) or ast.Module([], [])) if isinstance(n, ast.FunctionDef) and n.name in names]
    return "\n".join(map(ast.unparse, nodes)) if names <= {node.name for node in nodes} else text


def _again(text: str, function: str) -> bool:
    """Whether a script calls a function of another more than once."""
    nodes = [*walk(_tree(text) or ast.Module([], []))]
    calls = [n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func).rpartition(".")[2] == function]
    return len(calls) > 1 or any(call in walk(loop) for loop in nodes if isinstance(loop, LOOPS) for call in calls)
