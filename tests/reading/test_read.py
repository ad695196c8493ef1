"""`read`, `read_records` and `info`: what comes out, against the plain TensorFlow pipeline as the specification."""

import itertools
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import tensorflow as tf
from combinations import all_at_night

import seqrecorder as sr

LENGTHS = np.clip(np.random.default_rng(0).lognormal(2.0, 0.8, 230).astype(int), 0, 40)
BOUNDARIES = [4, 8, 16]


@sr.record
class Sentence:
    key: str = sr.context(str, key=True)
    label: int = sr.context("int32")
    ids: np.ndarray = sr.feature_list("int64")
    vectors: np.ndarray = sr.feature_list("float32", shape=(2,))
    words: np.ndarray = sr.feature_list(str)
    exact: np.ndarray = sr.feature_list("float64")
    rate: int = sr.context("int64", default=8)


def sentence(number: int, length: int) -> Sentence:
    rng = np.random.default_rng(number)
    return Sentence(
        f"s{number}",
        number % 5,
        rng.integers(1, 1000, length),
        rng.normal(size=(length, 2)).astype("float32"),
        [f"w{word}" for word in range(length)],
        rng.normal(size=length),
    )


RECORDS = [sentence(number, int(length)) for number, length in enumerate(LENGTHS)]

OTHERS = [sentence(1000 + number, number) for number in range(7)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reader") / "corpus"
    sr.write({"train": RECORDS, "eval": OTHERS}, path, shards=3)
    return path


def slow(corpus: Path) -> tf.data.Dataset:
    """The pipeline that everybody writes: parse one record at a time, from all files in turn."""
    schema = sr.Schema.of(Sentence).select(["key", "label", "ids", "vectors", "words", "rate"])
    files = sorted(map(str, (corpus / "train").glob("*.tfrecord")))

    def parse(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        context, lists = tf.io.parse_single_sequence_example(
            serialized, schema.context_features, schema.sequence_features
        )
        return {**context, **lists, "sequence_length": tf.shape(lists["ids"], tf.int64)[0]}

    records = tf.data.Dataset.from_tensor_slices(files).interleave(tf.data.TFRecordDataset, cycle_length=len(files))
    return records.map(parse)


def assert_same(ours: tf.data.Dataset, theirs: tf.data.Dataset) -> int:
    count = 0
    for mine, other in itertools.zip_longest(ours, theirs):
        for name, value in other.items():
            got, want = np.asarray(mine[name].numpy()), np.asarray(value.numpy())
            if want.ndim > 1 and want.shape[1] == 0:
                continue  # a batch of T = 0, which ours never is
            assert got.dtype == want.dtype or name == "label"  # int32 here, int64 on the wire
            np.testing.assert_array_equal(got, want)
        count += 1
    return count


def test_unbatched_equals_parse_single(corpus: Path) -> None:
    """Unbatched records are those of parse_single_sequence_example, in written order."""
    ours = sr.read(corpus, "train")
    theirs = slow(corpus).map(lambda e: {k: v for k, v in e.items() if k != "sequence_length"})
    assert assert_same(ours, theirs) == len(RECORDS)


def test_an_int_is_padding(corpus: Path) -> None:
    """`batch=4` gives what `Pad(4)` does."""
    assert assert_same(sr.read(corpus, "train", batch=4), sr.read(corpus, "train", batch=sr.Pad(4)))


@pytest.mark.parametrize("drop_remainder", [False, True])
def test_pad_equals_padded_batch(corpus: Path, drop_remainder: bool) -> None:
    """Padded batches are those of padded_batch, batch for batch."""
    ours = sr.read(corpus, "train", batch=sr.Pad(16, drop_remainder=drop_remainder))
    theirs = slow(corpus).padded_batch(16, drop_remainder=drop_remainder)
    assert assert_same(ours, theirs) == int(ours.cardinality())


@pytest.mark.parametrize(
    ("sizes", "drop_remainder"),
    all_at_night(itertools.product([16, [32, 16, 8, 4]], [False, True]), [(16, True), ([32, 16, 8, 4], False)]),
)
def test_bucket_equals_bucket_by_sequence_length(corpus: Path, sizes: int | list[int], drop_remainder: bool) -> None:
    """Bucketed batches are those of bucket_by_sequence_length, batch for batch."""
    ours = sr.read(corpus, "train", batch=sr.Bucket(sizes, boundaries=BOUNDARIES, drop_remainder=drop_remainder))
    theirs = slow(corpus).bucket_by_sequence_length(
        lambda e: tf.cast(e["sequence_length"], tf.int32),
        BOUNDARIES,
        sizes if isinstance(sizes, list) else [sizes] * 4,
        drop_remainder=drop_remainder,
    )
    assert assert_same(ours, theirs) == int(ours.cardinality())


def test_shuffled_buckets_equal_the_slow_pipeline_over_our_order(corpus: Path) -> None:
    """Shuffled buckets are those of bucket_by_sequence_length run over the order in which single records come."""
    order = [e["key"].numpy() for e in sr.read(corpus, "train", shuffle=64, seed=5)]
    by_key = {e["key"].numpy(): e for e in slow(corpus)}
    ours = sr.read(corpus, "train", batch=sr.Bucket(8, boundaries=BOUNDARIES), shuffle=64, seed=5)
    lengths = [int(by_key[key]["sequence_length"]) for key in order]
    theirs = tf.data.Dataset.from_tensor_slices((order, np.array(lengths))).bucket_by_sequence_length(
        lambda _, length: tf.cast(length, tf.int32), BOUNDARIES, [8] * 4
    )
    for mine, (keys, _) in itertools.zip_longest(ours, theirs):
        assert mine["key"].numpy().tolist() == keys.numpy().tolist()


def test_buffered_fields_are_padded_like_the_others(corpus: Path) -> None:
    """A float64 feature list, stored as buffers, is padded with zeros and exact."""
    for batch in sr.read(corpus, "train", batch=sr.Bucket(16)):
        for row, key in enumerate(batch["key"].numpy()):
            record = RECORDS[int(key[1:])]
            length = len(record.exact)
            assert batch["exact"][row, :length].numpy().tobytes() == record.exact.tobytes()
            assert not batch["exact"][row, length:].numpy().any()


EACH_WAY = [None, sr.Pad(16), sr.Bucket(16), sr.Bucket(16, boundaries=BOUNDARIES)]


@pytest.mark.parametrize(
    ("batch", "shuffle"),
    all_at_night(
        itertools.product(EACH_WAY, [0, 50, 1000]),
        [*((batch, 50) for batch in EACH_WAY), (None, 1000), (EACH_WAY[3], 1000)],
    ),
)
def test_every_record_once_an_epoch(corpus: Path, batch: sr.Pad | sr.Bucket | None, shuffle: int) -> None:
    """Each epoch holds every record exactly once, as many elements as the cardinality says, in batches of T >= 1."""
    dataset = sr.read(corpus, "train", batch=batch, shuffle=shuffle, seed=1, epochs=2, fields=["key", "ids"])
    elements = list(dataset)
    assert len(elements) == int(dataset.cardinality())
    keys = np.concatenate([np.atleast_1d(e["key"].numpy()) for e in elements])
    half = len(RECORDS)
    expected = sorted(record.key.encode() for record in RECORDS)
    assert sorted(keys[:half]) == expected
    assert sorted(keys[half:]) == expected
    if batch is not None:
        assert all(e["ids"].shape[1] >= 1 for e in elements)


def keys_of(dataset: tf.data.Dataset) -> list[bytes]:
    return [e["key"].numpy() for e in dataset]


def test_orders_follow_the_seed(corpus: Path) -> None:
    """The same seed gives the same orders, another seed others, and each iteration is a new epoch."""

    def read(**options: Any) -> tf.data.Dataset:
        return sr.read(corpus, "train", shuffle=100, fields=["key"], **options)

    one = read(seed=1)
    first, second = keys_of(one), keys_of(one)
    assert first != second
    again = read(seed=1)
    assert [keys_of(again), keys_of(again)] == [first, second]
    assert keys_of(read(seed=2)) != first
    assert keys_of(read()) != keys_of(read())


def test_epochs_of_a_seed_have_numbers(corpus: Path) -> None:
    """Epoch k of a seed is one order, in one iteration of several epochs, in the k-th iteration or as the first."""
    options: dict[str, Any] = {"shuffle": 100, "seed": 1, "fields": ["key"]}
    dataset = sr.read(corpus, "eval", **options)
    for _ in range(2):
        iter(dataset)  # no element is asked for: no epoch
    orders = [keys_of(dataset) for _ in range(3)]
    assert keys_of(sr.read(corpus, "eval", epochs=3, **options)) == [*orders[0], *orders[1], *orders[2]]
    assert keys_of(sr.read(corpus, "eval", epoch=1, epochs=2, **options)) == orders[1] + orders[2]
    later = sr.read(corpus, "eval", epoch=1, **options)
    assert [keys_of(later), keys_of(later)] == orders[1:]
    endless = sr.read(corpus, "eval", epoch=2, epochs=None, **options)
    assert keys_of(endless.take(len(orders[2]))) == orders[2]


def test_shuffle_mixes_the_files(corpus: Path) -> None:
    """With a window as large as the data, every position is about equally likely for the first record."""
    keys = keys_of(sr.read(corpus, "train", shuffle=1000, seed=0, epochs=40, fields=["key"]))
    places = [place % len(RECORDS) for place, key in enumerate(keys) if key == b"s0"]
    assert len(places) == 40
    assert 0.3 < np.mean(places) / len(RECORDS) < 0.7
    assert np.std(places) / len(RECORDS) > 0.15


@pytest.mark.parametrize(
    ("count", "batch"),
    all_at_night(
        itertools.product([2, 3, 5], [None, sr.Pad(7), sr.Bucket(7)]),
        [(2, sr.Pad(7)), (3, None), (5, sr.Bucket(7))],
    ),
)
def test_shards_are_disjoint_and_complete(corpus: Path, count: int, batch: sr.Pad | sr.Bucket | None) -> None:
    """Several readers read every record exactly once, be there more files than readers or fewer."""
    seen: list[bytes] = []
    for index in range(count):
        dataset = sr.read(corpus, "train", batch=batch, shard=(index, count), shuffle=20, seed=3, fields=["key", "ids"])
        elements = list(dataset)
        assert len(elements) == int(dataset.cardinality())
        for element in elements:
            seen += np.atleast_1d(element["key"].numpy()).tolist()
    assert sorted(seen) == sorted(record.key.encode() for record in RECORDS)


@pytest.mark.parametrize(
    ("batch", "shuffle", "points"),
    all_at_night(
        itertools.product([None, sr.Pad(16), sr.Bucket(16)], [0, 40], [6, 1000]),
        [(None, 40, 6), (sr.Bucket(16), 40, 6)],
    ),
)
def test_resumes_exactly(
    corpus: Path, tmp_path: Path, batch: sr.Pad | sr.Bucket | None, shuffle: int, points: int
) -> None:
    """An iterator saved before any element resumes with the identical remainder, in another pipeline."""

    def build() -> tf.data.Dataset:
        return sr.read(corpus, "eval" if batch is None else "train", batch=batch, shuffle=shuffle, seed=4, epochs=2)

    def keys(elements: object) -> list[object]:
        return [np.asarray(element["key"].numpy()).tolist() for element in elements]

    whole = keys(build())
    iterator, anew = iter(build()), build()
    stride = max(1, len(whole) // points)
    for position in range(0, len(whole), stride):
        saved = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / f"at{position}"))
        again = iter(anew)
        tf.train.Checkpoint(iterator=again).restore(saved)
        assert keys(again) == whole[position:]
        for _ in range(min(stride, len(whole) - position)):
            next(iterator)


def test_epochs_without_end(corpus: Path) -> None:
    """epochs=None goes on for ever, and says so."""
    dataset = sr.read(corpus, "eval", epochs=None, shuffle=5, seed=0)
    assert int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY
    assert len(list(dataset.take(30))) == 30


@pytest.mark.parametrize("options", [{"min_length": 1000}, {"batch": sr.Pad(64, drop_remainder=True)}], ids=str)
@pytest.mark.parametrize("epochs", [None, 1])
def test_epochs_of_nothing_are_refused(corpus: Path, options: dict[str, Any], epochs: int | None) -> None:
    """They would be looked through for ever, or give nothing to train on."""
    with pytest.raises(sr.OptionError, match="eval.*: expected an epoch of a batch or more"):
        sr.read(corpus, "eval", epochs=epochs, **options)
    with pytest.raises(sr.OptionError, match="epochs=None: .* has empty epochs"):
        sr.read(sr.open(corpus)["eval"][:0], epochs=None)


def test_tuple_output_is_in_declaration_order(corpus: Path) -> None:
    """Tuples hold the fields in declaration order, and then what the batch carries."""
    single = next(iter(sr.read(corpus, "train", output="tuple")))
    names = [field.name for field in sr.Schema.of(Sentence).fields]
    as_dict = next(iter(sr.read(corpus, "train")))
    assert list(as_dict) == names
    for value, name in zip(single, names, strict=True):
        np.testing.assert_array_equal(value.numpy(), as_dict[name].numpy())
    batch = next(iter(sr.read(corpus, "train", batch=sr.Pad(4), output="tuple")))
    assert len(batch) == len(names) + 1
    assert batch[-1].numpy().tolist() == [len(record.ids) for record in RECORDS[:4]]


def test_record_output_is_the_class(corpus: Path) -> None:
    """Records come as the class, with tensors for values, single or in batches, and batch again."""
    single = next(iter(sr.read(corpus, "train", schema=Sentence, output="record")))
    assert isinstance(single, Sentence)
    assert single.key.numpy() == b"s0"
    batch = next(iter(sr.read(corpus, "train", schema=Sentence, output="record", batch=sr.Pad(4, mask_name="mask"))))
    assert isinstance(batch, Sentence)
    assert batch.mask.shape == batch.ids.shape
    assert "Sentence(key=" in repr(batch)


def test_mask_and_renamed_lengths(corpus: Path) -> None:
    """A mask is true exactly at the real steps, and the lengths come under the name that was asked for."""
    for batch in sr.read(corpus, "train", batch=sr.Pad(16, mask_name="mask", length_name="n")):
        assert "sequence_length" not in batch
        assert batch["mask"].dtype == tf.bool
        assert batch["mask"].numpy().sum(1).tolist() == batch["n"].numpy().tolist()
        assert (batch["ids"].numpy() > 0).tolist() == batch["mask"].numpy().tolist()


def test_inputs_targets_and_weights(corpus: Path) -> None:
    """`inputs` and `targets` give what fit takes: weights are 1 at real steps where a target has steps."""
    x, y, w = next(iter(sr.read(corpus, "train", batch=sr.Pad(8), inputs="vectors", targets="ids")))
    assert x.shape[:2] == y.shape == w.shape
    assert (w.numpy() == (y.numpy() > 0)).all()
    assert w.dtype == tf.float32
    x, y = next(iter(sr.read(corpus, "train", batch=sr.Pad(8), inputs="vectors", targets="label")))
    assert y.shape == (8,)
    x = next(iter(sr.read(corpus, "train", batch=sr.Pad(8), inputs=["ids", "sequence_length"])))
    assert isinstance(x, tuple)
    x, y, w = next(
        iter(sr.read(corpus, "train", batch=sr.Pad(8), inputs={"a": "ids"}, targets={"t": "ids", "c": "label"}))
    )
    assert sorted(x) == ["a"]
    assert sorted(y) == sorted(w) == ["c", "t"]
    assert w["c"].numpy().tolist() == [1.0] * 8
    x, y = next(iter(sr.read(corpus, "train", batch=sr.Pad(8), inputs="ids", targets="ids", weights=False)))
    x, y, w = next(iter(sr.read(corpus, "train", batch=sr.Pad(8), inputs="ids", targets="label", weights="rate")))
    assert w.numpy().tolist() == [8] * 8
    x, y = next(iter(sr.read(corpus, "train", inputs="ids", targets="label")))
    assert y.shape == ()


def test_text_may_be_a_target_without_weights(corpus: Path) -> None:
    """Targets are text as stored if weights are off: Keras has no loss for them, but a loop of one's own may."""
    plain = sr.read(corpus, "train", batch=4)
    texts = sr.read(corpus, "train", batch=4, inputs="ids", targets=("key", "words"), weights=False)
    for batch, (ids, (key, words)) in zip(plain, texts, strict=True):
        for got, name in ((ids, "ids"), (key, "key"), (words, "words")):
            np.testing.assert_array_equal(got, batch[name])


def test_only_named_fields_are_parsed(corpus: Path) -> None:
    """`fields` limits what is parsed, and the batch still carries its lengths."""
    batch = next(iter(sr.read(corpus, "train", batch=sr.Bucket(8), fields=["label", "key"])))
    assert list(batch) == ["key", "label", "sequence_length"]
    assert next(sr.read_records(corpus, "train", fields=["key"])).key == "s0"


def test_read_records_restores_the_written_order(corpus: Path) -> None:
    """Records come back equal and in the order in which they were written, whatever the number of shards."""
    assert list(sr.read_records(corpus, "train", schema=Sentence)) == RECORDS
    halves = [list(sr.read_records(corpus, "train", schema=Sentence, shard=(i, 2))) for i in range(2)]
    assert sorted(r.key for half in halves for r in half) == sorted(r.key for r in RECORDS)


def test_read_records_rebuilds_the_class(corpus: Path) -> None:
    """Without the class, records are of one rebuilt from the manifest, with the same values."""
    record = next(sr.read_records(corpus, "train"))
    assert type(record).__name__ == "Sentence"
    assert attrs.asdict(record, recurse=False).keys() == attrs.fields_dict(Sentence).keys()
    assert record.words.tolist() == RECORDS[0].words.tolist()


def test_data_that_lacks_a_field_are_filled(corpus: Path, tmp_path: Path) -> None:
    """A field that the class has and the data lack takes its default; without one it is refused by name."""

    @sr.record
    class Newer:
        key: str = sr.context(str, key=True)
        ids: np.ndarray = sr.feature_list("int64")
        speaker: str = sr.context(str, default="nobody")
        note: str | None = sr.context(str, optional=True, default=None)

    record = next(sr.read_records(corpus, "train", schema=Newer))
    assert (record.speaker, record.note) == ("nobody", None)
    batch = next(iter(sr.read(corpus, "train", schema=Newer, batch=sr.Pad(2))))
    assert batch["speaker"].numpy().tolist() == [b"nobody"] * 2
    assert batch["note_present"].numpy().tolist() == [False] * 2

    @sr.record
    class Demanding:
        ids: np.ndarray = sr.feature_list("int32")
        mood: str = sr.context(str)

    with pytest.raises(sr.SchemaMismatchError) as error:
        sr.read(corpus, "train", schema=Demanding)
    assert error.value.differences == (
        "ids: dtype int64 in the data, int32 in the class",
        "mood: not in the data (context str), and has no default; if it was renamed, declare renamed_from='key'",
    )

    @sr.record
    class Old:
        speaker: str = sr.context(str)
        language: str = sr.context(str)

    @sr.record
    class New:
        lang: str = sr.context(str)

    sr.write([Old("s1", "en")], tmp_path / "two")
    with pytest.raises(sr.SchemaMismatchError, match="declare renamed_from='speaker' or 'language'"):
        sr.read(tmp_path / "two", schema=New)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch": True}, "expected an int, Pad"),
        ({"batch": 0}, "batch_size: expected"),
        ({"shuffle": -1}, "shuffle"),
        ({"shuffle": True}, "shuffle"),
        ({"epochs": 0}, "epochs"),
        ({"epoch": -1}, "epoch: expected an int of 0 or more, got -1"),
        ({"shard": (2, 2)}, "shard"),
        ({"shard": 3}, "shard"),
        ({"output": "list"}, "output"),
        ({"targets": "ids"}, "name the inputs"),
        ({"inputs": "idz", "targets": "label"}, "did you mean 'ids'"),
        ({"inputs": "idz", "normalize": {}}, "did you mean 'ids'"),
        ({"inputs": "ids", "output": "tuple"}, "leave `output` out"),
        ({"fields": "ids"}, "sequence of names"),
        ({"check": "some"}, "check"),
        ({"layout": "packed"}, "layout is for bare shards"),
        ({"compression": "GZIP"}, "compression is None"),
        ({"batch": sr.Pad(4, length_name="label")}, "length_name"),
        ({"batch": sr.Pad(4, mask_name="ids")}, "mask_name"),
        ({"batch": sr.Bucket(4, length_field="label")}, "context field"),
        ({"batch": sr.Bucket(4, length_field=lambda record: 1)}, "length_field: expected the name"),
        ({"batch": sr.Bucket(4, length_field=())}, "length_field: expected the name of a feature list, or several"),
        ({"batch": sr.Bucket(4, length_field=("ids", "ids"))}, "each name once"),
        ({"split": ["train", "eval"]}, "split: expected the name of one.*concatenate"),
        ({"split": slice(3)}, "split: expected the name of one"),
        ({"inputs": [3]}, "inputs and targets: expected a name"),
        ({"inputs": {"a": ["ids"]}}, "inputs and targets: expected a name"),
        ({"inputs": "ids", "targets": "words"}, "targets: 'words' is text.*pass vocabulary="),
        ({"inputs": "ids", "targets": ("label", "key")}, "targets: 'key' is text"),
        ({"inputs": "ids", "targets": "label", "weights": "key"}, "weights: expected .* number .*'key' is text"),
        ({"fields": 3}, "sequence of names"),
        ({"index_name": 3}, "index_name: expected a name"),
        ({"deterministic": "no"}, "deterministic"),
        ({"seed": "a"}, "seed"),
        ({"seed": 1 << 64}, "seed: expected an int of 64 bits"),
    ],
)
def test_options_that_make_no_sense(corpus: Path, arguments: dict[str, object], message: str) -> None:
    """An option that makes no sense is refused at once, by name."""
    with pytest.raises(sr.OptionError, match=message):
        sr.read(corpus, **{"split": "train", **arguments})


