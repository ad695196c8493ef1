"""Schema evolution: every change is classified before the first record is read."""

import pytest
from schema_changes import COMPATIBLE, INCOMPATIBLE, Old, changed, record_class

import seqrecorder as sr


@pytest.mark.parametrize("change", COMPATIBLE)
def test_compatible_changes_are_told(change):
    """A change after which the stored values still mean the same is compatible, each of its differences too."""
    schema = sr.Schema.of(changed(COMPATIBLE[change][0]))
    assert all(found.compatible for found in schema.changes_since(sr.Schema.of(Old)))
    schema.require_readable(sr.Schema.of(Old), "data")


@pytest.mark.parametrize("change", INCOMPATIBLE)
def test_incompatible_changes_are_told(change):
    """A change that would alter values is refused, with one line for the field that disagrees."""
    fields, line = INCOMPATIBLE[change]
    with pytest.raises(sr.SchemaMismatchError, match="^data was written as Old and cannot be read as New") as error:
        sr.Schema.of(changed(fields)).require_readable(sr.Schema.of(Old), "data")
    assert len([one for one in error.value.differences if line in one]) == 1, error.value.differences


@pytest.mark.parametrize("name", [5, "not a name", ("a", ""), "x"])
def test_earlier_names_are_names(name):
    """`renamed_from` takes identifiers other than the field's own."""
    with pytest.raises(sr.SchemaError, match="renamed_from is an earlier name"):
        record_class("New", {"x": sr.context("int64", renamed_from=name if name != 5 else (5,))})


def test_earlier_names_are_not_stored():
    """What a field was called once is no part of the schema that a dataset holds."""
    plain, renamed = (
        sr.Schema.of(record_class("A", {"x": sr.context("int8", **o)})) for o in ({}, {"renamed_from": "y"})
    )
    assert renamed == plain
    assert renamed.fingerprint == plain.fingerprint
