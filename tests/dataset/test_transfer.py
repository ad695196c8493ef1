import datetime as dt
import itertools
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from faults import names
from written_records import Item, items

import seqrecorder as sr
from seqrecorder.dataset import push_pull_clean as transfer
from seqrecorder.storage.files import on_fault_point
from seqrecorder.storage.object_store import Place


@pytest.fixture
def url(request):
    return f"memory://transfers/{request.node.name}/corpus"


@pytest.fixture
def corpus(tmp_path):
    return sr.write(
        items(40),
        tmp_path / "corpus",
        splits={"train": 0.7, "eval": 0.3},
        shards=2,
        assets={"labels.txt": "a\nb\n"},
        metadata={"version": 3},
    )


def requests(action):
    """Return the requests of an action to a place: what was asked, and of which object."""
    seen = []
    with on_fault_point(lambda name, path: seen.append((name, path.rpartition("/")[2])) if "://" in path else None):
        action()
    return [(name.removeprefix("before_"), path) for name, path in seen if name.startswith("before_")]


def sent(action):
    return [path for name, path in requests(action) if name == "put"]


def test_a_dataset_comes_back_as_it_was(corpus, url, tmp_path):
    """Sent and brought back, a dataset has the same manifest and the same bytes."""
    there = sr.push(corpus.path, url)
    assert (there.url, there.records, there.metadata) == (url, 40, {"version": 3})
    back = sr.pull(url, tmp_path / "back")
    assert back.to_json() == corpus.to_json()
    assert back.url is None
    for file in (path for path in corpus.path.rglob("*") if path.is_file()):
        assert (tmp_path / "back" / file.relative_to(corpus.path)).read_bytes() == file.read_bytes()
    assert names(tmp_path) == ["back", "corpus"]
    assert sr.verify(back.path).ok


def test_names_at_a_url_are_unique(corpus, url):
    """Shards, lengths and assets carry the digest of their contents; of a second push they are the same."""
    sr.push(corpus.path, url)
    unique = re.compile(r"(train|eval)/.*-[0-9a-f]{16}\.(tfrecord|lengths)|assets/g\d+/labels.txt|manifest.json")
    assert all(map(unique.fullmatch, Place.of(url).items()))
    again = transfer.use_unique_names(sr.info(url))
    assert again.to_json() == sr.info(url).to_json()


def test_all_readers_take_a_url(corpus, url):
    """info, open, read_records, read, plan, stats and verify give what they give of the directory."""
    sr.push(corpus.path, url)
    assert sr.info(url).schema == corpus.schema
    for split in ("train", "eval"):
        records = list(sr.read_records(url, split, schema=Item))
        assert records == list(sr.read_records(corpus.path, split, schema=Item))
    key = records[3].key
    assert sr.open(url, schema=Item)["eval"][key] == records[3]
    near, far = (sr.plan(place, "train", sr.Pad(4)) for place in (corpus.path, url))
    assert repr(near).partition(":")[2] == repr(far).partition(":")[2]
    assert sr.stats(url)["ids"].mean == sr.stats(corpus.path)["ids"].mean
    assert sr.verify(url).ok
    assert sr.verify(url, level="quick").ok
    assert sr.info(url).assets["labels.txt"].read_text() == "a\nb\n"
    some = [list(sr.read(sr.open(place)["train"][[9, 2, 3]]).as_numpy_iterator()) for place in (url, corpus.path)]
    assert [[record["key"] for record in records] for records in some[:1]] == [[r["key"] for r in some[1]]]
    batches = [batch["ids"].numpy().tolist() for batch in sr.read(url, "train", batch=sr.Pad(8))]
    assert batches == [batch["ids"].numpy().tolist() for batch in sr.read(corpus.path, "train", batch=sr.Pad(8))]


def test_a_reader_fetches_its_share_once(corpus, url):
    """What two readers fetch are the files of their own shares; a second epoch, and a second reader, ask for none."""
    sr.push(corpus.path, url)
    first = requests(lambda: list(sr.read_records(url, "train", shard=(0, 2))))
    assert [path[:15] for _, path in first if path.endswith(".tfrecord")] == ["train-00000-of-"]
    assert not [path for _, path in first if path.startswith("eval")]
    assert requests(lambda: list(sr.read_records(url, "train", shard=(0, 2)))) == [("get", "manifest.json")]
    lengths = requests(lambda: sr.plan(url, "eval", sr.Pad(4)))
    assert {path.rpartition(".")[2] for _, path in lengths} == {"json", "lengths"}