def test_unknown_field_names_are_refused(corpus: Path) -> None:
    """A field that there is not is refused, and a near one suggested."""
    with pytest.raises(sr.SchemaError, match="did you mean 'ids'"):
        sr.read(corpus, "train", fields=["idz"])
    with pytest.raises(sr.SchemaError, match="did you mean 'ids'"):
        sr.read_records(corpus, "train", fields=["idz"])


def test_info_is_the_manifest(corpus: Path) -> None:
    """`info` gives what was written."""
    manifest = sr.info(corpus)
    assert {name: split.records for name, split in manifest.splits.items()} == {
        "train": len(RECORDS),
        "eval": 7,
    }
    assert manifest.steps == sum(map(int, LENGTHS)) + sum(range(7))


def test_groups_have_lengths_of_their_own(tmp_path: Path) -> None:
    """Fields of other alignment groups, and freed ones, carry lengths of their own, and buckets may go by them."""

    @sr.record
    class Pair:
        source: np.ndarray = sr.feature_list("int64")
        target: np.ndarray = sr.feature_list("int64", align="target")
        notes: np.ndarray = sr.feature_list(str, align=None)

    records = [Pair(np.ones(n, int), np.ones(20 - n, int), ["x"] * (n % 3)) for n in range(20)]
    sr.write(records, tmp_path / "pairs")
    seen = 0
    for batch in sr.read(tmp_path / "pairs", batch=sr.Bucket(4, boundaries=[5, 10], length_field="target")):
        lengths = batch["target_length"].numpy()
        assert batch["target"].numpy().sum(1).tolist() == lengths.tolist()
        assert batch["sequence_length"].numpy().tolist() == (20 - lengths).tolist()
        assert batch["notes_length"].numpy().tolist() == ((20 - lengths) % 3).tolist()
        assert len({int(np.searchsorted([5, 10], n, side="right")) for n in lengths}) == 1
        seen += len(lengths)
    assert seen == 20


