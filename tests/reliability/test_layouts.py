"""One table: each layout, each kind of field, each reader, against values that this file writes with TensorFlow."""

import attrs
import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night
from same_values import plain, without_padding
from strategies import CASES

import seqrecorder as sr
from seqrecorder.codec.decode import RecordDecoder
from seqrecorder.codec.parse import Parser
from seqrecorder.sources.foreign.convert import convert

STEPS = (3, 1, 0, 2)
"""Steps of each record."""

LAYOUTS = ("steps", "packed", "example")
BUFFERED = ("float64", "complex64", "complex128")


@attrs.frozen
class Row:
    """One field of the table.

    Attributes:
        dtype: element type, a key of `CASES`.
        shape: of a value or step.
        is_list: whether it is a feature list.
        options: of the declaration.
        lacks: whether the second record lacks the field.
    """

    dtype: str
    shape: tuple = ()
    is_list: bool = True
    options: dict = attrs.field(factory=dict)
    lacks: bool = False

    @property
    def storage(self):
        return self.options.get("storage", "auto")

    @property
    def numpy(self):
        return CASES[self.dtype].valid.dtype

    @property
    def name(self):
        kind = "list" if self.is_list else "context"
        options = "_".join(str(v if isinstance(v, str) else k) for k, v in self.options.items())
        shape = "_".join(map(str, self.shape))
        return "_".join(filter(None, [kind, self.dtype.replace("[", "_").rstrip("]"), shape, options]))

    @property
    def needs_bounds(self):
        """Whether a sequence in one feature would lose the bounds of its steps."""
        return self.is_list and (self.is_ragged or "sparse" in self.options)

    @property
    def is_image(self):
        return self.storage in ("png", "jpeg")

    @property
    def is_ragged(self):
        return self.shape[:1] == (None,) and not self.is_image

    def declared(self):
        declare = sr.feature_list if self.is_list else sr.context
        return declare(self.dtype, shape=self.shape, kw_only=True, **self.options)

    def elements(self, number, shape):
        """Return `shape` elements, those that a careless reader would change first; no NaN, which protos change."""
        valid = CASES[self.dtype].valid
        if "float" in self.dtype or "complex" in self.dtype:
            with np.errstate(invalid="ignore"):
                valid = valid[~np.isnan(valid)]
        size = int(np.prod(shape, dtype=int))
        return np.array([valid[(number + i) % len(valid)] for i in range(size)], valid.dtype).reshape(shape)

    def one(self, number):
        """Return one value, or the value of one step: an array, or a dict of a sparse vector."""
        if "sparse" in self.options:
            places = sorted({number % self.options["sparse"], 3})
            return dict(zip(places, self.elements(number, len(places)), strict=True))
        if self.is_image:
            shape = [number % 3 + 1 if size is None else size for size in self.shape]
            return np.full(shape, 10 + 5 * number, self.dtype)
        return self.elements(number, [(number + 1) % 3 if size is None else size for size in self.shape])

    def value(self, record):
        """Return the value that a record of the file holds: of a list, the list of its steps; None for none."""
        if self.lacks and record == 1:
            return None
        if not self.is_list:
            return self.one(record)
        return [self.one(10 * record + step) for step in range(STEPS[record])]

    def in_tensors(self, record):
        """Return the value that graphs give: as `expected`, but some sparse vectors dense."""
        value = self.expected(record)
        if "dense" not in self.options:
            return value
        steps = value if self.is_list else [value]
        size = self.options["sparse"]
        dense = np.array([[step.get(i, 0) for i in range(size)] for step in steps], self.numpy).reshape(-1, size)
        return dense if self.is_list else dense[0]

    def expected(self, record):
        """Return the value that records have: the default where the file lacks the field."""
        value = self.value(record)
        if value is None and self.options.get("default") is not None:
            return np.asarray(self.options["default"], self.numpy)
        if value is None or "sparse" in self.options or not self.is_list or None in self.shape:
            return value
        shape = (len(value), *self.shape)
        return np.stack(value) if value else np.empty(shape, self.numpy)


