"""The command line: exit codes, output for people and for programs."""

import ast
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import seqrecorder as sr
from seqrecorder.cli import main
from seqrecorder.cli.output import to_json
from seqrecorder.errors import printable

ESCAPES = "\x1b[2J\x07\x9b\u202e\x7f"


@sr.record
class Clip:
    key: str = sr.context(str, key=True)
    mfcc: np.ndarray = sr.feature_list("float32", shape=(2,))
    phones: np.ndarray = sr.feature_list("int64")
    alternatives: list = sr.feature_list("int64", shape=(None,))
    gain: float = sr.context("float64", default=float("nan"))
    speaker: str | None = sr.context(str, optional=True, default=None)
    bag: sr.SparseVector = sr.context("float32", sparse=8, factory=lambda: sr.SparseVector([1], [2.0], 8))
    taken: np.datetime64 = sr.context("datetime64[D]", default=np.datetime64("2020-02-29"))
    raw: bytes = sr.context(bytes, default=b"\x00\x1b", name="raw bytes")


def clip(index, length):
    steps = np.arange(length)
    return Clip(
        f"clip-{index}",
        np.stack([steps, steps / 2], 1).astype("f4"),
        steps,
        [steps[:i] for i in range(length)],
    )


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "corpus"
    clips = {"train": [clip(i, i % 4) for i in range(7)], "eval": [clip(7, 5)]}
    sr.write(clips, path, shards=2, metadata={"note": ESCAPES}, assets={"words.txt": "a\nb\n"})
    return path


@pytest.fixture(scope="module")
def shard(corpus):
    return next(corpus.glob("train/*00000*.tfrecord"))


def write_messages(path, messages):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for message in messages:
            writer.write(message.SerializeToString())
    return path


def feature(*values):
    if values and isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if values and isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def sequence_example(context, lists):
    return tf.train.SequenceExample(
        context=tf.train.Features(feature=context),
        feature_lists=tf.train.FeatureLists(
            feature_list={name: tf.train.FeatureList(feature=steps) for name, steps in lists.items()}
        ),
    )


def run(capsys, *arguments):
    code = main.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def run_json(capsys, *arguments):
    code, out, err = run(capsys, *arguments, "--json")
    return code, json.loads(out, parse_constant=pytest.fail), err


def test_info_describes_a_dataset(capsys, corpus):
    """The text has every field with its dtype, shape and options, and the splits with their lengths."""
    code, out, err = run(capsys, "info", corpus)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[:2] == [str(corpus), "seqrecorder dataset, format 1, no compression, generation 0"]
    assert "\n".join(line.rstrip() for line in lines[4:15]) == (
        "  field         kind          dtype          shape   storage  options\n"
        "  ------------  ------------  -------------  ------  -------  "
        "-------------------------------------\n"
        "  key           context       str            scalar  auto     key\n"
        "  mfcc          feature_list  float32        (T, 2)  auto\n"
        "  phones        feature_list  int64          (T,)    auto\n"
        "  alternatives  feature_list  int64          (T, n)  auto\n"
        "  gain          context       float64        scalar  auto     default=nan\n"
        "  speaker       context       str            scalar  auto     optional, default=None\n"
        "  bag           context       float32        (8,)    sparse   default=SparseVector(indices=...\n"
        "  taken         context       datetime64[D]  scalar  auto     default=2020-02-29\n"
        "  raw           context       bytes          scalar  auto     "
        "default=b'\\x00\\x1b', name='raw bytes'"
    )
    assert [
        line.split()[:3] + line.split()[-4:] for line in lines if line.startswith(("  train", "  eval", "  all"))
    ] == [
        ["train", "7", "9", "2", "0", "1", "3"],
        ["eval", "1", "5", "1", "5", "5", "5"],
        ["all", "8", "14", "3", "0", "1", "5"],
    ]
    assert "words.txt   4 B" in out


def test_info_gives_json(capsys, corpus):
    """The JSON of a dataset has its schema, from which the class can be rebuilt, and the length distribution."""
    code, data, err = run_json(capsys, "info", corpus)
    assert (code, err) == (0, "")
    assert sr.Schema.from_dict(data["schema"]) == sr.Schema.of(Clip)
    assert data["splits"]["train"]["lengths"] == {"min": 0, "median": 1, "max": 3}
    assert (data["records"], data["steps"], data["splits"]["train"]["shards"]) == (8, 14, 2)
    assert data["metadata"] == {"note": ESCAPES}


def test_the_manifest_may_be_named_itself(capsys, corpus):
    """The path of manifest.json means its dataset."""
    assert run(capsys, "info", corpus / "manifest.json") == run(capsys, "info", corpus)
    assert run(capsys, "head", corpus / "manifest.json") == run(capsys, "head", corpus)


