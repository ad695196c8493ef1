"""The rooms of the package: which may import which, and what each lets others see."""

import ast
import collections
import graphlib
import importlib
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

import seqrecorder

PACKAGE = Path(seqrecorder.__file__).parent

# What each entry of the package may import; the order is that of the way from a class to its batches.
ROOMS: dict[str, tuple[str, ...]] = {
    "errors": (),
    "schema": ("errors",),
    "wire": ("errors",),
    "storage": ("errors", "wire"),
    "codec": ("errors", "schema", "wire"),
    "dataset": ("errors", "schema", "wire", "storage", "codec"),
    "writing": ("errors", "schema", "wire", "storage", "codec", "dataset", "analysis"),
    "reading": ("errors", "schema", "wire", "storage", "codec", "dataset"),
    "sources": ("errors", "schema", "wire", "storage", "codec", "dataset", "writing", "reading"),
    "analysis": ("errors", "schema", "storage", "codec", "dataset", "reading"),
    "keras": ("errors", "schema", "storage", "codec", "dataset", "reading"),
    "testing": ("errors", "schema", "writing", "reading"),
    "distributed": ("errors", "schema", "storage", "codec", "dataset", "writing", "sources"),
    "legacy": ("errors", "schema", "storage", "reading", "sources"),
}
ROOMS["cli"] = ("seqrecorder", *ROOMS)
ROOMS["__main__"] = ("cli",)
ROOMS["seqrecorder"] = tuple(room for room in ROOMS if room not in ("cli", "__main__"))  # the public names
NUMPY_ONLY = ("errors", "schema", "wire")


# What each room may weigh at most: lines of code proper (no docstrings, comments, imports, blanks), and modules. Raise
# a bound in a commit of its own, which says what users asked for that needs it.
BUDGETS = {
    "schema": (1820, 11),
    "wire": (930, 4),
    "storage": (2780, 11),
    "codec": (3070, 13),
    "dataset": (3766, 16),
    "writing": (2920, 12),
    "reading": (3975, 27),
    "sources": (1865, 9),
    "analysis": (2519, 9),
    "keras, distributed": (925, 8),
    "legacy": (4065, 31),
    "cli": (1040, 10),
    "the top": (240, 4),
}


def modules() -> dict[str, ast.Module]:
    """Return the trees of all modules by their dotted names inside the package; its own is `seqrecorder`."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        found["seqrecorder" if name == "__init__" else name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


MODULES = modules()


def room_of(module: str) -> str:
    return module.partition(".")[0]


def imports(tree: ast.Module) -> set[tuple[str, str]]:
    """Return the modules of ours that a module imports from, lazily or for typing too, and the names that it takes."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and room_of(node.module or "") == "seqrecorder":
            inner = (node.module or "").removeprefix("seqrecorder").removeprefix(".")
            for alias in node.names:
                whole = f"{inner}.{alias.name}".removeprefix(".")
                found.add((whole, "") if whole in MODULES else (inner or "seqrecorder", alias.name))
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if room_of(alias.name) == "seqrecorder"]
            found |= {(name.removeprefix("seqrecorder.") or "seqrecorder", "") for name in names}
    return found


IMPORTS = {name: imports(tree) for name, tree in MODULES.items()}


def doors(room: str) -> set[str]:
    """Return the modules of a room that other rooms import from."""
    users = {name: found for name, found in IMPORTS.items() if room_of(name) not in (room, "seqrecorder")}
    return {module for found in users.values() for module, _ in found if room_of(module) == room and module != room}


def lines_proper(path: Path) -> int:
    """Count the lines that hold code, those of imports and docstrings left out."""
    text, left_out, code = path.read_text(encoding="utf-8"), set[int](), set[int]()
    for node in ast.walk(ast.parse(text)):
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, (ast.Import, ast.ImportFrom)) or (is_docstring and isinstance(node.value.value, str)):
            left_out |= set(range(node.lineno, node.end_lineno + 1))
    blank = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in blank:
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - left_out)