def test_errors_of_readers_name_the_url(corpus, url, tmp_path):
    """What is missing or damaged at a URL is said of the URL."""
    with pytest.raises(sr.DatasetNotFoundError, match=f"no dataset at {url}"):
        sr.read_records(url, "train")
    sr.push(corpus.path, url)
    place = Place.of(url)
    lost, damaged, _ = sorted(name for name in place.items() if name.endswith(".tfrecord"))[:3]
    place.remove([lost])
    place.files.pipe_file(place.at(damaged), b"x" * place.size(damaged))
    with pytest.raises(sr.ShardReadError, match=f"{url}/eval/"):
        sr.read_records(url, "eval")
    problems = {problem.path: problem.message for problem in sr.verify(url).problems}
    assert set(problems) == {lost, damaged}
    assert problems[lost].startswith(f"cannot read {url}/{lost}")
    assert {problem.path for problem in sr.verify(url, level="quick").problems} == {lost}
    with pytest.raises(sr.OptionError, match="is a URL; copy its files by fsspec's get"):
        sr.salvage(url, tmp_path / "saved")
    place.files.get(place.at(""), str(tmp_path / "copy"), recursive=True)
    assert sr.salvage(tmp_path / "copy", tmp_path / "saved").records > 0
    place.files.pipe_file(place.at("manifest.json"), b"{}")
    assert sr.verify(url).problems[0].path == "manifest.json"
    with pytest.raises(sr.ManifestError):
        sr.info(url)


def test_selections_of_urls_pickle(corpus, url):
    """A selection travels as its URL, and says so where the dataset was changed meanwhile."""
    sr.push(corpus.path, url)
    some = pickle.dumps(sr.open(url)["train"][2:5])
    again = pickle.loads(some)  # noqa: S301 - our own
    assert [record.key for record in again] == [record.key for record in sr.open(corpus.path)["train"][2:5]]
    sr.write(items(1, 100), url, append=True)
    with pytest.raises(sr.DatasetError, match="appended to"):
        pickle.loads(some)  # noqa: S301 - our own


def test_a_push_goes_on_where_it_stood(corpus, url):
    """After a failure what was sent is not sent again; without one, nothing is."""
    seen = []

    def fail(name, path):
        seen.append(path)
        if name == "before_put" and len({one for one in seen if one.endswith("s")}) > 2:
            raise OSError("gone")

    with on_fault_point(fail), pytest.raises(sr.ShardWriteError, match="gone"):
        sr.push(corpus.path, url)
    there = set(Place.of(url).items())
    assert 0 < len(there) < 9
    assert "manifest.json" not in there
    rest = sent(lambda: sr.push(corpus.path, url))
    assert len(rest) + len(there) == 10  # 4 shards, 4 files of lengths, an asset and the manifest
    assert sent(lambda: sr.push(corpus.path, url)) == []


def test_what_may_be_cleaned_soon_is_sent_again(corpus, url, monkeypatch):
    """A transfer takes up nothing that is so old that it might be removed meanwhile, nor what is only listed."""
    sr.push(corpus.path, url)
    place = Place.of(url)
    listed = place.items()
    old = {name: type(item)(item.bytes, item.modified - dt.timedelta(hours=13)) for name, item in listed.items()}
    place.remove(["manifest.json"])
    with monkeypatch.context() as patch:
        patch.setattr(Place, "items", lambda _: old)
        assert len(sent(lambda: sr.push(corpus.path, url))) == 10
    place.remove(listed)
    with monkeypatch.context() as patch:
        patch.setattr(Place, "items", lambda _: listed)  # a list that is late
        sr.push(corpus.path, url)
    assert sr.verify(url).ok