def test_an_empty_split_has_no_lengths(capsys, tmp_path):
    """Where there is no record, there is no shortest and no longest one."""
    sr.write({"train": []}, tmp_path / "empty", schema=Clip)
    assert run_json(capsys, "info", tmp_path / "empty")[1]["splits"]["train"]["lengths"] is None
    assert run(capsys, "info", tmp_path / "empty")[1].count(" -") >= 3
    assert run(capsys, "head", tmp_path / "empty") == (0, "train: no records\n", "")


def test_info_describes_an_unknown_shard(capsys, tmp_path):
    """Of a file without a manifest are told the message type, the compression, the counts and the features."""
    messages = [
        sequence_example(
            {"label": feature(n), **({"speaker name": feature(b"ann")} if n else {})},
            {"mfcc": [feature(0.5, 1.5)] * (n + 1), "class": [feature(b"\xff")] * 2},
        )
        for n in range(3)
    ]
    path = write_messages(tmp_path / "a.tfrecord", messages)
    code, out, err = run(capsys, "info", path)
    assert (code, err) == (0, "")
    size = path.stat().st_size
    assert out == (
        f"{path}\n"
        f"TFRecord file without a manifest, no compression, 3 records, {size} B\n"
        "message type: tf.train.SequenceExample\n"
        "\n"
        "features of all records\n"
        "  feature       kind          dtype    steps   values      present\n"
        "  ------------  ------------  -------  ------  ----------  -------\n"
        "  label         context       int64    -       1           all\n"
        "  speaker name  context       str      -       1           2 of 3\n"
        "  class         feature_list  bytes    2       1 per step  all\n"
        "  mfcc          feature_list  float32  1 to 3  2 per step  all\n"
        "\n"
        "a class to begin with, for `sr.read(path, schema=Record)`:\n"
        "  @sr.record(kw_only=True)\n"
        "  class Record:\n"
        '      label: int = sr.context("int64")\n'
        "      speaker_name: str | None = sr.context(\"str\", optional=True, default=None, name='speaker name')\n"
        "      field_class: np.ndarray = sr.feature_list(\"bytes\", name='class')  # not text; numbers, for "
        "decode_raw? then --raw 'class'=DTYPE\n"
        '      mfcc: np.ndarray = sr.feature_list("float32", shape=(2,), align=None)\n'
    )


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_the_drafted_class_reads_the_shard(capsys, tmp_path, compression):
    """The class that info drafts for an unknown shard reads its records, as the messages have them."""
    messages = [
        sequence_example(
            {"label": feature(n), "2nd": feature(*range(n)), **({"who": feature(b"ann")} if n else {})},
            {"mfcc": [feature(0.5, 1.5)] * (n + 1), "ragged": [feature(*range(i)) for i in range(n + 1)]},
        )
        for n in range(3)
    ]
    path = tmp_path / "a.tfrecord"
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for message in messages:
            writer.write(message.SerializeToString())
    code, data, _ = run_json(capsys, "info", path)
    assert (code, data["compression"], data["records"]) == (0, compression or None, 3)
    names = {"sr": sr, "np": np}
    exec(data["draft"], names)  # noqa: S102 - the claim is that it is Python
    back = list(sr.read_records(path, schema=names["Record"], layout="steps"))
    assert [record.label for record in back] == [0, 1, 2]
    assert [record.field_2nd.tolist() for record in back] == [[], [0], [0, 1]]
    assert [record.who for record in back] == [None, "ann", "ann"]
    assert back[2].mfcc.tolist() == [[0.5, 1.5]] * 3
    assert [step.tolist() for step in back[2].ragged] == [[], [0], [0, 1]]


def test_a_flat_example_is_told_apart(capsys, tmp_path):
    """A file of tf.train.Example is called that, and its features are shown."""
    message = tf.train.Example(features=tf.train.Features(feature={"ids": feature(1, 2, 3)}))
    path = write_messages(tmp_path / "flat.tfrecord", [message])
    data = run_json(capsys, "info", path)[1]
    assert data["message"] == "tf.train.Example"
    assert [item["name"] for item in data["features"]] == ["ids"]
    assert "int64 (3,)  [1, 2, 3]" in run(capsys, "head", path)[1]


