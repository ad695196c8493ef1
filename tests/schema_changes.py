"""Changes of a record class, and what becomes of data that were written as it was."""

import numpy as np

import seqrecorder as sr


def record_class(name, fields):
    namespace = {"__annotations__": dict.fromkeys(fields, object), **fields}
    return sr.record(kw_only=True)(type(name, (), namespace))


OLD = {
    "key": lambda: sr.context(str, key=True),
    "n": lambda: sr.context("int16"),
    "half": lambda: sr.context("float16"),
    "wide": lambda: sr.context("float64"),
    "flag": lambda: sr.context("bool"),
    "pair": lambda: sr.context("int64", shape=(2,)),
    "maybe": lambda: sr.context("int64", optional=True, default=None),
    "bag": lambda: sr.context("float32", sparse=9),
    "day": lambda: sr.context("datetime64[D]"),
    "ids": lambda: sr.feature_list("int32"),
    "mfcc": lambda: sr.feature_list("float32", shape=(2,)),
    "raw": lambda: sr.feature_list("int8", storage="raw"),
    "free": lambda: sr.feature_list("int64", align=None),
    "side": lambda: sr.feature_list("int64", align="side"),
}


Old = record_class("Old", {name: declare() for name, declare in OLD.items()})


# A change: fields of the class that differ, None for those it lacks, and what its records hold, or what is said.
COMPATIBLE = {
    "nothing": ({}, {}),
    "field removed": ({"ids": None}, {}),
    "fields removed": ({"ids": None, "maybe": None, "free": None, "side": None}, {}),
    "only one left": ({name: None for name in OLD if name != "mfcc"}, {}),
    "context added with default": ({"new": sr.context("float32", default=2.5)}, {"new": np.float32(2.5)}),
    "text added with default": ({"new": sr.context(str, default="\u00e9\0")}, {"new": "\u00e9\0"}),
    "array added with default": (
        {"new": sr.context("uint8", shape=(2,), default=[1, 255])},
        {"new": np.array([1, 255], "uint8")},
    ),
    "ragged added with default": (
        {"new": sr.context("int64", shape=(None,), default=[4, 5])},
        {"new": np.array([4, 5])},
    ),
    "sparse added with default": (
        {"new": sr.context("float32", sparse=4, dense=True, factory=lambda: sr.SparseVector([1], [2.0], 4))},
        {"new": sr.SparseVector([1], np.ones(1, "float32") * 2, 4)},
    ),
    "optional added": ({"new": sr.context("int64", optional=True, default=None)}, {"new": None}),
    "optional added with default": ({"new": sr.context("int64", optional=True, default=3)}, {"new": np.int64(3)}),
    "list added empty": (
        {"new": sr.feature_list("float32", align=None, factory=list)},
        {"new": np.empty(0, "float32")},
    ),
    "list added optional": ({"new": sr.feature_list("float32", optional=True, default=None)}, {"new": None}),
    "free list added with default": (
        {"new": sr.feature_list("float32", align=None, default=[1, 2])},
        {"new": np.array([1, 2], "float32")},
    ),
    "renamed": ({"n": None, "number": sr.context("int16", renamed_from="n")}, {"number": "n"}),
    "renamed again": ({"n": None, "number": sr.context("int16", renamed_from=("count", "n"))}, {"number": "n"}),
    "renamed list": ({"ids": None, "tokens": sr.feature_list("int32", renamed_from="ids")}, {"tokens": "ids"}),
    "renamed and freed": (
        {"free": None, "f": sr.feature_list("int64", align=None, renamed_from="free")},
        {"f": "free"},
    ),
    "renamed, its feature kept": ({"n": None, "number": sr.context("int16", name="n")}, {"number": "n"}),
    "integer made wider": ({"n": sr.context("int64")}, {"n": np.int64}),
    "integers made wider": ({"ids": sr.feature_list("int64")}, {"ids": np.int64}),
    "float made wider": ({"half": sr.context("float32")}, {"half": np.float32}),
    "text read as bytes": ({"key": sr.context(bytes)}, {"key": str.encode}),
    "required made optional": ({"n": sr.context("int16", optional=True, default=None)}, {}),
    "default added": ({"n": sr.context("int16", default=5)}, {}),
    "sparse made larger": (
        {"bag": sr.context("float32", sparse=10)},
        {"bag": lambda was: sr.SparseVector([3], was.values, 10)},
    ),
    "sparse made dense": (
        {"bag": sr.context("float32", sparse=9, dense=True)},
        {},
    ),
    "no key any more": ({"key": sr.context(str)}, {}),
    "alignment freed": ({"ids": sr.feature_list("int32", align=None)}, {}),
    "feature renamed": ({"n": sr.context("int16", name="other")}, {}),
}


