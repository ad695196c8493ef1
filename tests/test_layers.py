"""The layers of the package: imports point only downward."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import seqrecorder

PACKAGE = Path(seqrecorder.__file__).parent

# From the lowest to the highest; a module may import only what stands before it.
LAYERS = (
    ("errors", "startup", "terminal", "threads", "notebooks"),
    ("dtypes", "mismatch", "times", "values", "naming", "places", "splits", "shares"),
    ("fields", "declarations", "field_json", "evolution", "schema", "draft"),
    (
        "csv_line",
        "files",
        "forks",
        "locks",
        "ownership",
        "reading",
        "digests",
        "file_state",
        "following",
        "memory",
        "staging",
        "crc",
        "framing",
        "damage",
        "runs",
        "placing",
        "lost_ranges",
        "rows",
        "varints",
        "features",
        "frames",
        "wire",
        "spill",
    ),
    (
        "tracing",
        "pipelines",
        "building",
        "sizes",
        "snapshots",
        "columns",
        "arrow",
        "pieces",
        "views",
        "given",
        "cropping",
        "finishing",
        "tensors",
        "presence",
        "specs",
        "padding",
        "parsing",
        "layouts",
        "profiles",
        "rawbytes",
        "records",
        "preflight",
        "shard_files",
        "shards",
        "reopening",
        "metadata",
        "manifest",
    ),
    (
        "belongings",
        "publish",
        "assets",
        "write_options",
        "progress",
        "lifecycle",
        "workers",
        "sources",
        "waiting",
        "splitwriter",
    ),
    (
        "scratch",
        "recovery",
        "skipping",
        "listing",
        "origin",
        "ahead",
        "objects",
        "numbering",
        "streams",
        "losses",
        "outputs",
        "feed",
    ),
    ("batching", "batching.options", "batching.single", "batching.padded", "batching.pad"),
    ("batching.boundaries", "batching.plan", "batching.sorted_windows", "batching.budget", "batching.bucket_batches"),
    ("batching.bucket_plan", "batching.warm_up", "batching.bucket"),
    (
        "batching.stretches",
        "batching.best_fit",
        "batching.ragged",
        "batching.unroll",
        "batching.window",
        "batching.pack",
    ),
    ("routing", "placement", "writer", "writing", "reader", "planning", "mixing"),
    ("inference", "convert"),
    ("checks", "salvaging", "testing", "keras", "inspection", "demo", "report"),
    ("bench", "bench.workloads", "bench.content", "bench.handwritten", "bench.candidates", "bench.peers"),
    ("bench.apart", "bench.run", "bench.table"),
    ("legacy.lines", "legacy.slices", "legacy.draws", "legacy.shuffles"),
    ("legacy.modes", "legacy.readers", "legacy.reading", "legacy.pipeline", "legacy.priority", "legacy.graph"),
    (
        "legacy.queues",
        "legacy.registry",
        "legacy.refusals",
        "legacy.state",
        "legacy.sections",
        "legacy.joins",
        "legacy.feeds",
    ),
    ("legacy.structure", "legacy.translation", "legacy.lifting", "legacy.session"),
    ("legacy.contrib.components", "legacy.contrib.segments", "legacy.contrib.training"),
    (
        "legacy.contrib.slim.parallel_reader",
        "legacy.contrib.slim.dataset",
        "legacy.contrib.slim.data_decoder",
        "legacy.contrib.slim.tfexample_decoder",
        "legacy.contrib.slim.data_provider",
        "legacy.contrib.slim.dataset_data_provider",
        "legacy.contrib.slim.prefetch_queue",
        "legacy.contrib.slim.queues",
        "legacy.contrib.slim",
        "legacy.contrib.learn",
        "legacy.contrib.lookup",
    ),
    ("legacy.contrib", "legacy.compatibility", "legacy.scripts", "legacy"),
    (
        "migrate",
        "migrate.unclear",
        "migrate.flow",
        "migrate.bindings",
        "migrate.names",
        "migrate.source",
        "migrate.findings",
        "migrate.modern",
        "migrate.python2",
        "migrate.recordclass",
    ),
    (
        "migrate.structure",
        "migrate.joins",
        "migrate.stages",
        "migrate.filled_queues",
        "migrate.search",
        "migrate.parts",
        "migrate.learn_reading",
        "migrate.plain_reading",
        "migrate.plainer",
        "migrate.wording",
        "migrate.text",
        "migrate.reader_functions",
        "migrate.moving",
        "migrate.origins",
        "migrate.delivery",
        "migrate.mapping",
        "migrate.pipeline",
        "migrate.renaming",
        "migrate.script",
    ),
    (
        "migrate.stand_ins",
        "migrate.definitions",
        "migrate.synthesis",
        "migrate.chance",
        "migrate.equality",
        "migrate.lines_run",
    ),
    ("migrate.conditions",),
    (
        "migrate.calling",
        "migrate.trial",
        "migrate.verification",
        "migrate.advice",
        "migrate.saving",
        "migrate.project",
        "migrate.summary",
    ),
    ("arguments", "cli"),
    ("__main__",),
)
ORDER = [module for layer in LAYERS for module in layer]
LIGHT = (
    "errors",
    "dtypes",
    "mismatch",
    "times",
    "values",
    "naming",
    "splits",
    "fields",
    "declarations",
    "field_json",
    "schema",
    "draft",
    "terminal",
    "arguments",
    "cli",
)


def modules() -> dict[str, ast.Module]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        if name != "__init__":
            found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imported(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "seqrecorder":
            inner = (node.module or "").removeprefix("seqrecorder").removeprefix(".")
            parts = {f"{inner}.{alias.name}".removeprefix(".") for alias in node.names}
            names |= {part if part in MODULES or not inner else inner for part in parts}
        elif isinstance(node, ast.Import):
            names |= {
                alias.name.removeprefix("seqrecorder.") for alias in node.names if alias.name.startswith("seqrecorder.")
            }
    return names


MODULES = modules()


def test_every_module_has_a_place() -> None:
    """The list of layers names exactly the modules that there are."""
    assert sorted(MODULES) == sorted(ORDER)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_point_downward(module: str) -> None:
    """A module imports only modules that stand before it, wherever in its text the import stands."""
    below = set(ORDER[: ORDER.index(module)])
    wrong = {name for name in imported(MODULES[module]) if name in MODULES and name not in below}
    assert not wrong, f"{module} imports {sorted(wrong)}, which do not stand below it"


@pytest.mark.parametrize("module", LIGHT)
def test_light_modules_do_not_name_tensorflow(module: str) -> None:
    """The lowest layers and the command line do not import TensorFlow, not even inside functions."""
    for node in ast.walk(MODULES[module]):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not [name for name in names if name.split(".")[0] == "tensorflow"]


@pytest.mark.parametrize("module", sorted(MODULES))
def test_no_module_imports_tensorflow_when_it_is_imported(module: str) -> None:
    """TensorFlow is imported inside functions only, so that no import of ours pays for it; `keras` is what it says."""
    if module == "keras":
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
    """`import seqrecorder` imports neither TensorFlow nor anything optional, and takes well under half a second."""
    code = (
        "import time, sys; import numpy, attrs; start = time.perf_counter(); import seqrecorder; "
        "took = time.perf_counter() - start; heavy = {'tensorflow', 'keras', 'matplotlib', 'tqdm'} & set(sys.modules); "
        "assert not heavy, heavy; assert took < 0.5, took"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names() -> None:
    """The public names are these; adding or removing one is a decision."""
    assert {name for name in dir(seqrecorder) if not name.startswith("_")} == {
        "Balanced",
        "Bucket",
        "DatasetError",
        "DatasetExistsError",
        "DatasetNotFoundError",
        "DuplicateKeyError",
        "LiftError",
        "LimitExceededError",
        "Manifest",
        "ManifestError",
        "OptionError",
        "Pack",
        "Pad",
        "Ragged",
        "RecordError",
        "Schema",
        "SchemaError",
        "SchemaMismatchError",
        "SeqrecorderError",
        "ShardError",
        "ShardReadError",
        "ShardWriteError",
        "SkipRecord",
        "SourceError",
        "SparseVector",
        "Unroll",
        "Window",
        "Writer",
        "context",
        "feature_list",
        "from_csv",
        "info",
        "keras",
        "legacy",
        "mix",
        "plan",
        "read",
        "read_records",
        "record",
        "salvage",
        "testing",
        "verify",
        "write",
    }