def test_only_new_shards_are_sent_after_an_append(corpus, url):
    """A dataset that was appended to is brought up to date by its new shards alone."""
    sr.push(corpus.path, url)
    sr.write(items(5, 100), corpus.path, append=True, shards=1)
    with pytest.raises(sr.DatasetExistsError, match="overwrite=True"):
        sr.push(corpus.path, url)
    new = sent(lambda: sr.push(corpus.path, url, overwrite=True))
    assert all(name.startswith(("train-g0001", "eval-g0001", "manifest")) for name in new)
    assert sr.info(url).records == 45


def test_damage_is_not_sent(corpus, url):
    """A shard that is not what the manifest says is named, and nothing is published."""
    shard = corpus.shard_path("train", corpus.splits["train"].shards[1])
    data = bytearray(shard.read_bytes())
    data[20] ^= 1
    shard.write_bytes(data)
    with pytest.raises(sr.ShardReadError, match=f"{re.escape(str(shard))}: its SHA-256"):
        sr.push(corpus.path, url)
    assert Place.of(url).read("manifest.json") is None


def test_a_pull_goes_on_where_it_stood(corpus, url, tmp_path):
    """What was brought before a failure is not brought again; nothing is published before all is there."""
    sr.push(corpus.path, url)
    chosen = next(name for name in Place.of(url).items() if name.endswith("tfrecord"))

    def fail(name, path):
        if name == "before_get" and path.endswith(chosen):
            raise OSError("gone")

    with on_fault_point(fail), pytest.raises(sr.ShardReadError, match="gone"):
        sr.pull(url, tmp_path / "back")
    assert not (tmp_path / "back").exists()
    rest = [path for name, path in requests(lambda: sr.pull(url, tmp_path / "back")) if path.endswith(("s", "d"))]
    assert 0 < len(rest) <= 4
    assert names(tmp_path) == ["back", "corpus"]
    assert set(requests(lambda: sr.pull(url, tmp_path / "back"))) == {("get", "manifest.json")}


def test_a_pull_replaces_when_asked(corpus, url, tmp_path):
    """A destination with something else is refused, or replaced with `overwrite`; a file of it stays."""
    sr.push(corpus.path, url)
    sr.write(items(3), tmp_path / "old")
    with pytest.raises(sr.DatasetExistsError):
        sr.pull(url, tmp_path / "old")
    assert sr.pull(url, tmp_path / "old", overwrite=True).records == 40
    assert sr.verify(tmp_path / "old").ok
    sr.write(items(5, 100), tmp_path / "old", append=True)  # it is a dataset like any other
    assert sr.info(tmp_path / "old").records == 45


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda corpus: sr.push(corpus, "/data/x"), "expected a URL"),
        (lambda corpus: sr.pull(str(corpus), "/data/x"), "expected a URL"),
        (lambda corpus: sr.pull("memory://nothing/here", corpus), "no dataset at memory://nothing/here"),
        (lambda corpus: sr.clean(str(corpus)), "expected a URL"),
        (lambda corpus: sr.clean("memory://x/y", older_than=-1), "older_than"),
        (lambda corpus: sr.write(items(1), "memory://x/y", csv=True), "csv=True"),
        (lambda corpus: sr.write(items(1), "memory://x/y", stats=True), "stats=True"),
        (lambda corpus: sr.write(items(1), "memory://x/nothing", append=True), "no dataset at memory://x/nothing"),
        (lambda corpus: sr.salvage("memory://x/y", corpus), "copy its files by fsspec"),
    ],
)
def test_calls_that_make_no_sense(corpus, call, message):
    """Paths for URLs, options that a URL has not, and places without a dataset are errors that say so."""
    with pytest.raises(sr.SeqrecorderError, match=message):
        call(corpus.path)


# Written there ----------------------------------------------------------------------------------------------------


def test_writing_to_a_url_is_writing(url, tmp_path):
    """What is written to a URL, appended to and overwritten is what a directory would have."""
    options = {"splits": {"train": 0.7, "eval": 0.3}, "shards": 2, "seed": 3}
    for place in (url, tmp_path / "near"):
        sr.write(items(30), place, **options)
        sr.write(items(10, 100), place, append=True)
        with pytest.raises(sr.DuplicateKeyError, match=re.escape(str(place))):
            sr.write(items(1), place, append=True)
    for split in ("train", "eval"):
        near, far = (list(sr.read_records(place, split, schema=Item)) for place in (tmp_path / "near", url))
        assert near == far
    assert sr.info(url).generation == 1
    with pytest.raises(sr.DatasetExistsError, match=url):
        sr.write(items(1), url)
    assert sr.write(items(3), url, overwrite=True).records == 3
    assert sr.rewrite(url, drop=sr.open(url).all().where(key="k1")).records == 2
    assert sr.merge([url, tmp_path / "near"], f"{url}2", on_duplicate="first").records == 40
    assert sr.verify(f"{url}2").ok


