"""What `write` takes, every reader reads: declarations of every option, with names of any length."""

import attrs
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from same_values import plain, without_padding
from strategies import CASES, value_of

import seqrecorder as sr
from seqrecorder.sources.foreign.convert import convert

LENGTHS = (2, 0, 5)
LONGEST = 10_000
"""Bytes of the longest names."""

names = st.one_of(
    st.text(min_size=1, max_size=8),
    st.builds(
        lambda unit, size: (unit * size)[:size],
        st.sampled_from(["x", "\u4e2d", "a/b "]),
        st.sampled_from([127, 128, 300]),
    ),
    st.integers(1, LONGEST).map("y".__mul__),
)
storages = st.sampled_from(["auto", "auto", "auto", "raw", "packed", "buffer", "tensor", "png"])
shapes = st.sampled_from([(), (), (2,), (None,), (None, 2), (2, 3), (4, 4, 3)])


@st.composite
def declared(draw):
    """Return a declaration; None for options that exclude each other."""
    dtype, storage, shape = draw(st.sampled_from(sorted(CASES))), draw(storages), draw(shapes)
    is_list, name = draw(st.booleans()), draw(st.none() | names)
    options = {"shape": shape, "storage": storage, "name": name}
    if draw(st.integers(0, 5)) == 0:
        options |= {"sparse": draw(st.sampled_from([1, 5, 2**40])), "shape": (), "storage": "auto"}
    if draw(st.integers(0, 2)) == 0:
        options |= {"optional": True, "default": None}
    elif draw(st.integers(0, 3)) == 0 and shape == () and "sparse" not in options:
        element = CASES[dtype].valid[draw(st.integers(0, 4))]
        options["default"] = [element] * draw(st.integers(0, 2)) if is_list else element
    if is_list:
        options["align"] = draw(st.sampled_from(["default", "default", "other", None]))
    try:
        return (sr.feature_list if is_list else sr.context)(dtype, kw_only=True, **options)
    except sr.SchemaError:
        return None


@st.composite
def classes(draw, most=8):
    """Return a record class."""
    fields = [one for one in draw(st.lists(declared(), min_size=1, max_size=most)) if one is not None]
    long = draw(st.sampled_from([1, 1, 1, 200, LONGEST]))
    assume(fields)
    made = attrs.make_class("Declared", {f"{'f' * long}{i}": field for i, field in enumerate(fields)})
    try:
        sr.Schema.of(made)
    except sr.SchemaError:  # two fields are stored under one name
        assume(False)
    return made


def records_of(record_class, random):
    """Return records of a class, None in optional fields at times."""
    records = []
    for number, steps in enumerate(LENGTHS):
        row = {}
        for field in sr.Schema.of(record_class).fields:
            values = CASES[field.element.name].valid
            if field.sparse is not None:
                some = [
                    dict(zip(sorted({int(random.integers(field.sparse)), 0}), values, strict=False))
                    for _ in range(steps)
                ]
                row[field.name] = some if field.is_list else {0: values[number]}
            else:
                row[field.name] = value_of(field, values, steps, random)
            if field.optional and random.random() < 0.3:
                row[field.name] = None
        records.append(record_class(**row))
    return records


def check_tensors(schema, records, elements):
    """Assert that tensors of single records hold their values."""
    for record, element in zip(records, elements, strict=True):
        for field in schema.fields:
            want = getattr(record, field.name)
            if field.optional:
                assert bool(element[f"{field.name}_present"]) == (want is not None)
            if want is not None:
                assert plain(without_padding(element[field.name], want)) == plain(want), field


@pytest.mark.parametrize("count", [8, pytest.param(300, marks=pytest.mark.nightly)])
def test_what_is_written_is_read(count, seed, tmp_path_factory, figure):
    """Whatever the declarations, records come back from each reader, and `verify` and `stats` know them."""
    figures = {"classes": 0}

    @seeded(seed)
    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(classes(), st.integers(0, 2**32 - 1))
    def check(record_class, number):
        figures["classes"] += 1
        schema = sr.Schema.of(record_class)
        records = records_of(record_class, np.random.default_rng(number))
        path = tmp_path_factory.mktemp("declared")
        sr.write(records, path / "data", schema=record_class)
        check_objects(record_class, records, path)
        assert [schema.decode(schema.encode(record)) for record in records] == records
        check_tensors(schema, records, sr.read(path / "data"))

    check()
    figure(39, "random classes that were written and read", figures["classes"], "one answer by all readers")


def check_objects(record_class, records, path):
    """Assert that a dataset holds records, by each reader of objects."""
    data = path / "data"
    assert list(sr.read_records(data, schema=record_class)) == records
    assert list(sr.open(data, schema=record_class).all()) == records
    assert sr.verify(data).ok
    assert sr.stats(data).records == len(records)
    # A name with an asterisk stands for numbered features of foreign files; what is written is one list.
    convert(str(data / "train" / "*.tfrecord"), path / "again", schema=sr.Schema.of(record_class).written)
    assert list(sr.read_records(path / "again", schema=record_class)) == records
    one_more = {"one_more_field": sr.context("int64", default=7, kw_only=True)}
    sr.rewrite(path / "again", schema=attrs.make_class("Declared", one_more, bases=(record_class,)))
    assert list(sr.read_records(path / "again", schema=record_class)) == records


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.nightly)])
def test_many_fields_with_long_names(count, tmp_path, random, figure):
    """So many fields, each with a name of up to ten thousand bytes, come back from each reader."""
    sizes = random.integers(100, LONGEST, count).tolist()
    made = {f"f{i}": sr.context("int64", name=f"{i}{'n' * size}") for i, size in enumerate(sizes) if i % 2}
    made |= {f"f{i}": sr.feature_list("float32", name=f"{i}{'n' * size}") for i, size in enumerate(sizes) if not i % 2}
    record_class = attrs.make_class("Many", made)
    records = records_of(record_class, random)
    sr.write(records, tmp_path / "data", schema=record_class)
    check_objects(record_class, records, tmp_path)
    figure(39, "fields of one class with long names", count, "all there")