def rows():
    """Yield the table."""
    yield from rows_of_types()
    yield from rows_of_storages()
    yield from rows_that_lack()


def rows_of_types():
    """Yield every element type as it comes, and other shapes with types of each class."""
    for dtype in CASES:
        yield from (Row(dtype, is_list=is_list) for is_list in (False, True))
    for dtype in ("bool", "int16", "float32", "float64", "str"):
        for shape in ((2, 3), (None,), (None, 2)):
            yield from (Row(dtype, shape, is_list) for is_list in (False, True))
    for dtype in ("int64", "float16", "float64", "str"):
        yield from (Row(dtype, (), is_list, {"sparse": 5}) for is_list in (False, True))
    yield from (Row("int32", (), is_list, {"sparse": 5, "dense": True}) for is_list in (False, True))


def rows_of_storages():
    """Yield every storage with types of each class."""
    for dtype in ("bool", "uint64", "bfloat16", "datetime64[ns]"):
        for shape in ((), (2,), (None,)):
            yield from (Row(dtype, shape, is_list, {"storage": "raw"}) for is_list in (False, True))
    for dtype, shape in (("bool", ()), ("uint64", (2,)), ("bfloat16", (2,)), ("str", (2,)), ("float64", ())):
        yield Row(dtype, shape, options={"storage": "packed"})
        if dtype != "str":
            yield Row(dtype, shape, options={"storage": "buffer"})
    for dtype in ("bool", "int16", "complex64"):
        for shape in ((), (2,), (None, 2)):
            yield from (Row(dtype, shape, is_list, {"storage": "tensor"}) for is_list in (False, True))
    for storage, shape in (("png", (8, 8, 3)), ("png", (8, 8, 1)), ("jpeg", (8, 8, 1))):
        yield from (Row("uint8", shape, is_list, {"storage": storage}) for is_list in (False, True))
    for dtype, storage, shape in (
        ("uint8", "png", (None, None, 4)),
        ("uint16", "png", (4, None, 1)),
        ("uint8", "jpeg", (None, 3, 1)),
    ):
        yield from (Row(dtype, shape, is_list, {"storage": storage}) for is_list in (False, True))


def rows_that_lack():
    """Yield optional fields, and fields with a default, that one record lacks."""
    for dtype, default in (("int32", 7), ("float64", 1.5), ("str", "a"), ("bytes", b"b"), ("bool", True)):
        yield Row(dtype, is_list=False, options={"default": default}, lacks=True)
        yield Row(dtype, is_list=True, options={"default": [default] * 2, "align": None}, lacks=True)
    nothing = {"optional": True, "default": None}
    for dtype, storage in (("int32", "auto"), ("float32", "raw"), ("str", "auto"), ("int16", "tensor")):
        options = {**nothing, "storage": storage}
        yield from (Row(dtype, shape, False, options, lacks=True) for shape in ((), (2,), (None,)))
        yield Row(dtype, (), True, {**options, "align": None}, lacks=True)
    for shape in ((8, 8, 3), (None, None, 3)):
        yield Row("uint8", shape, True, {**nothing, "storage": "png", "align": None}, lacks=True)
        yield Row("uint8", shape, False, {**nothing, "storage": "png"}, lacks=True)


TABLE = {row.name: row for row in rows()}
ROWS = {layout: {n: r for n, r in TABLE.items() if layout == "steps" or not r.needs_bounds} for layout in LAYOUTS}
for _layout in LAYOUTS[1:]:  # context is read as in the first one
    ROWS[_layout] = {name: row for name, row in ROWS[_layout].items() if row.is_list}
CLASSES = {
    layout: attrs.make_class("Wide", {name: row.declared() for name, row in ROWS[layout].items()}) for layout in LAYOUTS
}