def test_empty_split_and_empty_dataset(tmp_path: Path) -> None:
    """A split without records gives no element, of the right structure, in every way of reading."""
    sr.write({"train": RECORDS[:3], "eval": []}, tmp_path / "some", schema=Sentence)
    sr.write([], tmp_path / "none", schema=Sentence)
    for path, split in ((tmp_path / "some", "eval"), (tmp_path / "none", "train")):
        for batch in (None, sr.Pad(4), sr.Bucket(4)):
            for shuffle in (0, 10):
                dataset = sr.read(path, split, batch=batch, shuffle=shuffle)
                assert list(dataset) == []
                assert set(dataset.element_spec) >= {field.name for field in sr.Schema.of(Sentence).fields}
        assert list(sr.read_records(path, split)) == []


def test_context_only_records(tmp_path: Path) -> None:
    """Records without a feature list can be read single and padded, and buckets are refused with the way out."""

    @sr.record
    class Point:
        x: float = sr.context(float)

    sr.write([Point(float(i)) for i in range(5)], tmp_path / "points")
    assert [float(e["x"]) for e in sr.read(tmp_path / "points")] == [0.0, 1.0, 2.0, 3.0, 4.0]
    batch = next(iter(sr.read(tmp_path / "points", batch=sr.Pad(5))))
    assert list(batch) == ["x"]
    with pytest.raises(sr.OptionError, match="use Pad"):
        sr.read(tmp_path / "points", batch=sr.Bucket(2))


