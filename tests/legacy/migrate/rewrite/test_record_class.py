"""Features that a script parses, as an attrs class."""

import classic
import pytest
from old_scripts import READ, changed, script

from seqrecorder.legacy.migrate.rewrite.script import rewrite

PARSE = """    context = {"n": tf.FixedLenFeature([], tf.int64)}
    lists = {"x": tf.FixedLenSequenceFeature([2, 3], tf.float32), "w": tf.FixedLenSequenceFeature([], tf.string)}
    one, many = tf.parse_single_sequence_example(record, context, lists)
    return tf.train.batch([one["n"], many["x"]], 2, dynamic_pad=True)
"""


def test_class_and_read():
    """Files in their own order are read by `seqrecorder.read`, with a class of the features."""
    old = rewrite(classic.HEAD + classic.SEQUENCES, "eager").text
    new = rewrite(classic.HEAD + classic.SEQUENCES, "eager", records=True).text
    went, came = changed(old, new)
    assert (
        "".join(came)
        == """\
import numpy as np
import seqrecorder as sr
@sr.record
class Record:
    length: int = sr.context("int64")
    tokens: np.ndarray = sr.feature_list("int64", align=None)
    labels: np.ndarray = sr.feature_list("int64", align=None)


    context = {name: serialized[name] for name in ["length"]}
    sequence = {name: serialized[name] for name in ["tokens", "labels"]}
        dataset = sr.read(filenames, schema=Record, epochs=num_epochs)
"""
    )
    assert (
        "".join(went[-2:])
        == """\
        dataset = tf.data.Dataset.from_tensor_slices(filenames).repeat(num_epochs)
        dataset = dataset.flat_map(tf.data.TFRecordDataset)
"""
    )


def test_shuffled_files_stay_and_the_schema_parses():
    """An order of files that is drawn anew each epoch stays tf.data's; the class takes its records apart."""
    text = rewrite(script(READ + PARSE), "eager", records=True).text
    assert (
        """\
    dataset = dataset.flat_map(tf.data.TFRecordDataset)
    dataset = dataset.map(sr.Schema.of(Record).parse)

    def parse(record):
        one = {name: record[name] for name in ["n"]}
        many = {name: record[name] for name in ["x", "w"]}
        return one["n"], many["x"]
"""
        in text
    )
    assert '    x: np.ndarray = sr.feature_list("float32", shape=(2, 3), align=None)\n' in text
    assert '    w: np.ndarray = sr.feature_list("bytes", align=None)\n' in text


def test_specs_beside_the_function_and_records_one_at_a_time():
    """Features that are written out before the mapped function become the class too, and go; batches are not needed."""
    body = READ + PARSE.partition("    return")[0] + "    x = many['x']\n    return one['n'], x\n"
    text = rewrite(script(body), "eager", records=True).text
    assert "FixedLen" not in text
    assert "    dataset = dataset.map(sr.Schema.of(Record).parse)\n" in text
    rebound = READ + PARSE.replace("one, many", "context, lists").replace("one[", "context[").replace("many[", "lists[")
    text = rewrite(script(rebound), "eager", records=True).text
    assert '        context = {name: record[name] for name in ["n"]}\n' in text


UNCLEAR = {
    PARSE.replace(
        "[2, 3]", "[size]"
    ): "the feature 'x' cannot be a field: tf.io.FixedLenSequenceFeature([size], tf.float32)",
    PARSE.replace(
        "tf.int64)", "tf.int64, default_value=0)"
    ): "the feature 'n' cannot be a field: tf.io.FixedLenFeature([], tf.int64, default_value=0)",
    PARSE.replace("tf.FixedLenFeature([], tf.int64)", "tf.VarLenFeature(tf.int64)").replace(
        'one["n"]', 'one["n"].values'
    ): "the feature 'n' cannot be a field: tf.io.VarLen",
    PARSE.replace('"n"', '"n/m"'): "the feature 'n/m' cannot be a field",
    PARSE.replace(
        "record, context, lists", "record, context, make()"
    ): "make() is not a dictionary that is written out in one place",
    PARSE.replace(
        "    one, many", "    lists.update(more)\n    one, many"
    ): "lists is not a dictionary that is written out in one place",
    PARSE.replace("[one[", "[tf.strings.length(record), one["): "is used for more, or is not unpacked at once",
    PARSE.replace("[2, 3]", "[0]"): "the feature 'x' cannot be a field",
    PARSE.replace('"w"', '"n"'): "a context feature and a feature list of one name",
    PARSE.replace("one, many = ", "both = ")
    .replace("one[", "both[0][")
    .replace("many[", "both[1]["): "is not unpacked at once",
    "    return tf.train.batch([record], 2)\n": "no places take SequenceExamples apart",
}


@pytest.mark.parametrize("body", UNCLEAR)
def test_what_is_not_written_out_keeps_its_parser(body):
    """Where the features cannot be told from the text, the script stays one of tf.data, and a note says why."""
    old = script(READ + body)
    found = rewrite(old, "eager", records=True)
    assert found.status == "converted"
    assert found.text == rewrite(old, "eager").text
    assert found.notes[-1].startswith("no attrs class: ")
    assert UNCLEAR[body] in found.notes[-1]


def test_two_kinds_of_records_keep_their_parsers():
    """There is one class at most: a script that parses twice keeps its parsers."""
    old = script(READ + PARSE) + script(READ + PARSE).replace("import tensorflow as tf", "").replace("batches", "more")
    found = rewrite(old, "eager", records=True)
    assert "sr." not in found.text
    assert found.notes[-1] == "no attrs class: 2 places take SequenceExamples apart, where one should"
