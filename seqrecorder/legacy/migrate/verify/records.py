"""Records made up for an input function, from what it asks of its reader, its parser and its decoders.

While the function builds its graph, the functions of TensorFlow that say something about records are watched: the
features they parse, the dtype that bytes are decoded as, the size of fixed records. The shapes that the function states
for decoded bytes tell how many there are.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.legacy.migrate.verify.pictures import LARGE, SIDES, picture
from seqrecorder.legacy.migrate.verify.stand_ins import PICTURES, found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_PARSERS = ("parse_single_sequence_example", "parse_single_example", "parse_example")
_IMAGES = ("decode_jpeg", "decode_png", "decode_image")
_ELEMENTS = 12  # of decoded bytes of which no shape is stated
_LONGEST = 16  # of records with steps
_CLASSES = 3  # below which numbers are that may be indices
_VARIABLE = 4  # values that a feature of any number has fewer than, unless an error says how many there should be
_SIDE = 2  # of images of decoded bytes, which have as many elements so
_PASSING = ("Identity", "Print", "PrintV2", "Reshape", "ExpandDims", "Squeeze", "StringJoin", "Cast")


@attrs.define
class Asked:
    """What an input function asks.

    Attributes:
        context: features by name, those of flat examples too.
        lists: features of the feature lists.
        is_sequence: whether SequenceExamples are parsed.
        raw: by the name of a feature, the dtype that its bytes are decoded as, and the tensor of that.
        images: names of features that hold images.
        columns: defaults of CSV columns.
        reader: name of the reader's class.
        options: of the reader.
        files: names of the files that are read, where they are known while the graph is built.
        whole_files: whether files are read whole, whose names the graph makes.
        places: directories that lack pictures, besides that of the trial.
        names: places of the columns that have their names.
        delimiter: between columns.
        decoded: images.
        lengths: by those that records had, those that they should have.
        large: whether images are, for functions that cut much out of them.
        sides: of images, where an error said which they should have.
    """

    context: dict[str, Any] = attrs.field(factory=dict)
    lists: dict[str, Any] = attrs.field(factory=dict)
    is_sequence: bool = False
    raw: dict[str, tuple[Any, Any]] = attrs.field(factory=dict)
    images: set[str] = attrs.field(factory=set)
    columns: list[Any] = attrs.field(factory=list)
    reader: str = ""
    options: dict[str, Any] = attrs.field(factory=dict)
    files: list[str] = attrs.field(factory=list)
    whole_files: bool = False
    places: set[Path] = attrs.field(factory=set)
    names: set[int] = attrs.field(factory=set)
    delimiter: str = ","
    decoded: list[Any] = attrs.field(factory=list)
    lengths: dict[int, int] = attrs.field(factory=dict)
    large: bool = False
    sides: tuple[int, ...] = ()
    _named: dict[int, tuple[str, Any]] = attrs.field(factory=dict)

    @property
    def size(self) -> tuple[int, ...]:
        """The size of images: that which is stated for one, or which one is reshaped to."""
        return next(iter(self._sizes()), self.sides or (LARGE if self.large else SIDES))

    @property
    def gray(self) -> tuple[int, ...]:
        """The size of those that have one channel: of labels, where they are, else of all."""
        return next((size for size in self._sizes() if size[-1] == 1), self.size)

    def _sizes(self) -> Iterator[tuple[int, ...]]:
        shapes = [each.shape for tensor in self.decoded for each in (tensor, *_reshaped(tensor))]
        return (tuple(s.as_list()) for s in shapes if s.rank == len(SIDES) and s.is_fully_defined())

    def told(self, error: str) -> bool:
        """Take in which length an error says that something had, and should have; return whether it says so.

        >>> asked = Asked()
        >>> asked.told("Shape mismatch in tuple component 0. Expected [784], got [12]"), asked.lengths
        (True, {12: 784})
        >>> asked.told("Shape mismatch in tuple component 2. Expected [1,2], got [5,2]"), asked.lengths[5]
        (True, 1)
        """
        expected = re.search(r"Expected \[(\d+)(?:,\d+)?\], got \[(\d+)", error)
        if image := re.search(r"Expected \[(\d+),(\d+),(\d+)\], got", error):
            self.sides, before = tuple(map(int, image.groups())), self.sides
            return self.sides != before
        said = r"tensor with (\d+) values, but the requested shape (?:has|requires a multiple of) (\d+)"
        found = re.search(said, error)
        if expected is None and found is None:
            return False
        had, should = map(int, found.groups() if found else reversed(expected.groups()))  # type: ignore[union-attr]
        self.lengths[next((first for first, then in self.lengths.items() if then == had), had)] = should
        return True

    def name_of(self, tensor: Any) -> str:
        """Return the feature that a tensor holds; the empty name is that of whole records."""
        while (known := self._named.get(id(tensor))) is None and tensor.op.type in _PASSING:
            tensor = tensor.op.inputs[0]
        return known[0] if known is not None else ""

    def name(self, tensors: Any) -> None:
        """Note which features some tensors hold."""
        for name, tensor in tensors.items():
            self._named[id(tensor)] = (name, tensor)  # the tensor too, so that its id stays its own


@contextlib.contextmanager
def watched() -> Iterator[Asked]:
    """Watch what is asked of records while graphs are built."""
    import tensorflow as tf
    from tensorflow.python.lib.io import _pywrap_file_io  # by whatever name a script asks for files

    asked = Asked()
    # The second is what `tf.compat.v1` is until somebody imports the first.
    names = ("tensorflow.compat.v1", "tensorflow._api.v2.compat.v1")
    first = [sys.modules[name] for name in names if name in sys.modules]
    with contextlib.ExitStack() as stack:
        for v1 in first:
            _watch(stack, v1, asked)
        for place in (tf.io, tf.image):
            _watch_parsing(stack, place, asked)
        _patch(
            stack, _pywrap_file_io, "FileExists", lambda *_: None
        )  # what a function looks for is made before it runs
        _patch(stack, _pywrap_file_io, "GetMatchingFiles", lambda own, pattern: found(own, pattern.decode()))
        _patch(stack, tf.io, "read_file", functools.partial(_read_whole, asked))
        yield asked


def _watch(stack: contextlib.ExitStack, v1: Any, asked: Asked) -> None:
    for place in (v1, v1.io, v1.image):
        _watch_parsing(stack, place, asked)
    for name in ("TFRecordReader", "TextLineReader", "FixedLengthRecordReader", "WholeFileReader"):
        _patch(stack, v1, name, functools.partial(_read, asked, name))
    for name in ("string_input_producer", "input_producer", "slice_input_producer"):
        _patch(stack, v1.train, name, functools.partial(_produce, asked, name.startswith("slice")))
    for place, name in ((v1.train, "match_filenames_once"), (v1.io, "match_filenames_once"), (v1, "matching_files")):
        _patch(stack, place, name, functools.partial(_match, asked))
    for place in (v1, v1.io):
        _patch(stack, place, "read_file", functools.partial(_read_whole, asked))


def _watch_parsing(stack: contextlib.ExitStack, place: Any, asked: Asked) -> None:
    for name in _PARSERS:
        _patch(stack, place, name, functools.partial(_parse, asked, name))
    for name in _IMAGES:
        _patch(stack, place, name, functools.partial(_decode_image, asked))
    _patch(stack, place, "decode_raw", functools.partial(_decode_raw, asked))
    _patch(stack, place, "decode_csv", functools.partial(_decode_csv, asked))


def _patch(stack: contextlib.ExitStack, place: Any, name: str, replacement: Callable[..., Any]) -> None:
    original = getattr(place, name, None)
    if original is not None:
        stack.callback(setattr, place, name, original)
        setattr(place, name, functools.partial(replacement, original))


def _parse(asked: Asked, name: str, original: Any, /, *args: Any, **kwargs: Any) -> Any:
    result = original(*args, **kwargs)
    if name == "parse_single_sequence_example":
        asked.is_sequence = True
        given = dict(zip(("serialized", "context_features", "sequence_features"), args, strict=False)) | kwargs
        asked.context |= given.get("context_features") or {}
        asked.lists |= given.get("sequence_features") or {}
        for part in result[:2]:
            asked.name(part)
    else:
        given = dict(zip(("serialized", "features"), args, strict=False)) | kwargs
        asked.context |= given["features"]
        asked.name(result)
    return result


def _decode_raw(asked: Asked, original: Any, /, *args: Any, **kwargs: Any) -> Any:
    result = original(*args, **kwargs)
    given = dict(zip(("input_bytes", "out_type"), args, strict=False)) | kwargs
    source = given.get("input_bytes", given.get("bytes"))
    asked.raw[asked.name_of(source)] = given["out_type"], result
    return result


def _decode_csv(asked: Asked, original: Any, /, *args: Any, **kwargs: Any) -> Any:
    given = dict(zip(("records", "record_defaults"), args, strict=False)) | kwargs
    asked.columns, asked.delimiter = list(given["record_defaults"]), given.get("field_delim", ",")
    return original(*args, **kwargs)


def _decode_image(asked: Asked, original: Any, /, *args: Any, **kwargs: Any) -> Any:
    asked.images.add(asked.name_of(args[0] if args else kwargs.get("contents")))
    result = original(*args, **kwargs)
    asked.decoded.append(result)
    return result


def _produce(asked: Asked, sliced: bool, original: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: FBT001
    import tensorflow as tf

    given = args[0] if args else next(iter(kwargs.values()))
    for item in tf.nest.flatten(given):
        known = tf.get_static_value(item) if isinstance(item, tf.Tensor) else item
        names = [name.decode() if isinstance(name, bytes) else name for name in np.ravel(known)]
        named = [str(n) for n in names if isinstance(n, str) and (not sliced or ("." in n and not os.path.exists(n)))]  # noqa: PTH110
        asked.files += [name for name in dict.fromkeys(named) if name not in asked.files]
    return original(*args, **kwargs)


def _match(asked: Asked, original: Any, pattern: Any, *more: Any, **named: Any) -> Any:
    if isinstance(pattern, str):
        asked.files += [name for name in found(lambda _: [], pattern) if name not in asked.files]
    return original(pattern, *more, **named)


def _read_whole(asked: Asked, original: Any, filename: Any, *more: Any, **named: Any) -> Any:
    asked.whole_files = True
    tensor = filename
    while getattr(tensor, "op", None) is not None and tensor.op.type in _PASSING:
        tensor = tensor.op.inputs[-1]
    if getattr(tensor, "op", None) is not None and tensor.op.type == "DecodeCSV":
        asked.names.add(tensor.value_index)
    return original(filename, *more, **named)


def _read(asked: Asked, name: str, original: Any, /, *args: Any, **kwargs: Any) -> Any:
    asked.reader, asked.options = name, kwargs
    if name == "FixedLengthRecordReader":
        asked.options = dict(zip(("record_bytes", "header_bytes", "footer_bytes"), args, strict=False)) | kwargs
    elif name == "TextLineReader":
        asked.options = dict(zip(("skip_header_lines",), args, strict=False)) | kwargs
    elif name == "TFRecordReader":
        asked.options = dict(zip(("name", "options"), args, strict=False)) | kwargs
    return original(*args, **kwargs)


# Records --------------------------------------------------------------------------------------------------------------


def write_file(path: Path, asked: Asked, records: int, random: np.random.Generator, least: int = 1) -> None:
    """Write one file of made-up records, of at least so many steps."""
    import tensorflow as tf

    if asked.reader == "TextLineReader":
        header = ["header"] * int(asked.options.get("skip_header_lines") or 0)
        path.write_text("\n".join([*header, *(_line(asked, random) for _ in range(records))]) + "\n")
    elif asked.reader == "FixedLengthRecordReader":
        sizes = [int(asked.options.get(f"{part}_bytes") or 0) for part in ("header", "record", "footer")]
        body = [random.integers(0, 10, sizes[1], np.uint8).tobytes() for _ in range(records)]
        path.write_bytes(bytes(sizes[0]) + b"".join(body) + bytes(sizes[2]))
    elif asked.reader == "WholeFileReader" or asked.whole_files:
        path.write_bytes(_bytes(asked, "", random))
    else:
        with tf.io.TFRecordWriter(str(path), asked.options.get("options") or "") as writer:
            for _ in range(records):
                writer.write(_message(asked, random, least))


def _line(asked: Asked, random: np.random.Generator) -> str:
    picture = f"picture-{random.integers(PICTURES)}.jpg"
    cells = []
    for place in range(len(asked.columns) or 1):
        number = random.integers(0, 100)
        cells.append(picture if place in asked.names else f"{number}")  # numbers are texts, too
    return asked.delimiter.join(cells)


def _message(asked: Asked, random: np.random.Generator, least: int) -> bytes:
    import tensorflow as tf

    said = [then for first, then in asked.lengths.items() if first < _LONGEST and first != _ELEMENTS]
    steps = _steps(asked) or (said[0] if said else int(random.integers(least, least + 5)))
    told = [then for first, then in asked.lengths.items() if first < _VARIABLE]
    values = told[0] if told else int(random.integers(0, _VARIABLE))  # of each feature, such as the sides of boxes
    made = functools.partial(_feature, asked, random, (steps, values))
    context = {name: made(name, spec) for name, spec in asked.context.items()}
    if not asked.is_sequence:
        if not context:
            return f"record {random.integers(0, 1000)}".encode()
        return bytes(tf.train.Example(features=tf.train.Features(feature=context)).SerializeToString())
    lists = {
        name: tf.train.FeatureList(feature=[made(name, spec) for _ in range(steps)])
        for name, spec in asked.lists.items()
    }
    message = tf.train.SequenceExample(
        context=tf.train.Features(feature=context), feature_lists=tf.train.FeatureLists(feature_list=lists)
    )
    return bytes(message.SerializeToString())


def _feature(asked: Asked, random: np.random.Generator, counts: tuple[int, int], name: str, spec: Any) -> Any:
    """Return a feature of a record that has so many steps, and so many values where a feature has any number."""
    import tensorflow as tf

    steps, several = counts
    shape = getattr(spec, "shape", None)
    count = several if shape is None else int(np.prod(np.ravel(shape), dtype=np.int64))
    if spec.dtype == tf.string:
        values = [_bytes(asked, name, random) for _ in range(count)]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if spec.dtype == tf.int64:
        below = _CLASSES if shape is None else 9
        said = several if name.lower().endswith("count") else None
        known = _side(asked, name.lower()) or ("len" in name.lower() and steps) or said
        numbers = [known] if known is not None and count == 1 else random.integers(0, below, count).tolist()
        return tf.train.Feature(int64_list=tf.train.Int64List(value=numbers))
    return tf.train.Feature(float_list=tf.train.FloatList(value=random.normal(size=count).astype("f4").tolist()))


def _side(asked: Asked, name: str) -> int:
    """Return the side of an image that a name says; 0 where it says none."""
    sides = asked.sides or (SIDES if asked.images else (_SIDE, _SIDE, SIDES[-1]))
    words = (("height",), ("width",), ("depth", "channel"))
    return next((side for side, said in zip(sides, words, strict=True) if any(word in name for word in said)), 0)


def _bytes(asked: Asked, name: str, random: np.random.Generator) -> bytes:
    import tensorflow as tf

    if name in asked.images:
        return picture(int(random.integers(PICTURES)), asked.size)
    if name not in asked.raw:
        return f"text {random.integers(0, 100)}".encode()
    dtype, tensor = asked.raw[name]
    count = _count(tensor, asked.sides or (_SIDE,) * 3)
    numbers = random.integers(0, 9, asked.lengths.get(count, count))
    return np.asarray(numbers).astype(tf.as_dtype(dtype).as_numpy_dtype).tobytes()


def _steps(asked: Asked) -> int:
    """Return how many steps each record has, where the bytes of all are decoded together to a stated shape; else 0."""
    stated = (tensor.shape.as_list()[0] for name, (_, tensor) in asked.raw.items() if _is_listed(asked, name, tensor))
    return max((steps for steps in stated if steps), default=0)


def _is_listed(asked: Asked, name: str, tensor: Any) -> bool:
    return name in asked.lists and bool(tensor.shape.rank and tensor.shape.rank > 1)


def _reshaped(tensor: Any) -> Iterator[Any]:
    """Yield what a tensor is reshaped to, as it is or cast."""
    for use in tensor.consumers():
        if use.type == "Reshape":
            yield use.outputs[0]
        elif use.type == "Cast":
            yield from _reshaped(use.outputs[0])


def _count(tensor: Any, sides: tuple[int, ...]) -> int:
    """Return how many numbers decoded bytes have: by their own shape, or by that which they are reshaped to."""
    several = int(bool(tensor.shape.rank and tensor.shape.rank > 1))  # bytes of several steps
    for shape in (tensor.shape, *(each.shape for each in _reshaped(tensor))):
        sizes = shape.as_list()[several:] if shape.rank else []
        if len(sizes) == 3:  # noqa: PLR2004 - an image, whose sides are in the record
            sizes = [side or other for side, other in zip(sizes, sides, strict=True)]
        elif len(sizes) > 1 and sizes.count(None) == 1:
            sizes = [size or _SIDE for size in sizes]
        if sizes and all(sizes):
            return int(np.prod(sizes, dtype=np.int64))
    return _ELEMENTS