STEPS = [slice(3), slice(-2, None), slice(1, None, 2), slice(None, None, 3), slice(5, 2), slice(-(2**70), 2**70)]


@pytest.mark.parametrize(
    ("batch", "steps"),
    all_at_night(
        itertools.product([sr.Bucket(8, boundaries=[2, 5]), None, sr.Ragged(8), sr.Pad(8)], STEPS),
        [
            *((sr.Bucket(8, boundaries=[2, 5]), steps) for steps in STEPS[:4:2]),
            *((None, steps) for steps in STEPS[1::2]),
            (sr.Ragged(8), STEPS[4]),
        ],
    ),
    ids=str,
)
def test_steps_are_those_of_a_slice(corpus: Path, steps: slice, batch: sr.Pad | sr.Bucket | sr.Ragged | None) -> None:
    """`steps` gives what slicing each sequence gives, and lengths count it."""
    got: dict[bytes, list[np.ndarray]] = {}
    names = ["ids", "vectors", "words", "exact"]
    for element in sr.read(corpus, "train", batch=batch, steps=steps):
        if batch is None:
            got[element["key"].numpy()] = [element[name].numpy() for name in names]
            continue
        rows = zip(element["key"].numpy(), element["sequence_length"].numpy(), strict=True)
        for row, (key, length) in enumerate(rows):
            got[key] = [element[name][row].numpy()[:length] for name in names]
    assert len(got) == len(RECORDS)
    for record in RECORDS:
        for name, values in zip(names, got[record.key.encode()], strict=True):
            want = getattr(record, name)[steps]
            if name == "words":
                want = np.array([word.encode() for word in want], object)
            np.testing.assert_array_equal(values, want)


