"""Features that a script parses, as an attrs class."""

import classic
import pytest
from test_script import READ, changed, script

from seqrecorder.migrate.script import rewrite

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


UNCLEAR = {
    "a shape that is computed": PARSE.replace("[2, 3]", "[size]"),
    "a default": PARSE.replace("tf.int64)", "tf.int64, default_value=0)"),
    "a sparse feature": PARSE.replace("tf.FixedLenFeature([], tf.int64)", "tf.VarLenFeature(tf.int64)"),
    "a name that is no identifier": PARSE.replace('"n"', '"n/m"'),
    "features from elsewhere": PARSE.replace("record, context, lists", "record, context, make_lists()"),
    "features that are changed": PARSE.replace("    one, many", "    lists.update(more)\n    one, many"),
    "the record is used otherwise": PARSE.replace("[one[", "[tf.strings.length(record), one["),
    "features that cannot be stored": PARSE.replace("[2, 3]", "[0]"),
}


@pytest.mark.parametrize("why", UNCLEAR)
def test_what_is_not_written_out_keeps_its_parser(why):
    """Where the features cannot be told from the text, the script stays one of tf.data, and a note says so."""
    old = script(READ + UNCLEAR[why])
    found = rewrite(old, "eager", records=True)
    assert found.status == "converted"
    assert found.text == rewrite(old, "eager").text
    assert found.notes[-1].startswith("no attrs class: ")


def test_two_kinds_of_records_keep_their_parsers():
    """There is one class at most: a script that parses twice keeps its parsers."""
    old = script(READ + PARSE) + script(READ + PARSE).replace("import tensorflow as tf", "").replace("batches", "more")
    assert "sr." not in rewrite(old, "eager", records=True).text
