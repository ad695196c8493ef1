"""Sequence data in TensorFlow's SequenceExample format: declare one attrs class; write, read and verify.

Importing this does not import TensorFlow; the names that need more than the schema are loaded when first used.
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING, Any

from seqrecorder import records as _records  # noqa: F401 - gives schemas their codec
from seqrecorder.declarations import context as context
from seqrecorder.declarations import feature_list as feature_list
from seqrecorder.declarations import record as record
from seqrecorder.errors import DatasetError as DatasetError
from seqrecorder.errors import DatasetExistsError as DatasetExistsError
from seqrecorder.errors import DatasetNotFoundError as DatasetNotFoundError
from seqrecorder.errors import DuplicateKeyError as DuplicateKeyError
from seqrecorder.errors import LiftError as LiftError
from seqrecorder.errors import LimitExceededError as LimitExceededError
from seqrecorder.errors import ManifestError as ManifestError
from seqrecorder.errors import OptionError as OptionError
from seqrecorder.errors import RecordError as RecordError
from seqrecorder.errors import SchemaError as SchemaError
from seqrecorder.errors import SchemaMismatchError as SchemaMismatchError
from seqrecorder.errors import SeqrecorderError as SeqrecorderError
from seqrecorder.errors import ShardError as ShardError
from seqrecorder.errors import ShardReadError as ShardReadError
from seqrecorder.errors import ShardWriteError as ShardWriteError
from seqrecorder.errors import SkipRecord as SkipRecord
from seqrecorder.errors import SourceError as SourceError
from seqrecorder.schema import Schema as Schema
from seqrecorder.values import SparseVector as SparseVector

if TYPE_CHECKING:
    from seqrecorder import keras as keras
    from seqrecorder import legacy as legacy
    from seqrecorder import testing as testing
    from seqrecorder.batching.bucket import Bucket as Bucket
    from seqrecorder.batching.pack import Pack as Pack
    from seqrecorder.batching.pad import Pad as Pad
    from seqrecorder.batching.ragged import Ragged as Ragged
    from seqrecorder.batching.unroll import Unroll as Unroll
    from seqrecorder.batching.window import Window as Window
    from seqrecorder.checks import verify as verify
    from seqrecorder.manifest import Manifest as Manifest
    from seqrecorder.mixing import mix as mix
    from seqrecorder.planning import plan as plan
    from seqrecorder.reader import info as info
    from seqrecorder.reader import read as read
    from seqrecorder.reader import read_records as read_records
    from seqrecorder.salvaging import salvage as salvage
    from seqrecorder.shares import Balanced as Balanced
    from seqrecorder.sources import from_csv as from_csv
    from seqrecorder.writer import Writer as Writer
    from seqrecorder.writing import write as write

__version__ = "0.1.0"

_LAZY = {
    "Balanced": "seqrecorder.shares",
    "Bucket": "seqrecorder.batching.bucket",
    "Manifest": "seqrecorder.manifest",
    "Pack": "seqrecorder.batching.pack",
    "Pad": "seqrecorder.batching.pad",
    "Ragged": "seqrecorder.batching.ragged",
    "Unroll": "seqrecorder.batching.unroll",
    "Window": "seqrecorder.batching.window",
    "Writer": "seqrecorder.writer",
    "from_csv": "seqrecorder.sources",
    "info": "seqrecorder.reader",
    "mix": "seqrecorder.mixing",
    "plan": "seqrecorder.planning",
    "read": "seqrecorder.reader",
    "read_records": "seqrecorder.reader",
    "salvage": "seqrecorder.salvaging",
    "verify": "seqrecorder.checks",
    "write": "seqrecorder.writing",
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


def __dir__() -> list[str]:
    # Not what is imported here for use here, nor the modules that imports leave behind.
    own = [name for name, value in globals().items() if getattr(value, "__module__", "").startswith(f"{__name__}.")]
    return sorted({*own, *_LAZY, *_MODULES, *(name for name in globals() if name.startswith("__"))})