def test_rooms_keep_to_their_budgets() -> None:
    """No room has more lines or modules than it may, and a bound that has become loose is lowered."""
    lines, files = collections.Counter[str](), collections.Counter[str]()
    for path in PACKAGE.rglob("*.py"):
        first, *rest = path.relative_to(PACKAGE).parts
        room = "keras, distributed" if first in ("keras", "distributed") else first if rest else "the top"
        lines[room] += lines_proper(path)
        files[room] += 1
    weights = {room: (lines[room], files[room]) for room in BUDGETS}
    assert set(lines) == set(BUDGETS)
    over = {r: w for r, w in weights.items() if w[0] > BUDGETS[r][0] or w[1] > BUDGETS[r][1]}
    assert not over, f"over their budgets, {BUDGETS}: {over}"
    loose = {r: w for r, w in weights.items() if w[0] < BUDGETS[r][0] - 100 or w[1] < BUDGETS[r][1]}
    assert not loose, f"lower the budgets: {loose}"


def test_every_entry_is_a_room() -> None:
    """The table names exactly what lies in the package, which a reader sees on half a screen."""
    entries = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert entries - {"__init__"} == set(ROOMS) - {"seqrecorder"}
    assert len(entries) <= 17


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_only_what_the_table_lets_them(room: str) -> None:
    """An import goes to the same room or to one that the table names, wherever in the text it stands."""
    wrong = {
        f"{name} -> {module}"
        for name, found in IMPORTS.items()
        if room_of(name) == room
        for module, _ in found
        if room_of(module) not in (room, *ROOMS[room])
    }
    assert not wrong


def test_rooms_have_no_cycles() -> None:
    """Neither the rooms nor the modules import one another in a circle."""
    list(graphlib.TopologicalSorter(ROOMS).static_order())
    packages = {name for name in MODULES if any(other.startswith(f"{name}.") for other in MODULES)}
    graph = {name: {module for module, _ in found} - {name} for name, found in IMPORTS.items() if name not in packages}
    list(graphlib.TopologicalSorter(graph).static_order())


def named(room: str) -> set[str]:
    """Return the modules that a room gives to others, those of the rooms inside it too."""
    found = set()
    for name in importlib.import_module(f"seqrecorder.{room}").__all__:
        inner = f"{room}.{name}"
        is_room = any(module.startswith(f"{inner}.") for module in MODULES)
        found |= named(inner) if is_room else {inner}
    return found


@pytest.mark.parametrize(
    "room", [room for room in ROOMS if (PACKAGE / room).is_dir() and room not in ("legacy", "keras", "distributed")]
)
def test_rooms_are_entered_by_their_doors(room: str) -> None:
    """A room names the modules that others import from, all of them and no others; of some, users see all."""
    assert named(room) == doors(room)


def test_private_names_stay_in_their_module() -> None:
    """Nobody imports a name with a leading underscore from another module."""
    private = {
        f"{name} takes {taken} of {module}"
        for name, found in IMPORTS.items()
        for module, taken in found
        if (taken.startswith("_") and not taken.startswith("__"))
        or ("._" in module and room_of(module) != "seqrecorder")
    }
    assert not private


def test_encoding_needs_no_parsing() -> None:
    """What makes bytes of records imports nothing, on whatever way, of what makes tensors of bytes."""
    reached, ahead = set[str](), ["codec.encode"]
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += [module for module, _ in IMPORTS.get(name, ())]
    assert "codec.encode" in reached
    parsing = {"decode", "elements", "flat_values", "graph_ops", "layouts", "parse"}
    assert not reached & {f"codec.{name}" for name in parsing}


@pytest.mark.parametrize("module", sorted(name for name in MODULES if room_of(name) in NUMPY_ONLY))
def test_lowest_rooms_do_not_name_tensorflow(module: str) -> None:
    """What needs numpy only does not import TensorFlow, not even inside functions."""
    for node in ast.walk(MODULES[module]):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not [name for name in names if name.split(".")[0] == "tensorflow"]


@pytest.mark.parametrize("module", sorted(MODULES))
def test_no_module_imports_tensorflow_when_it_is_imported(module: str) -> None:
    """TensorFlow is imported inside functions only, so that no import of ours pays for it; `keras` is what it says."""
    if room_of(module) == "keras":
        return
    for node in MODULES[module].body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not [name for name in names if name.split(".")[0] in ("tensorflow", "keras", "matplotlib", "tqdm")]