def test_a_draft_says_what_it_cannot_declare(capsys, tmp_path):
    """A lone step of several values gets a word on what it may be, and features of several types a comment."""
    messages = [sequence_example({"odd": value}, {"ids": [feature(1, 2, 3)]}) for value in (feature(1), feature(b"a"))]
    data = run_json(capsys, "info", write_messages(tmp_path / "a.tfrecord", messages))[1]
    assert data["features"][0]["dtype"] == "mixed"
    packed, mixed = data["draft"].splitlines()[2:]
    assert mixed == "    # 'odd' cannot be declared: it has values of several types"
    assert packed.startswith('    ids: np.ndarray = sr.feature_list("int64", storage="packed")  # ')
    assert packed.endswith("if its one step is a vector, and no sequence: shape=(3,), and no storage")


@pytest.mark.parametrize("record", [b"\xff\xff", b"", b"\x7a\x01a"])
def test_other_messages_are_not_guessed_at(capsys, tmp_path, record):
    """A TFRecord file of something else is described without features, and head says that it cannot show it."""
    path = tmp_path / "other.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(record)
    code, data, _ = run_json(capsys, "info", path)
    assert (code, data["records"], data["features"], data["draft"]) == (0, 1, [], "")
    assert data["message"].startswith("unknown: ")
    code, out, err = run(capsys, "head", path)
    assert (code, out) == (1, "")
    assert err.startswith(f"seqrecorder: {path}: unknown: ")


def test_info_says_where_a_shard_is_damaged(capsys, shard, tmp_path):
    """A cut shard gives exit code 1, the number of whole records and the byte where they end."""
    path = tmp_path / "cut.tfrecord"
    path.write_bytes(shard.read_bytes()[:-5])
    code, out, _ = run(capsys, "info", path)
    assert code == 1
    assert "damaged: after 3 records, at byte " in out
    assert run(capsys, "head", path, "-n", "9")[0] == 0


def test_a_file_that_is_no_shard_is_said_to_be_none(capsys, tmp_path):
    """Any other file is described as holding no TFRecord header."""
    path = tmp_path / "notes.txt"
    path.write_text("these are not the records that you are looking for")
    code, out, _ = run(capsys, "info", path)
    assert code == 1
    assert "no TFRecord header" in out


def test_head_shows_records(capsys, corpus):
    """Values come with dtype and shape; the first split is the default."""
    code, out, err = run(capsys, "head", corpus, "-n", "2")
    assert (code, err) == (0, "")
    assert out == (
        "train, the first 2 of 7 records\n"
        "\n"
        "record 0\n"
        "  key           'clip-0'\n"
        "  mfcc          float32 (0, 2)  []\n"
        "  phones        int64 (0,)  []\n"
        "  alternatives  []\n"
        "  gain          nan\n"
        "  speaker       None\n"
        "  bag           sparse float32 (8,)  {1: 2}\n"
        "  taken         2020-02-29\n"
        "  raw           b'\\x00\\x1b'\n"
        "\n"
        "record 1\n"
        "  key           'clip-1'\n"
        "  mfcc          float32 (1, 2)  [0, 0]\n"
        "  phones        int64 (1,)  [0]\n"
        "  alternatives  1 step of int64  [[]]\n"
        "  gain          nan\n"
        "  speaker       None\n"
        "  bag           sparse float32 (8,)  {1: 2}\n"
        "  taken         2020-02-29\n"
        "  raw           b'\\x00\\x1b'\n"
    )