def items(row, value):
    """Return the kind of list that holds an array, and what it holds."""
    dtype = row.dtype
    if row.storage == "tensor":
        return "bytes_list", [tf.io.serialize_tensor(tf.constant(value)).numpy()]
    if row.is_image:
        encode = tf.io.encode_png if row.storage == "png" else lambda x: tf.io.encode_jpeg(x, quality=100)
        return "bytes_list", [encode(value).numpy()]
    if row.storage in ("raw", "buffer") or dtype in BUFFERED:
        return "bytes_list", [value.tobytes()]
    flat = value.reshape(-1)
    if dtype in ("str", "bytes"):
        return "bytes_list", [item.encode() if dtype == "str" else item for item in flat]
    if "float" in dtype:
        return "float_list", flat.astype(np.float32).tolist()
    return "int64_list", (flat.view(np.int64) if flat.dtype.itemsize == 8 else flat.astype(np.int64)).tolist()


def features_of(row, value):
    """Return the features of one value by name, each a kind of list and its contents."""
    if "sparse" not in row.options:
        return {row.name: items(row, value)}
    elements = np.array(list(value.values()), row.numpy)
    return {f"{row.name}/indices": ("int64_list", list(value)), f"{row.name}/values": items(row, elements)}


def fill(feature, kind, contents):
    getattr(feature, kind).value.extend(contents)


def add(message, row, value, layout):
    """Add the value of a field to a message."""
    if not row.is_list:
        for name, (kind, contents) in features_of(row, value).items():
            fill(message.context.feature[name], kind, contents)
        return
    steps = [features_of(row, step) for step in value]
    whole = row.storage in ("packed", "buffer")
    for name in features_of(row, row.one(0)):
        if layout == "steps" and not whole:
            message.feature_lists.feature_list[name].SetInParent()
            targets = [message.feature_lists.feature_list[name].feature.add() for _ in steps]
        elif layout == "example":
            message.context.feature[name].SetInParent()
            targets = [message.context.feature[name]] * len(steps)
        else:
            targets = [message.feature_lists.feature_list[name].feature.add()] * len(steps)
        if whole and (row.storage == "buffer" or row.dtype in BUFFERED):
            targets, contents = targets[:1], b"".join(step[name][1][0] for step in steps)
            steps_here = [("bytes_list", [contents])] if targets else []
        else:
            steps_here = [step[name] for step in steps]
        for target, (kind, contents) in zip(targets, steps_here, strict=True):
            fill(target, kind, contents)


def message(record, layout, rows=None):
    """Return a record as others might have written it: nothing in it says what is present."""
    made = tf.train.SequenceExample()
    for row in rows or ROWS[layout].values():
        value = row.value(record)
        if value is not None:
            add(made, row, value, layout)
    return made


def serialized(made, layout):
    """Return the bytes of a message; of a flat one those of an Example, which has the features of the context."""
    if layout == "example":
        made = tf.train.Example(features=made.context)
    return made.SerializeToString(deterministic=True)