INCOMPATIBLE = {
    "added without default": ({"new": sr.context("int64")}, "new: not in the data (context int64), and has no default"),
    "renamed without saying": (
        {"n": None, "number": sr.context("int16")},
        "number: not in the data (context int16), and has no default; if it was renamed, declare renamed_from='n'",
    ),
    "list added without default": ({"new": sr.feature_list("int64")}, "new: not in the data"),
    "aligned list added empty": (
        {"new": sr.feature_list("int64", factory=list)},
        "a default of 0 steps cannot have the length of 'ids': declare optional=True, or align=None",
    ),
    "list added with a default of one length": (
        {"new": sr.feature_list("int64", default=[1])},
        "a default of 1 steps cannot have the length of 'ids': declare optional=True, or align=None",
    ),
    "renamed, and the name given to another": (
        {"n": sr.context(str, default=""), "number": sr.context("int16", renamed_from="n")},
        "n: dtype int16 in the data, str in the class",
    ),
    "two from one": ({"number": sr.context("int16", renamed_from="n")}, "number: would be read from 'n', as 'n' is"),
    "integer made narrower": ({"n": sr.context("int8")}, "n: dtype int16 in the data, int8 in the class"),
    "sign lost": ({"n": sr.context("uint32")}, "n: dtype int16 in the data, uint32 in the class"),
    "integer to float": ({"n": sr.context("float32")}, "n: dtype int16 in the data, float32 in the class"),
    "float made narrower": ({"wide": sr.context("float32")}, "wide: dtype float64 in the data, float32 in the class"),
    "float stored otherwise": ({"half": sr.context("float64")}, "half: dtype float16 in the data, float64"),
    "bool to integer": ({"flag": sr.context("int8")}, "flag: dtype bool in the data, int8 in the class"),
    "buffer made wider": ({"raw": sr.feature_list("int16", storage="raw")}, "raw: dtype int8 in the data, int16"),
    "bytes to text": ({"key": sr.context("int64")}, "key: dtype str in the data, int64 in the class"),
    "another unit": ({"day": sr.context("datetime64[s]")}, "day: dtype datetime64[D] in the data, datetime64[s]"),
    "another shape": ({"pair": sr.context("int64", shape=(3,))}, "pair: shape (2,) in the data, (3,) in the class"),
    "shape made ragged": ({"pair": sr.context("int64", shape=(None,))}, "pair: shape (2,) in the data, (None,)"),
    "step reshaped": ({"mfcc": sr.feature_list("float32", shape=(1, 2))}, "mfcc: shape (2,) in the data, (1, 2)"),
    "context to list": ({"n": sr.feature_list("int16")}, "n: kind 'context' in the data, 'feature_list' in the class"),
    "list to context": ({"ids": sr.context("int32")}, "ids: kind 'feature_list' in the data, 'context' in the class"),
    "another storage": (
        {"ids": sr.feature_list("int32", storage="packed")},
        "ids: storage 'auto' in the data, 'packed'",
    ),
    "optional made required": ({"maybe": sr.context("int64")}, "maybe: may be None in the data, and not in the class"),
    "sparse made smaller": ({"bag": sr.context("float32", sparse=8)}, "bag: sparse 9 in the data, 8 in the class"),
    "sparse to dense storage": ({"bag": sr.context("float32", shape=(9,))}, "bag: sparse 9 in the data, None"),
    "aligned anew": ({"free": sr.feature_list("int64")}, "free: aligned with 'ids' in the class, and not in the data"),
    "aligned to another group": (
        {"ids": sr.feature_list("int32", align="side"), "side": None},
        "ids: in the alignment group 'side', which is another one in the data",
    ),
    "a group of new fields only": (
        {"side": None, "new": sr.feature_list("int64", align="side", factory=list)},
        "new: in the alignment group 'side', of which the class has no other field",
    ),
}


def changed(change):
    fields = {name: declare() for name, declare in OLD.items()} | change
    return record_class("New", {name: field for name, field in fields.items() if field is not None})