def test_frames_that_are_left_out_are_not_decoded(tmp_path: Path) -> None:
    """Of image steps only those that are wanted are decoded, so that a broken one beside them does not matter."""
    frames = attrs.make_class("Frames", {"frame": sr.feature_list("uint8", shape=(2, 2, 3), storage="png")})
    record = frames(np.arange(3 * 12, dtype="u1").reshape(3, 2, 2, 3))
    message = tf.train.SequenceExample.FromString(sr.Schema.of(frames).encode(record))
    message.feature_lists.feature_list["frame"].feature[1].bytes_list.value[0] = b"no image"
    path = tmp_path / "frames.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as file:
        file.write(message.SerializeToString())
    [element] = sr.read(str(path), schema=frames, steps=slice(None, None, 2))
    np.testing.assert_array_equal(element["frame"].numpy(), record.frame[::2])
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(sr.read(str(path), schema=frames))


@pytest.mark.parametrize(
    ("bare", "batch"),
    all_at_night(
        itertools.product([False, True], [None, sr.Pad(8), sr.Bucket(8)]),
        [(False, None), (False, sr.Bucket(8)), (True, sr.Pad(8)), (True, sr.Bucket(8))],
    ),
)
def test_lengths_are_limited(corpus: Path, batch: sr.Pad | sr.Bucket | None, *, bare: bool) -> None:
    """Only records of wanted lengths are read, of datasets and of bare shards, and their number is known."""
    want = {record.key.encode() for record in RECORDS if 4 <= record.ids.size <= 9}
    path = sorted(map(str, (corpus / "train").glob("*.tfrecord"))) if bare else corpus
    options = {"schema": Sentence} if bare else {"split": "train"}
    dataset = sr.read(path, batch=batch, min_length=4, max_length=9, shuffle=50, seed=1, **options)
    elements = list(dataset)
    keys = set(np.concatenate([np.ravel(element["key"].numpy()) for element in elements]).tolist())
    assert keys == want
    if not bare:
        assert int(dataset.cardinality()) == len(elements)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_length": -1}, "min_length: expected an int of 0 or more"),
        ({"max_length": 2.5}, "max_length: expected an int of 0 or more"),
        ({"min_length": None, "max_length": 5}, "min_length: expected an int of 0 or more, got None"),
        ({"steps": 5}, "steps: expected a slice"),
    ],
)
def test_parts_that_make_no_sense(corpus: Path, options: dict[str, object], message: str) -> None:
    """Limits and slices that make no sense are refused by name."""
    with pytest.raises(sr.OptionError, match=message):
        sr.read(corpus, "train", **options)


