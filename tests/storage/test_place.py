import datetime as dt

import fsspec
import pytest

import seqrecorder as sr
from seqrecorder.storage.files import is_url, on_fault_point
from seqrecorder.storage.object_store import Place


@pytest.fixture
def place(request):
    return Place.of(f"memory://places/{request.node.name}")


@pytest.mark.parametrize("text", ["s3://b/x", "memory://x", "gs://b/x/y", "a+b.c-1://x"])
def test_urls_are_known_by_their_scheme(text):
    """A scheme, a colon and two slashes make a URL."""
    assert is_url(text)


@pytest.mark.parametrize("path", ["/data/x", "x", "s3:", "s3:/b/x", "://x", "s3://", "file:///data/x", 3, None])
def test_other_paths_are_no_urls(path):
    """Whatever is no URL goes the way of paths, which says what is wrong with it."""
    assert not is_url(path)


def test_names_of_a_manifest_and_slashes_make_no_difference():
    """The URL of a manifest, or one with a slash at its end, is that of the dataset."""
    assert {Place.of(f"memory://b/x{end}").url for end in ("", "/", "//", "/manifest.json")} == {"memory://b/x"}


@pytest.mark.parametrize("url", ["nothing-of-that-name://b/x", "memory:///", "memory:////"])
def test_urls_that_lead_nowhere_are_refused(url):
    """An unknown scheme, and the root of everything, are errors that name the URL."""
    with pytest.raises(sr.OptionError, match=url):
        Place.of(url)


def test_objects_are_written_listed_read_and_removed(place, tmp_path):
    """What was uploaded is listed with its size and time, comes back, and goes."""
    (tmp_path / "a").write_bytes(b"abc")
    place.upload(tmp_path / "a", "train/a")
    place.upload(tmp_path / "a", "b")
    items = place.items()
    assert {name: item.bytes for name, item in items.items()} == {"train/a": 3, "b": 3}
    assert abs(items["b"].modified - dt.datetime.now(dt.timezone.utc)) < dt.timedelta(minutes=1)
    place.download("train/a", tmp_path / "c")
    assert (tmp_path / "c").read_bytes() == place.read("b") == b"abc"
    assert (place.size("b"), place.size("train"), place.size("c")) == (3, None, None)
    place.remove(["b", "train/a", "no such object"])
    assert place.items() == {}
    assert place.read("b") is None


def test_a_put_is_conditional(place):
    """An object is created where there is none, and replaced where it is what it was."""
    assert place.put("m", b"1", expected=None)
    first = place.version("m")
    assert not place.put("m", b"2", expected=None)
    assert place.put("m", b"2", expected=first)
    assert not place.put("m", b"3", expected=first)
    assert place.read("m") == b"2"
    place.remove(["m"])
    assert not place.put("m", b"4", expected=first)


def test_a_lost_answer_is_recognised(place):
    """A put that was done, and whose answer was lost, was done; one that was not done raises."""

    def fail(when):
        def hook(name, _):
            if name == when:
                raise TimeoutError("no answer")

        return on_fault_point(hook)

    with fail("after_put"):
        assert place.put("m", b"1", expected=None)
    with fail("before_put"), pytest.raises(sr.ShardWriteError, match="memory://.*/n: no answer"):
        place.put("n", b"1", expected=None)
    assert place.read("n") is None


def test_a_refused_put_tells_that_somebody_was_faster(place, monkeypatch):
    """Where the store itself refuses, since another has come meanwhile, nothing is written, and no error is raised."""
    monkeypatch.setattr(type(place.files), "protocol", ("s3", "s3a"))

    def pipe_file(path, data, **condition):
        assert (data, condition) == (b"ours", {"IfNoneMatch": "*"})
        place.files.store[path] = fsspec.implementations.memory.MemoryFile(place.files, path, b"theirs")
        raise OSError(22, "PreconditionFailed")

    monkeypatch.setattr(place.files, "pipe_file", pipe_file)
    assert not place.put("m", b"ours", expected=None)
    assert place.read("m") == b"theirs"


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda place, path: place.download("no", path), "cannot read memory://.*/no: there is no such object"),
        (lambda place, path: place.upload(path / "no", "x"), "cannot write memory://.*/x"),
    ],
)
def test_errors_name_the_object(place, tmp_path, ask, message):
    """Whatever the file system raises is one of our errors, with the URL of the object."""
    with pytest.raises(sr.DatasetError, match=message):
        ask(place, tmp_path / "x")
