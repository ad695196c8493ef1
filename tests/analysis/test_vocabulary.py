"""Vocabularies: ids in numpy, in Keras layers and in batches are the same ones."""

import itertools
from collections import Counter

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import seqrecorder as sr
from seqrecorder.errors import DatasetNotFoundError, ManifestError, OptionError, SchemaError


@sr.record
class Sentence:
    label: str = sr.context(str)
    words: list = sr.feature_list(str)
    tags: np.ndarray = sr.feature_list("int16")
    blobs: list = sr.feature_list(bytes, align=None, default=())
    speaker: str | None = sr.context(str, optional=True, default=None)
    price: float = sr.context("float32", default=0.0)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    rng = np.random.default_rng(0)

    def sentence(number):
        size = int(rng.integers(0, 8))
        words = [f"w{word}" for word in rng.integers(0, 12, size)]
        return Sentence("ab"[number % 2], words, rng.integers(-2, 9, size), [b"\xff"], None if number % 3 else "s")

    path = tmp_path_factory.mktemp("vocabulary") / "corpus"
    sr.write({"train": map(sentence, range(40)), "eval": map(sentence, range(40, 60))}, path)
    return path


@pytest.fixture(scope="module")
def words(corpus):
    return sr.Vocabulary.build(corpus, "words", max_size=10, reserved=["<s>"], oov_buckets=2)


tokens = st.text(max_size=3)


@given(st.lists(tokens, min_size=1), st.integers(1, 3), st.randoms(use_true_random=False))
def test_frequent_tokens_come_first_and_order_does_not_matter(given_tokens, min_count, random):
    """Counts decide, then the tokens themselves: the same tokens in any order give the same ids."""
    expected = sorted(Counter(given_tokens).items(), key=lambda item: (-item[1], item[0]))
    kept = [token for token, count in expected if count >= min_count and token not in ("", "[UNK]")]
    options = {"min_count": min_count, "reserved": ["<s>"]}
    built = sr.Vocabulary.build(given_tokens, **options)
    random.shuffle(given_tokens)
    assert built == sr.Vocabulary.build([given_tokens], **options)
    assert list(built.tokens) == [word for word in kept if word != "<s>"]
    assert sr.Vocabulary.from_json(built.to_json()) == built
    known = ["", "<s>", *built.tokens]
    assert built.decode(built.encode(known)) == known
    assert built.encode(known).tolist() == [0, 2, *range(3, len(built))]
    assert built.total == len(given_tokens)


def test_a_vocabulary_is_of_train_by_default(corpus, words):
    """Counts are those of the records of train, or of those that are selected."""
    held = [word for record in sr.read_records(corpus, "train") for word in record.words]
    assert all(words.counts[word] == held.count(word) for word in words.tokens)
    assert (len(words), words.total) == (10, len(held))
    of_eval = sr.Vocabulary.build(sr.open(corpus)["eval"], "words")
    assert of_eval == sr.Vocabulary.build(corpus, "words", split="eval")
    found = words.coverage(corpus, "words")
    assert list(found) == ["train", "eval"]
    assert found["train"].known == sum(word in words.tokens for word in held)
    assert found["train"].unknown[0][0] not in words
    assert "unknown: w" in repr(found["train"])
    assert words.coverage([["w1", "nothing"]]).tokens == 2


def test_a_selection_over_splits_is_counted_whole(corpus):
    """All its records count, not those of train alone; of an open dataset, as of its directory, train does."""
    opened = sr.open(corpus)
    for selection in (opened.all(), opened.all()[30:50], opened["train", "eval"], opened["eval"] | opened["train"]):
        held = Counter(word for record in selection for word in record.words)
        assert sr.Vocabulary.build(selection, "words").counts == held
    assert sr.Vocabulary.build(opened, "words").counts == sr.Vocabulary.build(opened["train"], "words").counts


def test_rare_tokens_are_forgotten_on_request(random):
    """With `prune` memory is bounded; frequent tokens stay, and are counted to within the stated error."""
    drawn = [f"t{n}" for n in random.zipf(1.6, 4000).tolist()]
    pruned = sr.Vocabulary.build(drawn, prune=100, max_size=7)
    whole = sr.Vocabulary.build(drawn, max_size=7)
    assert set(pruned.tokens) == set(whole.tokens)
    assert all(0 <= whole.counts[t] - pruned.counts[t] <= len(drawn) / 100 for t in whole.tokens)


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("words", {"oov_buckets": 3, "max_size": 8, "reserved": ("<s>", "</s>")}),
        ("words", {"padding": None, "max_size": 5}),
        ("label", {"padding": None, "oov_buckets": 0}),
        ("tags", {"min_count": 8}),
        ("tags", {"oov_buckets": 2, "padding": -100, "max_size": 6}),
    ],
)
def test_keras_layers_give_the_same_ids(corpus, field, options):
    """`lookup` is Keras' own layer with the same ids, and `inverse` decodes as `decode` does."""
    vocabulary = sr.Vocabulary.build(corpus, field, **options)
    values = [getattr(record, field) for record in sr.read_records(corpus, "train")]
    values = values if field == "label" else list(itertools.chain.from_iterable(values))
    ids = vocabulary.encode(values)
    layer = vocabulary.lookup()
    assert type(layer).__module__.startswith("keras.")
    array = np.array(values, np.int64) if field == "tags" else tf.constant(values)
    assert np.array_equal(np.asarray(layer(array)), ids)
    inverse = vocabulary.inverse()(tf.constant(ids)).numpy().tolist()
    assert [text if field == "tags" else text.decode() for text in inverse] == vocabulary.decode(ids)
    assert len(vocabulary) == layer.vocabulary_size()