def test_a_copy_in_the_cache_is_not_written_to(corpus, url):
    """The directory of a dataset in the cache is nobody's destination."""
    there = sr.push(corpus.path, url)
    with pytest.raises(sr.OptionError, match=f"is in the cache of {url}; write to {url}"):
        sr.write(items(1, 100), there.path, append=True)


def test_a_failed_source_leaves_nothing(url):
    """Where the records fail, nothing is sent."""

    def records():
        yield from items(3)
        raise RuntimeError("no more")

    with pytest.raises(sr.SourceError, match="no more"):
        sr.write(records(), url)
    assert Place.of(url).items() == {}


def test_of_two_writers_one_wins(corpus, url):
    """Whoever publishes second has an error, and what the first has written stands."""
    sr.push(corpus.path, url)
    writers = [sr.Writer(url, Item, append=True) for _ in range(2)]
    for writer, key in zip(writers, "ab", strict=True):
        writer.__enter__().write(Item(key))
    writers[0].__exit__(None, None, None)
    with pytest.raises(sr.ChangedError, match="was changed while this was written"):
        writers[1].__exit__(None, None, None)
    assert sr.info(url).records == 41
    assert "a" in sr.open(url).all()


def test_clean_removes_what_belongs_to_nothing(corpus, url):
    """Files of what was replaced, and of killed writers, go when they are old; those of others never."""
    sr.push(corpus.path, url)
    sr.write(items(3), url, overwrite=True)
    place = Place.of(url)
    place.files.pipe_file(place.at("train/notes.txt"), b"mine")
    place.files.pipe_file(place.at("train/old-0123456789abcdef.tfrecord"), b"mine")
    assert sr.clean(url) == {}
    listed = sr.clean(url, older_than=0, dry_run=True)
    assert len(listed) == 9
    assert sr.clean(url, older_than=0) == listed
    assert not set(place.items()) & set(listed)
    assert sr.clean(url, older_than=0) == {}
    assert {"train/notes.txt", "train/old-0123456789abcdef.tfrecord"} < set(place.items())
    assert sr.verify(url).ok
    place.files.pipe_file(place.at("manifest.json"), b"{}")
    with pytest.raises(sr.ManifestError):
        sr.clean(url, older_than=0)


def test_empty_shards_and_many_of_them(url):
    """Empty shards of one content, and records without steps, are sent and read like others."""
    sr.write({"train": items(2), "eval": []}, url, schema=Item, shards=4)
    assert len(list(sr.read_records(url, "train"))) == 2
    assert list(sr.read_records(url, "eval")) == []
    assert np.array_equal(sr.open(url)["train"].lengths(), [0, 1])


def test_selections_fetch_the_shards_that_they_need(url):
    """One record takes its own shard; records in order take the next shards, too, before they are reached."""
    sr.write(items(60), url, shards=20)

    def shards(action):
        return len([path for name, path in requests(action) if path.endswith(".tfrecord")])

    train = sr.open(url)["train"]
    assert shards(lambda: train[7]) == 1
    assert shards(lambda: train[7]) == 0
    assert shards(lambda: [train[0], train[1]]) == 8  # the second brings seven more, but for the one that is there
    assert shards(lambda: list(train)) == 11


def truncate(data):
    return data[:100]


def lead_out(data):
    return b"\xff" * 12 + data[12:]  # the length of the first record


def change_byte(data):
    return data[:30] + bytes([data[30] ^ 1]) + data[31:]


def damage_copies(url, change, ending=".tfrecord"):
    """Change the copy of the first shard of a dataset in the cache."""
    path = next(path for path in sorted(sr.info(url).path.rglob(f"*{ending}")))
    path.write_bytes(change(path.read_bytes()))
    return path