def write(path, data):
    with tf.io.TFRecordWriter(str(path)) as file:
        for one in data:
            file.write(one)
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A file of each layout."""
    directory = tmp_path_factory.mktemp("layouts")
    return {
        layout: write(directory / layout, [serialized(message(i, layout), layout) for i in range(len(STEPS))])
        for layout in LAYOUTS
    }


# What is compared ---------------------------------------------------------------------------------------------------


def check_records(layout, records, rows=None):
    """Assert that objects have the values of the table."""
    records = list(records)
    assert len(records) == len(STEPS)
    wrong = {
        f"{name} of record {number}": (getattr(record, name), row.expected(number))
        for number, record in enumerate(records)
        for name, row in (rows or ROWS[layout]).items()
        if plain(getattr(record, name)) != plain(row.expected(number))
    }
    assert not wrong


def check_tensors(rows, elements):
    """Assert that the elements of single records have the values of some rows of the table, in tensors."""
    count, wrong = 0, {}
    for number, element in enumerate(elements):
        count += 1
        for name, row in rows.items():
            want = row.in_tensors(number)
            if row.options.get("optional"):
                assert bool(element[f"{name}_present"]) == (want is not None), name
            if want is not None:
                have = without_padding(element[name], want)
                if plain(have) != plain(want):
                    wrong[f"{name} of record {number}"] = have, want
    assert count == len(STEPS)
    assert not wrong


def rows_of(batch):
    """Yield the elements of a batch."""
    for number in range(len(STEPS)):
        yield {name: row_of(value, number) for name, value in batch.items()}


def row_of(value, number):
    if isinstance(value, tf.SparseTensor):
        mine = value.indices[:, 0] == number
        return tf.SparseTensor(value.indices[mine][:, 1:], value.values[mine], value.dense_shape[1:])
    return value[number]


# Readers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_objects_have_the_values(layout, files):
    """`read_records` gives the values of the table, and so does `decode` of what lies as this library writes it."""
    check_records(layout, sr.read_records(files[layout], schema=CLASSES[layout]))
    if layout == "steps":
        schema = sr.Schema.of(CLASSES[layout])
        data = [serialized(message(i, layout), layout) for i in range(len(STEPS))]
        check_records(layout, map(schema.decode, data))
        check_records(layout, schema.decode_batch(data))


THIRDS = {"all": slice(None), "first": slice(0, None, 3), "second": slice(1, None, 3)}
PADDED = sr.Pad(len(STEPS))
SOME = [("packed", None, "first"), ("example", PADDED, "second")]
GRAPHS = [*SOME, ("steps", PADDED, "first")]
GRAPHS += [(layout, batch, "all") for layout in LAYOUTS for batch in (None, PADDED)]


@pytest.mark.parametrize(("layout", "batch", "which"), all_at_night(GRAPHS, [("steps", PADDED, "first"), *SOME]))
def test_graphs_have_the_values(layout, batch, which, files):
    """`read` gives the values of the table, by single records and in padded batches.

    The ordinary run takes every third field in each layout, the long one all in each.
    """
    # Sparse fields are read apart: with a hundred others, TensorFlow takes eight seconds to optimize the graph.
    chosen = dict(list(ROWS[layout].items())[THIRDS[which]])
    sparse = {name: row for name, row in chosen.items() if "sparse" in row.options}
    dense = {name: row for name, row in chosen.items() if name not in sparse}
    for rows in filter(None, (dense, sparse)):
        elements = list(sr.read(files[layout], schema=CLASSES[layout], batch=batch, fields=list(rows)))
        check_tensors(rows, elements if batch is None else rows_of(*elements))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_verify_salvage_and_convert_take_all(layout, files, tmp_path):
    """`verify` finds nothing, `salvage` keeps each byte, and `convert` makes a dataset of the values."""
    schema, file = CLASSES[layout], files[layout]
    assert sr.verify(file, schema=schema).ok
    assert sr.salvage(file, tmp_path / "saved", schema=schema).records == len(STEPS)
    assert (tmp_path / "saved").read_bytes() == file.read_bytes()
    convert(file, tmp_path / "dataset", schema=schema)
    check_records(layout, sr.read_records(tmp_path / "dataset"))
    check_records(layout, sr.open(tmp_path / "dataset")["train"])
    assert sr.verify(tmp_path / "dataset").ok


ALONE = {name: row for name, row in TABLE.items() if row.is_list and not row.lacks}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_list_shows_its_layout(layout, tmp_path):
    """The layout of a file is detected whatever kind of list is the only field, by each reader alike."""
    for name, row in ALONE.items():
        schema = attrs.make_class("Alone", {name: row.declared()})
        file = write(tmp_path / name, [serialized(message(i, layout, [row]), layout) for i in range(len(STEPS))])
        if row.needs_bounds and layout != "steps":
            readers = [lambda f, s: sr.read_records(f, schema=s, layout=layout)]
            if layout == "example":  # which shows; of ragged steps nobody can tell whether one feature is one step
                readers += [lambda f, s: sr.read(f, schema=s), lambda f, s: sr.verify(f, schema=s)]
                readers += [lambda f, s: sr.salvage(f, f.with_suffix(".saved"), schema=s)]
            for reader in readers:
                with pytest.raises(sr.OptionError, match="cannot hold the bounds"):
                    reader(file, schema)
            continue
        check_records(layout, sr.read_records(file, schema=schema), {name: row})
        assert sr.verify(file, schema=schema).ok
        assert sr.salvage(file, tmp_path / f"{name}.saved", schema=schema).records == len(STEPS)


# What is malformed --------------------------------------------------------------------------------------------------


def targets(made, row, layout):
    """Return the features that hold a field's values in a message."""
    name = [*features_of(row, row.one(0))][-1]
    if not row.is_list or layout == "example":
        return [made.context.feature[name]]
    return list(made.feature_lists.feature_list[name].feature)