def test_the_layer_goes_into_a_saved_model(words, tmp_path):
    """A model that looks words up is saved with its vocabulary, and loaded without this library."""
    model = keras.Sequential([keras.Input((None,), dtype="string"), words.lookup()])
    model.save(tmp_path / "model.keras")
    sentences = tf.constant([["w1", "<s>", "never", ""]])
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert np.array_equal(np.asarray(loaded(sentences))[0], words.encode(["w1", "<s>", "never", ""]))


def test_ids_have_the_shape_of_the_tokens(words):
    """A token has an int, arrays and sequences have arrays, and nested ones lists of these."""
    token = words.tokens[0]
    one = words.encode(token)
    assert type(one) is int
    assert words.encode(np.array([["w1", "w2"]], object)).shape == (1, 2)
    assert words.encode(np.array([token])).tolist() == [one]
    assert [part.tolist() for part in words.encode([[token], []])] == [[one], []]
    assert words.decode([[one], [0]]) == [[token], [""]]
    assert words.decode(one) == token
    assert words.decode(np.array([[1]])) == [["[UNK]"]]


def test_pieces_make_tokens_of_texts():
    """Characters, or whatever a tokenizer of others cuts texts into."""
    letters = sr.Vocabulary.build(["abba", "ac"], pieces=list)
    assert letters.tokens == ("a", "b", "c")
    assert letters.encode("cab").tolist() == [4, 2, 3]
    assert [ids.tolist() for ids in letters.encode(["a", "bd"])] == [[2], [3, 1]]
    assert "".join(letters.decode(letters.encode("abc"))) == "abc"
    assert sr.Vocabulary.from_json(letters.to_json(), pieces=list).encode("b").tolist() == [3]
    with pytest.raises(OptionError, match="store the pieces"):
        letters.lookup()


def test_a_vocabulary_is_kept_with_the_dataset(tmp_path):
    """As an asset, which an append may add; or in a file of its own."""
    path = tmp_path / "corpus"
    sr.write([Sentence("a", ["x"], [1])], path)
    built = sr.Vocabulary.build(path, "words")
    sr.write([], path, append=True, schema=Sentence, assets={"words.json": built.to_json()})
    kept = sr.Vocabulary.load(sr.info(path).assets["words.json"])
    assert (kept, dict(kept.counts)) == (built, {"x": 1})
    built.save(tmp_path / "words.json")
    assert sr.Vocabulary.load(tmp_path / "words.json") == built
    with pytest.raises(DatasetNotFoundError, match="cannot be read"):
        sr.Vocabulary.load(tmp_path / "nothing.json")
    for text in ("", "[]", "{}", '{"seqrecorder_vocabulary": 2}', built.to_json().replace('"x"', "[1]")):
        with pytest.raises(ManifestError, match="vocabulary"):
            sr.Vocabulary.from_json(text)
    (tmp_path / "words.json").write_bytes(b"\xff")
    with pytest.raises(ManifestError, match="UTF-8"):
        sr.Vocabulary.load(tmp_path / "words.json")


def test_a_changed_file_is_no_vocabulary(tmp_path):
    """Each byte of a file is changed, and the file is cut anywhere: it is refused, by its name, each time."""
    path = tmp_path / "words.json"
    sr.Vocabulary.build([["to", "be", "or"]], reserved=["<s>"]).save(path)
    whole = path.read_bytes()
    changed = [
        whole[:i] + bytes([whole[i] ^ mask]) + whole[i + 1 :] for i in range(len(whole)) for mask in (1, 32, 128)
    ]
    for data in [*changed, *(whole[:i] for i in range(len(whole)))]:
        path.write_bytes(data)
        with pytest.raises(ManifestError, match=r"words\.json"):
            sr.Vocabulary.load(path)


def test_padding_that_occurs_is_refused():
    """A token of the data cannot be padding, but the empty text, which pads text anyway."""
    for data, padding in ((["a", "b", "a"], "a"), ([0, 1], 0), ([b"x"], b"x")):
        with pytest.raises(OptionError, match="not in the data, or None"):
            sr.Vocabulary.build(data, padding=padding)
    assert sr.Vocabulary.build(["", "b"]).encode(["", "b"]).tolist() == [0, 2]
    assert sr.Vocabulary.build(["a"], padding="<pad>").encode(["a", "<pad>"]).tolist() == [2, 0]


