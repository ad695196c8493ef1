"""Sequence data in TensorFlow's SequenceExample format: declare one attrs class to write, read and verify datasets.

The two main paths, writing and reading, pass through these packages in this order::

    writing: from a record to bytes                        reading: from a path to a batch
    writing/   splits, hooks of the record class           dataset/   manifest: splits, shards, checks
    codec/     records to columns to messages              reading/   shards to windows of serialized records
    wire/      protobuf messages, vectorized               reading/batching/   windows to batches, one strategy per file
    storage/   frames, shards, syncing, staging            codec/     one parse per batch, to padded tensors
    dataset/   manifest and lengths, atomic publication    keras/     helpers for models

Both paths depend on `schema/`, which describes a record class as data. Of the others, `sources/` reads other formats,
`analysis/` computes statistics and reports, `distributed/` supports Beam and Spark, `legacy/` runs or converts the
queue-based readers of TensorFlow 1, `cli/` is the command line, `testing.py` has helpers for tests of record classes,
and `errors.py` defines the exceptions. Importing this package does not import TensorFlow; names that need more than
the schema are loaded on first use.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING, Any

from seqrecorder.codec.records import RecordCodec as _RecordCodec
from seqrecorder.errors import ChangedError as ChangedError
from seqrecorder.errors import DatasetError as DatasetError
from seqrecorder.errors import DatasetExistsError as DatasetExistsError
from seqrecorder.errors import DatasetNotFoundError as DatasetNotFoundError
from seqrecorder.errors import DuplicateKeyError as DuplicateKeyError
from seqrecorder.errors import LiftError as LiftError
from seqrecorder.errors import LimitExceededError as LimitExceededError
from seqrecorder.errors import ManifestError as ManifestError
from seqrecorder.errors import OptionError as OptionError
from seqrecorder.errors import RecordError as RecordError
from seqrecorder.errors import RecordNotFoundError as RecordNotFoundError
from seqrecorder.errors import SchemaError as SchemaError
from seqrecorder.errors import SchemaMismatchError as SchemaMismatchError
from seqrecorder.errors import SeqrecorderError as SeqrecorderError
from seqrecorder.errors import ShardError as ShardError
from seqrecorder.errors import ShardReadError as ShardReadError
from seqrecorder.errors import ShardWriteError as ShardWriteError
from seqrecorder.errors import SkipRecord as SkipRecord
from seqrecorder.errors import SourceError as SourceError
from seqrecorder.schema.declarations import context as context
from seqrecorder.schema.declarations import feature_list as feature_list
from seqrecorder.schema.declarations import record as record
from seqrecorder.schema.exact_values import SparseVector as SparseVector
from seqrecorder.schema.schema import Schema as Schema

if TYPE_CHECKING:
    from seqrecorder import keras as keras
    from seqrecorder import legacy as legacy
    from seqrecorder import testing as testing
    from seqrecorder.analysis.leakage import Leakage as Leakage
    from seqrecorder.analysis.leakage import leakage as leakage
    from seqrecorder.analysis.plot import plot as plot
    from seqrecorder.analysis.report import Report as Report
    from seqrecorder.analysis.report import report as report
    from seqrecorder.analysis.stats import FieldStats as FieldStats
    from seqrecorder.analysis.stats import Stats as Stats
    from seqrecorder.analysis.stats import stats as stats
    from seqrecorder.analysis.vocabulary import Coverage as Coverage
    from seqrecorder.analysis.vocabulary import Vocabulary as Vocabulary
    from seqrecorder.codec.columns import Column as Column
    from seqrecorder.dataset.cutoffs import Cutoff as Cutoff
    from seqrecorder.dataset.cutoffs import cutoffs as cutoffs
    from seqrecorder.dataset.manifest import Manifest as Manifest
    from seqrecorder.dataset.push_pull_clean import clean as clean
    from seqrecorder.dataset.push_pull_clean import pull as pull
    from seqrecorder.dataset.push_pull_clean import push as push
    from seqrecorder.dataset.salvage import Salvage as Salvage
    from seqrecorder.dataset.salvage import salvage as salvage
    from seqrecorder.dataset.selection import Corpus as Corpus
    from seqrecorder.dataset.selection import Selection as Selection
    from seqrecorder.dataset.selection import open as open  # noqa: A004 - `sr.open` is what users call
    from seqrecorder.dataset.split_shares import Balanced as Balanced
    from seqrecorder.dataset.verify import VerifyReport as VerifyReport
    from seqrecorder.dataset.verify import verify as verify
    from seqrecorder.reading.batch import batch as batch
    from seqrecorder.reading.batching.bucket import Bucket as Bucket
    from seqrecorder.reading.batching.crop import Crop as Crop
    from seqrecorder.reading.batching.groups import Groups as Groups
    from seqrecorder.reading.batching.pack import Pack as Pack
    from seqrecorder.reading.batching.pad import Pad as Pad
    from seqrecorder.reading.batching.ragged import Ragged as Ragged
    from seqrecorder.reading.batching.token_budget import TokenBudget as TokenBudget
    from seqrecorder.reading.batching.unroll import Unroll as Unroll
    from seqrecorder.reading.batching.window import Window as Window
    from seqrecorder.reading.derived_fields import next_step as next_step
    from seqrecorder.reading.derived_fields import previous_step as previous_step
    from seqrecorder.reading.mix import mix as mix
    from seqrecorder.reading.plan import Plan as Plan
    from seqrecorder.reading.plan import PlanTable as PlanTable
    from seqrecorder.reading.plan import plan as plan
    from seqrecorder.reading.read import info as info
    from seqrecorder.reading.read import read as read
    from seqrecorder.reading.read_records import read_records as read_records
    from seqrecorder.sources.csv import from_csv as from_csv
    from seqrecorder.sources.row_per_step import from_rows as from_rows
    from seqrecorder.sources.tables import from_table as from_table
    from seqrecorder.sources.text import from_conll as from_conll
    from seqrecorder.sources.text import from_jsonl as from_jsonl
    from seqrecorder.sources.text import from_ts as from_ts
    from seqrecorder.writing.commit import commit as commit
    from seqrecorder.writing.part import parts as parts
    from seqrecorder.writing.part import write_part as write_part
    from seqrecorder.writing.rewrite_merge_compact import compact as compact
    from seqrecorder.writing.rewrite_merge_compact import merge as merge
    from seqrecorder.writing.rewrite_merge_compact import rewrite as rewrite
    from seqrecorder.writing.writer import WriteOptions as WriteOptions
    from seqrecorder.writing.writer import Writer as Writer
    from seqrecorder.writing.writer import write as write

# `schema` does not import `codec` and `sources`, so the methods that need them get their implementations here.
Schema.codec_factory = _RecordCodec


def _infer(source: Any, **options: Any) -> Schema:
    from seqrecorder.sources.infer import infer_table

    return infer_table(source, **options)


Schema.inference = _infer

__version__ = "0.1.0"

# The module of each name that is loaded on first use.
_LAZY = {
    name: f"seqrecorder.{module}"
    for module, names in {
        "writing.commit": "commit",
        "writing.rewrite_merge_compact": "compact merge rewrite",
        "writing.part": "parts write_part",
        "writing.writer": "WriteOptions Writer write",
        "reading.batch": "batch",
        "reading.batching.bucket": "Bucket",
        "reading.batching.crop": "Crop",
        "reading.batching.groups": "Groups",
        "reading.batching.pack": "Pack",
        "reading.batching.pad": "Pad",
        "reading.batching.ragged": "Ragged",
        "reading.batching.token_budget": "TokenBudget",
        "reading.batching.unroll": "Unroll",
        "reading.batching.window": "Window",
        "reading.derived_fields": "next_step previous_step",
        "reading.mix": "mix",
        "reading.plan": "Plan PlanTable plan",
        "reading.read": "info read",
        "reading.read_records": "read_records",
        "dataset.manifest": "Manifest",
        "dataset.push_pull_clean": "clean pull push",
        "dataset.salvage": "Salvage salvage",
        "dataset.cutoffs": "Cutoff cutoffs",
        "dataset.selection": "Corpus Selection open",
        "dataset.split_shares": "Balanced",
        "dataset.verify": "VerifyReport verify",
        "sources.csv": "from_csv",
        "sources.row_per_step": "from_rows",
        "sources.tables": "from_table",
        "sources.text": "from_conll from_jsonl from_ts",
        "analysis.leakage": "Leakage leakage",
        "analysis.plot": "plot",
        "analysis.report": "Report report",
        "analysis.stats": "FieldStats Stats stats",
        "analysis.vocabulary": "Coverage Vocabulary",
        "codec.columns": "Column",
    }.items()
    for name in names.split()
}


_MODULES = ("keras", "legacy", "testing")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _importlib.import_module(f"seqrecorder.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'seqrecorder' has no attribute {name!r}")
    try:
        return getattr(_importlib.import_module(_LAZY[name]), name)
    except RuntimeError as error:
        from seqrecorder.errors import OptionError

        raise OptionError(
            f"{name} is used for the first time while the interpreter ends, when modules with threads cannot be "
            f"imported ({error}); import it before: `from seqrecorder import {name}`"
        ) from error


def _public() -> set[str]:
    # Leave out names that are imported for internal use, and submodules, which imports add to the namespace.
    own = [name for name, value in globals().items() if getattr(value, "__module__", "").startswith(f"{__name__}.")]
    return {*(name for name in own if not name.startswith("_")), *_LAZY, *_MODULES}


def __dir__() -> list[str]:
    return sorted({*_public(), *(name for name in globals() if name.startswith("__"))})


if not TYPE_CHECKING:  # type checkers learn the public names from the imports above
    __all__ = sorted(_public())  # noqa: PLE0605 - it is computed