def test_head_prints_a_table(capsys, corpus):
    """With `--table` a record is a line, and each field a column."""
    assert main.main(["head", str(corpus), "--table", "-n", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split()[:2] == ["record", "key"]
    assert [line.split()[0] for line in lines[4:]] == ["0", "1", "2"]


def test_head_takes_a_split(capsys, corpus):
    """A split that is named is shown, and no more records than it has."""
    data = run_json(capsys, "head", corpus, "--split", "eval")[1]
    assert (data["where"], data["total"], len(data["records"])) == ("eval", 1, 1)
    record = data["records"][0]
    assert record["phones"] == [0, 1, 2, 3, 4]
    assert record["mfcc"][3] == [3.0, 1.5]
    assert record["gain"] == "nan"
    assert record["bag"] == {"indices": [1], "values": [2.0], "size": 8}
    assert record["raw"] == {"base64": "ABs="}
    assert record["alternatives"][:3] == [[], [0], [0, 1]]


def test_head_abbreviates_to_the_terminal(capsys, tmp_path):
    """Long arrays and long texts end in dots, and no line is longer than 80 columns."""
    words = np.array(["wörter", "字" * 50, "x" * 200] * 9, object)

    @sr.record
    class Long:
        text: str = sr.context(str)
        words: np.ndarray = sr.feature_list(str)
        grid: np.ndarray = sr.feature_list("float32", shape=(30,))

    sr.write(
        [
            Long("y" * 500, words, np.full((27, 30), 1 / 3, "f4")),
            Long("", words[1:2], np.ones((1, 30), "f4")),
        ],
        tmp_path / "a",
    )
    out = run(capsys, "head", tmp_path / "a")[1]
    assert all(sum(2 if c == "字" else 1 for c in line) <= 80 for line in out.splitlines())
    assert "float32 (27, 30)  [0.333333, 0.333333, " in out
    assert out.count("...") == 5


@pytest.mark.parametrize("schema", ["clips:Clip", "clips:Outer.Clip"])
def test_head_and_verify_take_a_class_for_a_shard(capsys, tmp_path, monkeypatch, schema):
    """The class that the user names, from a module of the current directory, reads a bare shard."""
    (tmp_path / "clips.py").write_text(
        "import seqrecorder as sr\n\n\n@sr.record\nclass Clip:\n    label: int = sr.context('int32')\n"
        "\n\nclass Outer:\n    Clip = Clip\n"
    )
    write_messages(tmp_path / "a.tfrecord", [sequence_example({"label": feature(7)}, {})])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert run_json(capsys, "head", "a.tfrecord", "--schema", schema)[1]["records"] == [{"label": 7}]
    assert run_json(capsys, "verify", "a.tfrecord", "--schema", schema)[:2] == (
        0,
        {
            "ok": True,
            "path": "a.tfrecord",
            "level": "full",
            "shards": 1,
            "records": 1,
            "bytes": Path("a.tfrecord").stat().st_size,
            "problems": [],
        },
    )
    monkeypatch.delitem(sys.modules, "clips")


def test_a_class_that_is_not_there_is_a_problem(capsys, shard):
    """A module or class that cannot be imported gives exit code 1 and a line that names it."""
    assert run(capsys, "head", shard, "--schema", "no_such_module:Clip")[0] == 1
    code, out, err = run(capsys, "head", shard, "--schema", "json:Clip")
    assert (code, out) == (1, "")
    assert err == "seqrecorder: --schema json:Clip: module 'json' has no attribute 'Clip'\n"


def test_verify_says_that_all_is_well(capsys, corpus):
    """A sound dataset gives exit code 0 and says what was looked at."""
    size = sr.info(corpus).bytes
    assert size < 10_000
    kilobytes = f"{size / 1000:.1f} kB"
    about = f"{corpus}: ok (3 shards, 8 records, {kilobytes}; checked"
    assert run(capsys, "verify", corpus) == (0, f"{about} every byte and every record)\n", "")
    code, text, _ = run(capsys, "verify", next((corpus / "train").glob("*.tfrecord")))
    assert (code, "checked frames, not contents)" in text.replace("\n", " ")) == (0, True)
    assert run(capsys, "verify", corpus, "--quick") == (0, f"{about} sizes and manifest)\n", "")


def test_verify_lists_what_is_wrong(capsys, tmp_path):
    """A damaged dataset gives exit code 1 and a line for each problem; quick sees sizes alone."""
    path = tmp_path / "corpus"
    sr.write([clip(i, 3) for i in range(4)], path, shards=1)
    (shard,) = path.glob("train/*.tfrecord")
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    assert run(capsys, "verify", path, "--quick")[0] == 0
    code, out, err = run(capsys, "verify", path)
    assert (code, err) == (1, "")
    assert out.startswith(f"{path}: ")
    assert f"  train/{shard.name}: " in out
    code, report, _ = run_json(capsys, "verify", path)
    assert (code, report["ok"], report["level"]) == (1, False, "full")
    assert report["problems"][0]["path"] == f"train/{shard.name}"


@pytest.mark.parametrize("command", ["info", "head", "verify"])
def test_a_missing_dataset_is_one_clear_line(capsys, tmp_path, command):
    """Where there is nothing, one line on stderr says so, without a traceback; JSON goes to stdout."""
    path = tmp_path / "nothing"
    line = f"seqrecorder: there is no dataset at {path}\n"
    assert run(capsys, command, path) == (1, "", line)
    code, data, err = run_json(capsys, command, path)
    assert (code, err) == (1, line)
    assert data == {"error": {"type": "DatasetNotFoundError", "message": f"there is no dataset at {path}"}}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--split", "trian"], "has no split 'trian' (did you mean 'train'?)"),
        (["--schema", "json:dumps"], "expected a record class, or a record, got function"),
    ],
)
def test_errors_of_the_library_are_one_line(capsys, corpus, arguments, message):
    """An error of the library becomes its message in one line, with exit code 1."""
    code, out, err = run(capsys, "head", corpus, *arguments)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("seqrecorder: ")
    assert message in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "x"],
        ["info"],
        ["head", "x", "-n", "0"],
        ["head", "x", "-n", "many"],
        ["head", "x", "--schema", "no_colon"],
        ["verify", "x", "--fast"],
    ],
)
def test_wrong_usage_is_2(capsys, arguments):
    """Arguments that make no sense give exit code 2 and the usage on stderr."""
    with pytest.raises(SystemExit) as error:
        main.main(arguments)
    captured = capsys.readouterr()
    assert (error.value.code, captured.out) == (2, "")
    assert captured.err.startswith("usage: seqrecorder")