@pytest.mark.parametrize("compression", [None, "GZIP"])
@pytest.mark.parametrize(
    "count",
    [
        lambda url, options: len(list(sr.read_records(url, on_corrupt="skip"))),
        lambda url, options: len(list(sr.read_records(url, check="full"))),
        lambda url, options: len(list(sr.open(url).all()[::2])) * 2,
        lambda url, options: len(list(sr.open(url).all()[:30])) + 10,
        lambda url, options: sr.write(items(2, 100), url, append=True, compression=options["compression"]).records - 2,
        lambda url, options: sr.compact(url).records,
        lambda url, options: sr.merge([url], f"{url}2", **options).records,
    ],
    ids=["skip", "full", "every second", "the first", "append", "compact", "merge"],
)
def test_damaged_copies_in_the_cache_are_fetched_again(url, count, compression):
    """A file of the cache that does not have its digest is replaced, and no record is lost that the store has."""
    options = {"shards": 2, "compression": compression}
    sr.write(items(40), url, **options)
    assert len(list(sr.read_records(url))) == 40
    damage_copies(url, change_byte)
    assert count(url, options) == 40


def change_object(url, change, ending=".tfrecord"):
    """Change the first object of a dataset that has this ending."""
    place = Place.of(url)
    name = next(name for name in sorted(place.items()) if name.endswith(ending))
    place.files.pipe_file(place.at(name), change(place.files.cat_file(place.at(name))))


@pytest.mark.parametrize(
    ("change", "ending", "left"),
    [(change_byte, ".tfrecord", 39), (truncate, ".tfrecord", 21), (change_byte, ".lengths", 40)],
)
def test_reading_around_damage_at_a_url(url, change, ending, left):
    """What is damaged in the store is left out with `on_corrupt="skip"`; without it, nothing is read."""
    sr.write(items(40), url, shards=2)
    change_object(url, change, ending)
    for _ in range(2):
        with pytest.raises(sr.ShardReadError, match="verify .* lists all that is wrong, and on_corrupt='skip' reads"):
            sr.read(url)
        assert len(list(sr.read_records(url, on_corrupt="skip"))) == left
        assert sum(1 for _ in sr.read(url, on_corrupt="skip")) == left


def test_downloads_are_not_mistaken_for_damage(url, monkeypatch):
    """An object of another dataset, one that is gone, and one that comes differently each time are errors."""
    sr.write(items(40), url, shards=2)
    place = Place.of(url)
    first, second = (place.at(name) for name in sorted(place.items()) if name.endswith(".tfrecord"))
    intact = place.files.cat_file(first)
    place.files.pipe_file(first, place.files.cat_file(second))
    with pytest.raises(sr.ShardReadError, match="2 times"):
        sr.read_records(url, on_corrupt="skip")
    place.files.rm_file(first)
    with pytest.raises(sr.ShardReadError, match="cannot read"):
        sr.read_records(url, on_corrupt="skip")
    place.files.pipe_file(first, intact)
    sizes = itertools.count(20)
    with monkeypatch.context() as patch:
        patch.setattr(type(place.files), "get_file", lambda *paths: Path(paths[2]).write_bytes(intact[: next(sizes)]))
        with pytest.raises(sr.ShardReadError, match="2 times"):
            sr.read_records(url, on_corrupt="skip")
    assert len(list(sr.read_records(url, on_corrupt="skip"))) == 40


def test_copies_of_another_size_or_with_wrong_frames_are_fetched_again(url):
    """A plain read compares sizes, follows the frames and compares the lengths, and fetches again what is wrong."""
    sr.write(items(40), url, shards=2)
    assert len(list(sr.read_records(url))) == 40
    for change, ending in [(truncate, ".tfrecord"), (lead_out, ".tfrecord"), (change_byte, ".lengths")]:
        for count in (lambda: len(list(sr.read_records(url))), lambda: sum(1 for _ in sr.read(url))):
            damage_copies(url, change, ending)
            assert count() == 40
    damage_copies(url, lead_out)
    assert sr.open(url).all()["k0"].key == "k0"
    damage_copies(url, change_byte, ".lengths")
    assert len(sr.open(url)["train"].lengths()) == 40