@pytest.mark.parametrize("shard", [None, (2, 3)])
def test_records_that_cannot_be_decoded_have_a_place(tmp_path: Path, shard: tuple[int, int] | None) -> None:
    """A whole record that is not what the schema says is named with its shard, number, byte and position."""
    place = tmp_path / "lines"
    records = [sentence(n, 2) for n in range(9)]
    sr.write(records, place, shards=2)
    path = sorted(place.rglob("*.tfrecord"))[1]
    data = sr.Schema.of(Sentence).encode_batch(records[1::2])
    end = 16 * 3 + sum(map(len, data[:3]))
    data[3] = data[3].replace(b"ids", b"idx")
    with tf.io.TFRecordWriter(str(path)) as writer:
        for item in data:
            writer.write(item)
    with pytest.raises(sr.RecordError) as error:
        list(sr.read_records(place, shard=shard))
    assert f"{path}, record 3 at byte {end}: cannot be decoded" in str(error.value)
    assert f"`seqrecorder verify {place}`" in str(error.value)
    assert error.value.position == 7


@sr.record
class Pair:
    """Two sequences, of which the one is the longer the shorter the other is."""

    source: np.ndarray = sr.feature_list("int32", align="source")
    target: np.ndarray = sr.feature_list("int32", align="target")


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ({}, "source"),
        ({"batch": sr.Pad(2)}, "source"),
        ({"batch": sr.Bucket(2, boundaries=[9])}, "source"),
        ({"batch": sr.Bucket(2, boundaries=[9], length_field="target")}, "target"),
        ({"batch": sr.TokenBudget(99, length_field="target")}, "target"),
        ({"batch": sr.Unroll(2, 20), "fields": ["target"]}, "target"),
        ({"batch": sr.Window(20), "fields": ["target"]}, "target"),
        ({"batch": sr.Pack(20, 1), "fields": ["target"]}, "target"),
    ],
    ids=str,
)
def test_lengths_are_limited_where_they_count(tmp_path: Path, options: dict[str, Any], counts: str) -> None:
    """`min_length` and `max_length` count the steps that the strategy goes by."""
    lengths = [3, 9, 12, 17]
    sr.write((Pair(np.ones(20 - n, "i4"), np.ones(n, "i4")) for n in lengths), tmp_path / "pairs")
    elements = list(sr.read(tmp_path / "pairs", min_length=5, max_length=12, **options))
    kept = [n for n in lengths if 5 <= (n if counts == "target" else 20 - n) <= 12]
    assert sum(int(np.sum(element["target"])) for element in elements) == sum(kept)