def of_another_kind(made, row, layout):
    """Put one value of another kind in the place of what a feature holds."""
    feature = targets(made, row, layout)[0]
    kind = "float_list" if feature.WhichOneof("kind") != "float_list" else "int64_list"
    feature.Clear()
    fill(feature, kind, [1])


def with_one_more(made, row, layout):
    """Add a value to a feature, as those in it are."""
    feature = targets(made, row, layout)[0]
    values = getattr(feature, feature.WhichOneof("kind")).value
    values.append(values[-1])


def with_broken_items(made, row, layout):
    """Cut the last byte off the first bytes value."""
    values = targets(made, row, layout)[0].bytes_list.value
    values[0] = values[0][:-1]


def without_values(made, row, layout):
    """Leave a list of the right kind without values, as a feature that is there must have some."""
    feature = targets(made, row, layout)[0]
    getattr(feature, feature.WhichOneof("kind")).ClearField("value")


def malformed(layout, rows):
    """Yield a name and a record for each field and each way of being malformed, of the first record of a file."""
    whole = message(0, layout, rows.values())
    for name, row in rows.items():
        in_items = row.storage in ("raw", "buffer", "tensor") or row.is_image or row.dtype in BUFFERED
        ways = [of_another_kind]
        any_number = row.is_ragged and (in_items or row.shape == (None,))
        if not any_number and (layout == "steps" or "align" not in row.options):
            ways.append(with_one_more)
            ways += [] if row.is_ragged else [without_values]
        if in_items and not row.is_image and CASES[row.dtype].valid.dtype.itemsize > 1:
            ways.append(with_broken_items)
        for way in ways:
            made = tf.train.SequenceExample()
            made.CopyFrom(whole)
            way(made, row, layout)
            yield f"{name} {way.__name__}", serialized(made, layout)


MALFORMED = [(layout, which) for layout in LAYOUTS for which in THIRDS]


@pytest.mark.parametrize(("layout", "which"), all_at_night(MALFORMED, [("packed", "first"), ("example", "second")]))
def test_malformed_fields_are_refused_by_all(layout, which, tmp_path):
    """A field of another kind, with a value too many or with a part of one is an error of every reader.

    The ordinary run takes every third field in one layout and others in another, the long one all in each.
    """
    rows = dict(list(ROWS[layout].items())[THIRDS[which]])
    schema = sr.Schema.of(attrs.make_class("Third", {name: row.declared() for name, row in rows.items()}))
    bad = dict(malformed(layout, rows))
    good = [serialized(message(i, layout, rows.values()), layout) for i in range(len(STEPS))]
    decoder = RecordDecoder(schema, layout)
    taken_here = []
    for name, data in bad.items():
        readers = [decoder.decode_batch, lambda two: schema.decode(two[0])]
        for decode in readers if layout == "steps" else readers[:1]:
            try:
                decode([data, good[0]])
            except sr.RecordError as error:
                if error.position in (0, None):
                    continue
            taken_here.append(name)
    assert taken_here == []
    parse = tf.autograph.experimental.do_not_convert(Parser(schema, layout).parse)
    numbered = tf.data.Dataset.from_tensor_slices((list(bad.values()), list(bad)))
    parsed = numbered.map(lambda one, name: (name, parse(one)), num_parallel_calls=2).ignore_errors()
    assert [name.numpy() for name, _ in parsed] == []
    done = sr.salvage(write(tmp_path / "file", [*good, *bad.values()]), tmp_path / "saved", schema=schema)
    assert (done.records, done.lost) == (len(good), len(bad))
    assert not sr.verify(tmp_path / "file", schema=schema).ok