def test_an_error_about_a_copy_in_the_cache_says_what_to_do(url):
    """Damage that shows when the record is read names the file, which is fetched again once it is removed."""
    sr.write(items(40), url, shards=2)
    sr.read(url)
    path = damage_copies(url, change_byte)
    advice = f"is a copy in the cache: remove it, and it is fetched from {url} again"
    with pytest.raises(sr.ShardReadError, match=re.escape(str(path))) as error:
        list(sr.read_records(url))
    assert advice in str(error.value)
    with pytest.raises(tf.errors.InvalidArgumentError, match=advice):
        list(sr.read(url))
    path.unlink()
    assert len(list(sr.read_records(url))) == 40


def change_manifest(read, write, change):
    """Change the first shard that a manifest names."""
    about = json.loads(read())
    change(next(split for split in about["splits"].values() if split["shards"])["shards"][0])
    write(json.dumps(about).encode())


CHANGES = {
    "bytes": lambda shard: shard.update(bytes=shard["bytes"] + 1),
    "records": lambda shard: shard.update(records=shard["records"] + 1),
    "steps": lambda shard: shard.update(steps=shard["steps"] + 1),
    "histogram": lambda shard: shard["histogram"][0].__setitem__(1, shard["histogram"][0][1] + 1),
    "lengths": lambda shard: shard.update(lengths_sha256="0" * 64),
    "digest": lambda shard: shard.update(sha256="0" * 64),
}


@pytest.mark.parametrize("change", CHANGES)
def test_manifests_that_do_not_fit_are_not_published(corpus, url, change, tmp_path):
    """What a manifest says of its files is checked before it is brought or sent; nothing is there after that."""
    sr.push(corpus.path, url)
    place = Place.of(url)
    path = f"{place.root}/manifest.json"
    change_manifest(lambda: place.files.cat_file(path), lambda data: place.files.pipe_file(path, data), CHANGES[change])
    with pytest.raises(sr.DatasetError):
        sr.pull(url, tmp_path / "back")
    assert names(tmp_path) == ["corpus"]
    file = corpus.path / "manifest.json"
    change_manifest(file.read_bytes, file.write_bytes, CHANGES[change])
    with pytest.raises(sr.DatasetError):
        sr.push(corpus.path, f"{url}2")
    with pytest.raises(sr.DatasetNotFoundError):
        sr.info(f"{url}2")


@pytest.mark.parametrize("change", [name for name in CHANGES if name != "digest"])
@pytest.mark.parametrize("where", ["directory", "URL"])
def test_parts_that_do_not_fit_are_not_committed(url, where, change, tmp_path):
    """So it is with the manifests of parts."""
    destination = url if where == "URL" else tmp_path / "whole"
    sr.write_part(items(5), destination, 0)
    if where == "URL":
        place = Place.of(url)
        path = place.at(next(name for name in place.items() if name.startswith(".parts/")))
        change_manifest(
            lambda: place.files.cat_file(path), lambda data: place.files.pipe_file(path, data), CHANGES[change]
        )
    else:
        [file] = (tmp_path / "whole.parts").rglob("manifest.json")
        change_manifest(file.read_bytes, file.write_bytes, CHANGES[change])
    with pytest.raises(sr.DatasetError):
        sr.commit(destination)
    with pytest.raises(sr.DatasetNotFoundError):
        sr.info(destination)


def test_a_store_out_of_reach_is_not_damaged(corpus, url):
    """If no request is answered, `verify` raises; its report is about what the files hold."""
    sr.push(corpus.path, url)

    def fail(_, path):
        if path.startswith(url):
            raise ConnectionError("no route to host")

    with on_fault_point(fail), pytest.raises(sr.DatasetError, match="no route to host"):
        sr.verify(url)


def test_other_fields_are_told_with_the_url(corpus, url):
    """A class that does not fit is an error about the dataset at the URL, not about its copy in the cache."""
    sr.push(corpus.path, url)

    @sr.record
    class Other:
        key: int = sr.context("int64")

    for wrong in (
        lambda: sr.open(url, schema=Other)["train"][0],
        lambda: next(sr.read_records(url, "train", schema=Other)),
        lambda: sr.write([Other(3)], url, append=True),
    ):
        with pytest.raises(sr.SchemaMismatchError, match=rf"^(append=True: )?{url}") as caught:
            wrong()
        assert "key" in str(caught.value)