@pytest.mark.parametrize("module", sorted(MODULES))
def test_datasets_run_no_python(module: str) -> None:
    """Nothing that `read` returns holds a Python function: it could not be checkpointed, distributed or served."""
    attributes = {node.attr for node in ast.walk(MODULES[module]) if isinstance(node, ast.Attribute)}
    assert not attributes & {"py_function", "numpy_function", "from_generator"}


def test_import_is_light() -> None:
    """`import seqrecorder` brings numpy, attrs, some forty modules of its own, and nothing else that takes time."""
    code = (
        "import sys, numpy, attrs, html, json, hashlib; before = set(sys.modules); import seqrecorder; "
        "new = set(sys.modules) - before; own = {name for name in new if name.startswith('seqrecorder')}; "
        "assert new == own, new - own; assert len(own) <= 45, sorted(own)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_inner_loop_is_light() -> None:
    """Tests of the fast rooms import nothing heavy when collected; that they do not when run, `conftest` enforces."""
    code = (
        "import sys, pytest; from conftest import FAST_ROOMS; "
        "assert pytest.main(['-q', '--collect-only', '-p', 'no:cacheprovider', *FAST_ROOMS]) == 0; "
        "heavy = {'tensorflow', 'keras', 'pandas', 'pyarrow', 'matplotlib'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)


def test_public_names() -> None:
    """The public names are these; adding or removing one is a decision."""
    assert {name for name in dir(seqrecorder) if not name.startswith("_")} == {
        "Balanced",
        "Bucket",
        "ChangedError",
        "Column",
        "Corpus",
        "Coverage",
        "FieldStats",
        "Groups",
        "Crop",
        "Cutoff",
        "DatasetError",
        "DatasetExistsError",
        "DatasetNotFoundError",
        "DuplicateKeyError",
        "Leakage",
        "LiftError",
        "LimitExceededError",
        "Manifest",
        "ManifestError",
        "OptionError",
        "Pack",
        "Pad",
        "Plan",
        "PlanTable",
        "Ragged",
        "RecordError",
        "Report",
        "RecordNotFoundError",
        "Salvage",
        "Schema",
        "SchemaError",
        "SchemaMismatchError",
        "Selection",
        "SeqrecorderError",
        "ShardError",
        "ShardReadError",
        "ShardWriteError",
        "SkipRecord",
        "SourceError",
        "SparseVector",
        "Stats",
        "TokenBudget",
        "Unroll",
        "VerifyReport",
        "Vocabulary",
        "Window",
        "WriteOptions",
        "Writer",
        "clean",
        "commit",
        "compact",
        "batch",
        "context",
        "cutoffs",
        "feature_list",
        "from_conll",
        "from_csv",
        "from_jsonl",
        "from_rows",
        "from_table",
        "from_ts",
        "info",
        "keras",
        "leakage",
        "legacy",
        "merge",
        "mix",
        "next_step",
        "open",
        "parts",
        "plan",
        "plot",
        "previous_step",
        "pull",
        "push",
        "read",
        "read_records",
        "record",
        "report",
        "rewrite",
        "salvage",
        "stats",
        "testing",
        "verify",
        "write",
        "write_part",
    }


def test_a_star_import_gives_the_public_names() -> None:
    """`from seqrecorder import *` gives what `dir` shows, and nothing of the package's own imports."""
    assert seqrecorder.__all__ == [name for name in dir(seqrecorder) if not name.startswith("__")]


def test_files_of_tests_have_names_of_their_own():
    """Tests import what they share by bare names, so that two files of one name cannot be collected together."""
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]
    assert len(names) == len(set(names)), sorted(name for name in set(names) if names.count(name) > 1)


def test_no_test_patches_a_constant():
    """A test that sets a constant says nothing about what users meet; it needs other data, or an argument."""
    constant = re.compile(r"(?:.*\.)?_?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*")
    patched = []
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
                name = node.args[-2]
                is_variable = isinstance(name, ast.Name)
                if is_variable or (isinstance(name, ast.Constant) and constant.fullmatch(str(name.value))):
                    patched.append(f"{path.name}:{node.lineno}")
    assert not patched
