"""Fields that are made of others go wherever a parser gives fields, and what they are made of is found."""

from typing import Any

import attrs
import numpy as np
import tensorflow as tf

import seqrecorder as sr
from seqrecorder.codec.columns import Column
from seqrecorder.codec.graph_ops import Derivation, derivations_of, derived_schema, sources_of
from seqrecorder.codec.parse import Parser
from seqrecorder.schema.field import Field


@sr.record
class Point:
    size: int = sr.context("int32")
    x: Any = sr.feature_list("float32")
    y: Any = sr.feature_list("float32", shape=(2,))


@attrs.frozen
class Doubled(Derivation):
    """Stands for anything that is made of a field alone."""

    @property
    def names(self) -> tuple[str, ...]:
        return (f"double_{self.source}",)

    def fields(self, field: Field) -> tuple[Field, ...]:
        return field, attrs.evolve(field, name=self.names[0], feature=self.names[0])

    def columns(self, field: Field, column: Column) -> tuple[Column, ...]:  # noqa: ARG002 - as every derivation has it
        return column, attrs.evolve(column, values=column.values * 2)


SCHEMA = sr.Schema.of(Point)
DERIVATIONS = [Doubled("x"), Doubled("double_x"), Doubled("size"), Doubled("y")]
RECORDS = [Point(3, [1, 2, 3], np.ones((3, 2), "f4")), Point(0, [], np.empty((0, 2), "f4"))]


def test_what_is_made_stands_beside_its_source() -> None:
    """In the order of the declarations, with what is made of what is made."""
    names = [field.name for field in derived_schema(SCHEMA, DERIVATIONS).fields]
    assert names == ["size", "double_size", "x", "double_x", "double_double_x", "y", "double_y"]
    assert sources_of(DERIVATIONS)["double_double_x"] == "x"
    assert derivations_of(SCHEMA.select(["x"]), DERIVATIONS) == DERIVATIONS[:2]
    assert derived_schema(SCHEMA, []) is SCHEMA


def test_every_way_to_parse_gives_derived_fields() -> None:
    """Batches, single records and columns, cropped or not."""
    serialized = tf.constant(SCHEMA.encode_batch(RECORDS))
    parser = Parser(SCHEMA, derivations=DERIVATIONS)
    batch = parser.parse_batch(serialized)
    np.testing.assert_array_equal(batch["double_double_x"], [[4, 8, 12], [0, 0, 0]])
    np.testing.assert_array_equal(batch["double_size"], [6, 0])
    np.testing.assert_array_equal(batch["double_y"], 2 * batch["y"])
    one = parser.parse(serialized[0])
    assert list(one) == [field.name for field in parser.schema.fields]
    np.testing.assert_array_equal(one["double_x"], [2, 4, 6])
    assert parser.parse(serialized[1])["double_y"].shape == (0, 2)
    columns, lengths = parser.parse_columns(serialized)
    np.testing.assert_array_equal(columns["double_double_x"].values, [4, 8, 12])
    np.testing.assert_array_equal(next(iter(lengths.values())), [3, 0])
    last = parser.cropped(dict.fromkeys(SCHEMA.groups, (slice(-1, None),)))
    np.testing.assert_array_equal(last.parse_batch(serialized)["double_x"], [[6], [0]])