@sr.record
class Pitch:
    pitch: np.ndarray = sr.context("float32", shape=(10,))


@pytest.mark.parametrize("good", [0, 3])
def test_a_class_that_does_not_fit_a_file_of_others(tmp_path: Path, good: int) -> None:
    """Both readers name the file, the record, the field and both numbers; and that the class is wrong, not the file."""
    files = [tmp_path / "a[1].tfrecord", tmp_path / "b.tfrecord"]
    with tf.io.TFRecordWriter(str(files[0])):
        pass
    with tf.io.TFRecordWriter(str(files[1])) as writer:
        for count in [10] * good + [4]:
            example = tf.train.Example()
            example.features.feature["pitch"].float_list.value.extend([0.5] * count)
            writer.write(example.SerializeToString())
    for reading in (sr.read, lambda *given, **options: list(sr.read_records(*given, **options))):
        with pytest.raises(sr.RecordError, match=rf"b.tfrecord, record {good}.*'pitch': 10 values .* got 4") as caught:
            reading(list(map(str, files)), schema=Pitch)
        assert f"`seqrecorder schema {files[1]} --records all`" in str(caught.value)
        assert "salvage" not in str(caught.value)


@sr.record
class Steps:
    number: int = sr.context("int64")
    payload: bytes = sr.context(bytes)
    ids: np.ndarray = sr.feature_list("int64")