def test_bytes_have_vocabularies_too(corpus):
    """In numpy and in batches; Keras and JSON keep those that are text."""
    blobs = sr.Vocabulary.build(corpus, "blobs", padding=b"", oov_buckets=0)
    assert blobs.encode([b"\xff", b""]).tolist() == [1, 0]
    with pytest.raises(OptionError, match="not UTF-8"):
        blobs.to_json()
    with pytest.raises(OptionError, match="not UTF-8"):
        blobs.lookup()
    texts = sr.Vocabulary([b"a"])
    assert sr.Vocabulary.from_json(texts.to_json()) == texts
    assert np.asarray(texts.lookup()(tf.constant(["", "b", "a"]))).tolist() == [0, 1, 2]


def test_what_makes_no_sense_is_refused(corpus, words):
    """Options, tokens and ids that cannot be meant are errors that say what is expected."""
    with pytest.raises(OptionError, match="oov_buckets: expected"):
        sr.Vocabulary(["a"], oov_buckets=-1)
    with pytest.raises(OptionError, match="all of one type"):
        sr.Vocabulary(["a", 1])
    with pytest.raises(OptionError, match=r"none is left; check the source, min_count"):
        sr.Vocabulary([])
    with pytest.raises(OptionError, match="'a' twice"):
        sr.Vocabulary(["a"], reserved=["a"])
    with pytest.raises(OptionError, match="got the text"):
        sr.Vocabulary("abc")
    with pytest.raises(OptionError, match="min_count"):
        sr.Vocabulary.build(["a"], min_count=0)
    with pytest.raises(OptionError, match="more than the 2 ids"):
        sr.Vocabulary.build(["a"], max_size=2)
    with pytest.raises(OptionError, match="all of one type"):
        sr.Vocabulary.build(["a", 1])
    with pytest.raises(OptionError, match="takes a field"):
        sr.Vocabulary.build("corpus")
    with pytest.raises(OptionError, match="goes with a dataset"):
        sr.Vocabulary.build(["a"], split="train")
    with pytest.raises(OptionError, match="whole numbers, got field 'price' of float32"):
        sr.Vocabulary.build(corpus, "price")
    with pytest.raises(SchemaError, match="no field"):
        sr.Vocabulary.build(corpus, "word")
    with pytest.raises(OptionError, match="oov_buckets=1"):
        sr.Vocabulary(["a"], padding=None, oov_buckets=0).encode(["a", "b"])
    with pytest.raises(OptionError, match="ids: expected"):
        words.decode([len(words)])


def test_it_is_short_in_a_line_and_a_table_in_notebooks(words):
    """As every result that users hold."""
    assert repr(words).startswith("<Vocabulary of 10 ids: 6 tokens (")
    assert words._repr_html_().count("<tr>") == 8
    assert len({words, sr.Vocabulary.from_json(words.to_json())}) == 1


def test_tokens_of_another_type_are_decoded_or_refused():
    """Bytes, as batches hold texts, have the ids of the texts; what is no token at all is named with its position."""
    words = sr.Vocabulary(["to", "be"])
    batch = np.array([[b"to", b"be"], [b"", b"or"]], object)
    assert words.encode(batch).tolist() == [[2, 3], [0, 1]]
    assert words.encode(b"be") == 3
    assert words.encode([["to"], [b"be", b"\xff"]])[1].tolist() == [3, 1]
    assert sr.Vocabulary([5, 7]).encode(np.int64(9)) == sr.Vocabulary([5, 7]).encode(9)
    for value in (5, None, 1.5):
        with pytest.raises(sr.OptionError, match=rf"expected str, got {value} at position 1"):
            words.encode(["to", value])
    with pytest.raises(sr.OptionError, match="expected int, got 'to' at position 0"):
        sr.Vocabulary([5, 7]).encode("to")
    coverage = words.coverage([b"to", b"be", b"or", b"\xff"])
    assert (coverage.tokens, coverage.known) == (4, 2)
    assert sr.Vocabulary([], reserved=["<s>"]).encode(["<s>", b"<s>", "to"]).tolist() == [2, 2, 1]


def test_errors_of_the_function_for_pieces(corpus):
    """An error of the user's function names the value, in every call that splits values."""
    letters = sr.Vocabulary(["a"], pieces=lambda text: text / 2)
    for call in (
        lambda: letters.encode("ab"),
        lambda: letters.coverage(["ab"]),
        lambda: sr.Vocabulary.build(["ab"], pieces=letters.pieces),
        lambda: sr.Vocabulary.build(corpus, "words", pieces=letters.pieces),
    ):
        with pytest.raises(OptionError, match=r"pieces: TypeError: unsupported operand .*, for '\w+'"):
            call()