def test_the_bare_command_lists_every_command_under_a_task(capsys):
    """`seqrecorder` prints the usage and each command once, with what it does, on lines of 80 columns."""
    assert main.main([]) == 0
    shown = capsys.readouterr().out
    commands = re.findall(r"^  (\w+) +\w", shown, re.MULTILINE)
    with pytest.raises(SystemExit):
        main.main(["none"])
    known = re.search(r"choose from (.*)\)", capsys.readouterr().err)[1]
    assert sorted(commands) == sorted(re.findall(r"\w+", known))
    assert max(map(len, shown.splitlines())) <= 80


@sr.record
class Utterance:
    speaker: str = sr.context(str)
    mfcc: np.ndarray = sr.feature_list("float64", shape=(13,))


def test_tables_fit_a_terminal(tmp_path, monkeypatch, capsys):
    """On a terminal of 60 columns what does not fit stands below, beside the first column, and nothing is lost."""
    sr.write([Utterance(f"speaker-{n}", np.full((n + 1, 13), n / 3)) for n in range(40)], tmp_path / "data")
    assert main.main(["stats", str(tmp_path / "data")]) == 0
    wide = capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main.main(["stats", str(tmp_path / "data")]) == 0
    narrow = capsys.readouterr().out
    assert max(map(len, wide.splitlines())) > 80
    assert max(map(len, narrow.splitlines())) <= 60
    assert set(wide.split()) == set(narrow.split())


def test_the_version_is_told(capsys):
    """--version prints the version of the package."""
    with pytest.raises(SystemExit) as error:
        main.main(["--version"])
    assert (error.value.code, capsys.readouterr().out) == (0, f"seqrecorder {sr.__version__}\n")


def test_control_characters_of_data_never_reach_the_terminal(capsys, tmp_path):
    """Whatever a file holds in names, values and metadata, stdout and stderr are printable."""
    path = tmp_path / f"a{ESCAPES[:4]}.tfrecord"
    message = sequence_example(
        {f"name{ESCAPES}": feature(ESCAPES.encode())}, {ESCAPES: [feature(ESCAPES.encode() * 30)]}
    )
    write_messages(path, [message])
    corpus = tmp_path / "corpus"

    @sr.record(kw_only=True)
    class Hostile:
        text: str = sr.context(str, default=ESCAPES, name=f"feature{ESCAPES}")
        words: np.ndarray = sr.feature_list(str)

    sr.write([Hostile(text=ESCAPES, words=[ESCAPES])], corpus, metadata={ESCAPES: [ESCAPES]})
    for arguments in (
        ["info", path],
        ["head", path],
        ["info", corpus],
        ["head", corpus],
        ["verify", tmp_path / ESCAPES],
    ):
        for extra in ([], ["--json"]):
            _, out, err = run(capsys, *arguments, *extra)
            assert out or err
            for text in (out, err):
                assert not [c for c in text if c != "\n" and not c.isprintable()], (arguments, extra)


def test_printable_keeps_what_can_be_printed():
    """Letters of any script stay; control, format and surrogate characters become escapes."""
    assert printable("süß 字 🙂") == "süß 字 🙂"
    assert printable("\x1b\n\x9b\u202e\ud800\U000e0001") == r"\x1b\n\x9b\u202e\ud800\U000e0001"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (float("inf"), "inf"),
        (np.float16(0.1), float(np.float16(0.1))),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.complex64(1 - 2j), [1.0, -2.0]),
        (np.datetime64("NaT"), "NaT"),
        (np.array([[True], [False]]), [[True], [False]]),
        (tf.bfloat16.as_numpy_dtype(1.5), 1.5),
        (b"\xff", {"base64": "/w=="}),
        ("\x7f\ud800", "\x7f\ud800"),
    ],
)
def test_json_holds_every_value(value, expected):
    """Values of every dtype become valid JSON in ASCII."""
    text = to_json({"value": value})
    assert text.isascii()
    assert json.loads(text, parse_constant=pytest.fail) == {"value": expected}