DEALT = [{}, {"shard": (1, 2)}, {"shard": (0, 5)}, {"min_length": 3}, {"index_name": "index"}, {"epochs": 2}]


@pytest.mark.parametrize(
    ("large", "options"),
    all_at_night(
        itertools.product([False, True], DEALT),
        [
            (False, {}),
            (False, {"shard": (1, 2)}),
            (False, {"min_length": 3}),
            *((True, options) for options in DEALT[2:]),
        ],
    ),
)
def test_dealt_records_come_in_written_order(tmp_path: Path, options: dict[str, Any], large: bool) -> None:
    """Unshuffled records come in written order, whatever files got them in turn, in each of several appends."""
    count, payload = (40, bytes(200_000)) if large else (4000, b"")
    records = [Steps(n, payload, range(n % 7)) for n in range(count)]
    stops = [0, count // 2, count * 3 // 4, count * 3 // 4 + 1, count]
    for number, (first, last) in enumerate(itertools.pairwise(stops)):
        sr.write(records[first:last], tmp_path / "data", shards=[3, 8, 1, 5][number], append=number > 0)
    got = [int(each["number"]) for each in sr.read(tmp_path / "data", **options)]
    expected = [record.number for record in records if record.ids.size >= options.get("min_length", 0)]
    if "shard" in options:
        index, count = options["shard"]
        parts = [[int(e["number"]) for e in sr.read(tmp_path / "data", shard=(n, count))] for n in range(count)]
        assert sorted(itertools.chain(*parts)) == expected
        expected = sorted(parts[index])
    assert got == expected * options.get("epochs", 1)