def test_long_metadata_is_cut(capsys, tmp_path):
    """Metadata of many lines is shown in part; JSON has all of it."""
    sr.write([clip(0, 1)], tmp_path / "a", metadata=list(range(100)))
    out = run(capsys, "info", tmp_path / "a")[1]
    assert "... 78 more lines; --json gives all" in out
    assert run_json(capsys, "info", tmp_path / "a")[1]["metadata"] == list(range(100))


@pytest.mark.parametrize("command", ["--help", "info"])
def test_light_commands_import_little(command, corpus):
    """The help and `info` import nothing but numpy and attrs beside the standard library, so no TensorFlow."""
    arguments = [command] if command == "--help" else [command, str(corpus)]
    code = "import sys; before = set(sys.modules)\nfrom seqrecorder.cli.main import main\ntry:\n    main()\n"
    code += "finally:\n    new = {name.split('.')[0] for name in set(sys.modules) - before} - {'__mp_main__'}\n"
    code += "    print(sorted(new - sys.stdlib_module_names), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stderr) == ["attr", "attrs", "numpy", "seqrecorder"]
    assert ("verify" if command == "--help" else "words.txt") in done.stdout


def test_the_module_runs_without_chatter(corpus):
    """The module runs as a command, and TensorFlow's start-up writes nothing to its stderr."""
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    command = [sys.executable, "-m", "seqrecorder", "verify", str(corpus), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["ok"]


def test_a_reader_that_leaves_is_no_error(corpus):
    """Output into a pipe that nobody reads ends without a traceback."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "seqrecorder", "info", str(corpus)]
    with os.fdopen(writing, "w") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("arguments", [["info", "{}"], ["info", "{}", "--json"], ["info", "{}/nothing", "--json"]])
def test_a_full_disk_behind_the_output_is_one_line(corpus, arguments):
    """Output that cannot be written is an error of one line, without a traceback."""
    command = [sys.executable, "-m", "seqrecorder", *(each.format(corpus) for each in arguments)]
    with Path("/dev/full").open("w") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n"), done.stderr[:13]) == (1, 1, "seqrecorder: ")


@sr.record
class Translation:
    source: np.ndarray = sr.feature_list("int64", align="source")
    target: np.ndarray = sr.feature_list("int64", align="target")


def test_info_shows_the_lengths_of_all_groups(tmp_path, capsys):
    """Where feature lists are aligned in several groups, the lengths of each are shown, as far as files tell them."""
    path = tmp_path / "pairs"
    sr.write({"train": [Translation([0] * 347, [0] * 859), Translation([0], [])], "eval": []}, path)
    assert main.main(["info", str(path)]) == 0
    shown = capsys.readouterr().out
    lines = [line.split() for line in shown.splitlines()]
    for line in ("train source 1 1 347", "train target 0 0 859", "eval target - - -"):
        assert line.split() in lines
    assert main.main(["info", str(path), "--json"]) == 0
    train = json.loads(capsys.readouterr().out)["splits"]["train"]
    assert train["lengths_by_group"]["target"] == {"min": 0, "median": 0, "max": 859}
    next((path / "train").glob("*.lengths")).unlink()
    assert main.main(["info", str(path)]) == 0
    assert ["train", "target", "-", "-", "-"] in [line.split() for line in capsys.readouterr().out.splitlines()]


def test_stats_are_a_table_for_each_split_and_a_document(corpus, capsys):
    """`stats` prints a table for all records and for each split, and with --json all figures."""
    assert main.main(["stats", str(corpus)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Stats Clip: 8 records (train 7, eval 1)")
    assert text.count("mfcc") == 3
    assert main.main(["stats", str(corpus), "--split", "eval", "--field", "mfcc", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document["fields"]) == ["mfcc"]
    assert document["fields"]["mfcc"]["maximum"] == [4.0, 2.0]


def test_tables_become_datasets_without_python(capsys, tmp_path, monkeypatch):
    """`schema` drafts a class for a table, and `convert` writes its rows as steps or records, in splits by shares."""
    monkeypatch.chdir(tmp_path)
    lines = [f"s{number % 9},{number},0.5" for number in range(90)]
    (tmp_path / "rows.csv").write_text("\n".join(["id,time,x", *lines]))
    code, out, _ = run(capsys, "schema", "rows.csv", "--by", "id", "--order", "time", "--name", "Series")
    assert (code, 'id: str = sr.context("str", key=True)' in out, "class Series:" in out) == (0, True, True)
    arguments = ["convert", "rows.csv", "corpus", "--by", "id", "--order", "time", "--splits", "train=.8,eval=.2"]
    code, document = run_json(capsys, *arguments)[:2]
    assert (code, document["dataset"]["records"], document["ignored"]) == (0, 9, [])
    assert set(sr.info("corpus").splits) == {"train", "eval"}
    code, out, _ = run(capsys, "convert", "rows.csv", "whole")
    assert (code, out.startswith(f"{tmp_path / 'whole'}: 90 records (90 train)")) == (0, True)
    assert run(capsys, "convert", "rows.csv", "x", "--raw", "a=int8")[0] == 1
    code, document, _ = run_json(capsys, "convert", "rows.csv", "less", "--leave-out", "time")
    assert (code, document["ignored"]) == (0, ["time"])
    assert [field.name for field in sr.info("less").schema.fields] == ["id", "x"]
    code, _, error = run(capsys, "convert", "rows.csv", "none", "--leave-out", "tim")
    assert (code, "did you mean 'time'?" in error) == (1, True)
    for given in (["rows.csv", "x.tfrecord"], ["x.tfrecord", "--by", "id"]):
        code, _, error = run(capsys, "schema", *given)
        assert (code, "tables" in error) == (1, True)


def test_records_are_exported_to_the_format_of_the_name(capsys, tmp_path, corpus):
    """`export` writes what is selected, without the fields that are left out, as `to_parquet` and `to_jsonl` do."""
    parquet, lines = tmp_path / "a.parquet", tmp_path / "a.jsonl.gz"
    code, document, _ = run_json(capsys, "export", corpus, parquet, "--select", "train[:4]")
    selection = sr.open(corpus, schema=Clip)["train"][:4]
    assert (code, document["records"], document["fields"][:2]) == (0, 4, ["key", "mfcc"])
    assert list(sr.from_table(parquet, Clip)) == list(selection)
    left_out = ["--leave-out", "raw", "--leave-out", "mfcc"]
    code, out, _ = run(capsys, "export", corpus, lines, "--where", "key=clip-5", *left_out)
    assert (code, out.startswith(f"{lines}: 1 record of key, ")) == (0, True)
    with gzip.open(lines, "rt") as file:
        [row] = map(json.loads, file)
    assert (row["key"], row["phones"], "raw" in row, "mfcc" in row) == ("clip-5", [0], False, False)
    for output, options, message in (
        ("a.csv", [], "ends with .parquet, .jsonl"),
        ("a.jsonl", [], "JSON holds no bytes"),
        ("a.parquet", ["--leave-out", "mfc"], "did you mean 'mfcc'?"),
    ):
        code, _, error = run(capsys, "export", corpus, tmp_path / output, *options)
        assert (code, message in error) == (1, True), error


def test_parts_and_datasets_are_joined(capsys, tmp_path, corpus):
    """`commit` publishes the parts that it expects, `merge` writes datasets as one; both tell what there is then."""
    for part in range(2):
        sr.write_part([clip(100 + part, 3)], tmp_path / "parts", part)
    assert run(capsys, "commit", tmp_path / "parts", "--expected", 3)[0] == 1
    assert run_json(capsys, "commit", tmp_path / "parts", "--expected", 2)[1]["path"] == str(tmp_path / "parts")
    assert sr.info(tmp_path / "parts").records == 2
    assert run(capsys, "merge", corpus, tmp_path / "parts", tmp_path / "both", "--share", "all=1")[0] == 0
    assert {name: split.records for name, split in sr.info(tmp_path / "both").splits.items()} == {"all": 10}
    code, _, error = run(capsys, "merge", tmp_path / "parts", tmp_path / "both", tmp_path / "more")
    assert (code, "clip-100" in error) == (1, True)
    assert run(capsys, "merge", tmp_path / "parts", tmp_path / "both", tmp_path / "more", "--first")[0] == 0
    assert sr.info(tmp_path / "more").records == 10


def test_plan_compares_strategies(corpus, capsys):
    """`plan` prints a table of strategies, of train by default."""
    assert main.main(["plan", str(corpus), "--batch-size", "2"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("split train")
    assert all(name in text for name in ("Pad(2)", "Bucket(2)", "TokenBudget("))
    assert main.main(["plan", str(corpus), "--batch-size", "2", "--json"]) == 0
    plans = json.loads(capsys.readouterr().out)["plans"]
    assert plans[0]["rows"] == 7
    assert plans[0]["steps"] == sum(i % 4 for i in range(7))


def test_plan_takes_pairs_and_two_rates(tmp_path, capsys):
    """The rows of `Pack` fit the longest record of each side; samples are cut as their frames are."""

    @sr.record
    class Pair:
        source: np.ndarray = sr.feature_list("int64")
        target: np.ndarray = sr.feature_list("int64", align="target")

    @sr.record
    class Sound:
        frames: np.ndarray = sr.feature_list("float32")
        audio: np.ndarray = sr.feature_list("float32", align="audio", per_step=4)

    sr.write([Pair([1] * 3, [5] * 7), Pair([1] * 5, [6] * 2)] * 20, tmp_path / "pairs")
    sr.write([Sound(np.ones(3), np.ones(12))], tmp_path / "sound")
    code, out, _ = run(capsys, "plan", tmp_path / "pairs", "--batch-size", "4")
    assert (code, "Pack({'source': 5, 'target': 7}, batch_size=3)" in out) == (0, True)
    code, out, _ = run(capsys, "plan", tmp_path / "sound")
    assert (code, "Pack(3, batch_size=64)" in out) == (0, True)


def test_a_report_into_no_directory_is_refused_at_once(capsys):
    """Nothing is computed for a page that has no directory."""
    code, out, err = run(capsys, "report", "nothing", "-o", "/nonexistent/x.html")
    assert (code, out) == (1, "")
    assert "cannot write /nonexistent/x.html: there is no such directory" in err


def test_report_writes_a_page_and_prints_the_findings(corpus, tmp_path, capsys):
    """`report` writes one HTML file, and says what is remarkable."""
    path = tmp_path / "report.html"
    assert main.main(["report", str(corpus), "-o", str(path)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Report on ")
    assert text.endswith(f"written to {path}\n")
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert main.main(["report", str(corpus), "-o", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    assert {"rule", "level", "about", "message", "section"} == set(found[0])
    shard = min(shutil.copytree(corpus, tmp_path / "damaged").rglob("*.tfrecord"))
    shard.write_bytes(shard.read_bytes()[:-1])
    assert main.main(["report", str(tmp_path / "damaged"), "-o", str(path), "--json"]) == 1
    assert {found["level"] for found in json.loads(capsys.readouterr().out)["findings"]} >= {"error"}
    assert main.main(["report", str(corpus), "-o", str(tmp_path / "no" / "report.html")]) == 1
    assert "report.html" in capsys.readouterr().err


def test_vocabulary_counts_and_writes(corpus, tmp_path, capsys):
    """`vocabulary` prints the frequent tokens and what they cover, and writes what `Vocabulary.load` reads."""
    path = tmp_path / "phones.json"
    assert main.main(["vocabulary", str(corpus), "--field", "phones", "--max-size", "3", "-o", str(path)]) == 0
    text = capsys.readouterr().out
    assert "eval: Coverage 40.00% of 5 tokens" in text
    assert len(sr.Vocabulary.load(path)) == 3
    assert main.main(["vocabulary", str(corpus), "--field", "key", "--characters", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["tokens"][0] == "-"
    assert document["coverage"]["eval"]["share"] < 1


def test_plot_writes_a_picture(corpus, tmp_path, capsys):
    """`plot` draws the record of a key, wherever it is, or the first ones."""
    path = tmp_path / "clip.png"
    assert main.main(["plot", str(corpus), "--key", "clip-7", "-o", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"path": str(path), "split": "eval", "records": 1}
    assert path.read_bytes().startswith(b"\x89PNG")
    assert main.main(["plot", str(corpus), "-n", "2", "--field", "mfcc", "-o", str(tmp_path / "two.svg")]) == 0
    assert "2 records of train" in capsys.readouterr().out
    assert main.main(["plot", str(corpus), "--key", "nobody", "-o", str(path)]) == 1
    assert "nobody" in capsys.readouterr().err


def test_without_a_command_there_is_help(capsys):
    """The bare command shows what there is."""
    assert main.main([]) == 0
    assert "verify" in capsys.readouterr().out


def test_a_misspelt_command_is_answered_with_the_nearest(capsys):
    """A name that is no command's is an error of usage, which names the nearest one."""
    with pytest.raises(SystemExit, match="2"):
        main.main(["verfy", "corpus"])
    assert "did you mean 'verify'?" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["stats"], ["legacy", "convert"]], ids=" ".join)
def test_a_misspelt_option_is_answered_by_its_command(capsys, command):
    """An option that a command lacks is an error of usage, with that command's options, and names the nearest one."""
    option, nearest = ("--splt", "--split") if command == ["stats"] else ("--dta", "--data")
    with pytest.raises(SystemExit, match="2"):
        main.main([*command, option, "train", "corpus"])
    error = capsys.readouterr().err
    assert error.startswith(f"usage: seqrecorder {' '.join(command)} ")
    assert error.endswith(f"unrecognized arguments: {option} corpus (did you mean '{nearest}'?)\n")
