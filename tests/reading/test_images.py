"""Images that come encoded, have sizes of their own, or are resized: as TensorFlow alone would read them."""

import attrs
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import seqrecorder as sr
from seqrecorder.schema.exact_values import same_bits
from seqrecorder.sources.foreign.convert import convert
from seqrecorder.testing import assert_round_trip


def image(random, height, width, channels=3, dtype="uint8"):
    return random.integers(0, np.iinfo(dtype).max + 1, (height, width, channels)).astype(dtype)


def jpeg(pixels):
    return tf.io.encode_jpeg(pixels).numpy()


def png(pixels):
    return tf.io.encode_png(pixels).numpy()


@sr.record(kw_only=True)
class Clip:
    key: str = sr.context(str, key=True)
    poster: np.ndarray | None = sr.context("uint8", shape=(None, None, 1), storage="png", optional=True, default=None)
    frames: list = sr.feature_list("uint8", shape=(None, None, 3), storage="jpeg")
    depth: list = sr.feature_list("uint16", shape=(None, 4, 1), storage="png")
    still: np.ndarray = sr.feature_list("uint8", shape=(3, 4, 4), storage="png")
    label: np.ndarray = sr.feature_list("int32")


STEPS = (3, 0, 5, 2, 4)


@pytest.fixture(scope="module")
def clips():
    """Records whose frames are JPEG files already, and whose other images are pixels."""
    random = np.random.default_rng(0)
    return [
        Clip(
            key=f"clip {n}",
            poster=image(random, n + 2, 3, 1) if n % 2 else None,
            frames=[jpeg(image(random, 3 + n, 4 + step)) for step in range(steps)],
            depth=[image(random, 2 + step, 4, 1, "uint16") for step in range(steps)],
            still=[image(random, 3, 4, 4) for _ in range(steps)],
            label=np.arange(steps) + 10 * n,
        )
        for n, steps in enumerate(STEPS)
    ]


@pytest.fixture(scope="module")
def corpus(clips, tmp_path_factory):
    path = tmp_path_factory.mktemp("images") / "clips"
    sr.write(clips, path)
    return path


def decoded(clip):
    """Return the images of a record as TensorFlow reads them, by field, a list a step."""
    frames = [tf.io.decode_image(data).numpy() for data in clip.frames]
    return {"frames": frames, "depth": list(clip.depth), "still": list(clip.still)}


def padded(images, shape, dtype):
    """Return images in the corners of zeros, and their sizes."""
    out, sizes = np.zeros(shape, dtype), np.zeros((*shape[:-3], 2), np.int64)
    for place, one in images.items():
        out[(*place, *map(slice, one.shape))] = one
        sizes[place] = one.shape[:2]
    return out, sizes


def check_batch(batch, clips, steps_of):
    """Assert that the images of a batch are those of its records, padded to the largest, with their sizes.

    `steps_of` gives the steps of row r that the batch holds.
    """
    keys = [key.decode() for key in batch["key"].numpy().tolist()]
    rows = [next((clip for clip in clips if clip.key == key), None) for key in keys]
    for name in ("frames", "depth", "still"):
        found = {
            (row, at): decoded(clip)[name][step]
            for row, clip in enumerate(rows)
            if clip is not None
            for at, step in enumerate(steps_of(row, clip))
        }
        value = batch[name].numpy()
        want, sizes = padded(found, value.shape, value.dtype)
        np.testing.assert_array_equal(value, want)
        largest = [max([1, *(one.shape[axis] for one in found.values())]) for axis in (0, 1)]
        declared = sr.Schema.of(Clip)[name].shape
        assert value.shape[-3:] == tuple(d or n for d, n in zip(declared, [*largest, None], strict=True))
        assert (f"{name}_size" in batch) == (None in declared)
        if None in declared:
            np.testing.assert_array_equal(batch[f"{name}_size"], sizes)


def kept(batch):
    """Return the steps of each row that a batch says it holds."""
    start = {name: batch[name].numpy() for name in ("crop_start", "window_index", "segment_index") if name in batch}
    lengths = batch["sequence_length"].numpy()

    def steps(row, _):
        first = sum(value[row] * (1 if name == "crop_start" else 2) for name, value in start.items())
        return range(first, first + lengths[row])

    return steps


STRATEGIES = [
    sr.Pad(2),
    sr.Bucket(2, boundaries=[3]),
    sr.TokenBudget(8),
    sr.Crop(2, batch_size=3),
    sr.Window(2, batch_size=4),
    sr.Unroll(2, 2),
]


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(batch, id=name, marks=pytest.mark.nightly if name not in ("Pad", "Window") else ())
        for batch, name in ((batch, type(batch).__name__) for batch in STRATEGIES)
    ],
)
def test_images_are_padded_to_the_largest_of_a_batch(batch, clips, corpus):
    """Every strategy that pads gives the pixels that TensorFlow decodes, zeros beside them, and the sizes."""
    count = 0
    for element in sr.read(corpus, batch=batch, seed=0, shuffle=5):
        check_batch(element, clips, kept(element))
        count += 1
    assert count > 1


def test_ragged_and_packed_batches_hold_the_same(clips, corpus):
    """`Ragged` gives the steps of each record without padding steps, `Pack` records behind one another in a row."""
    fields = ["frames", "label"]
    [ragged] = sr.read(corpus, batch=sr.Ragged(5), fields=fields)
    [flat] = sr.read(corpus, batch=sr.Ragged(5, flat=True), fields=fields)
    [packed] = sr.read(corpus, batch=sr.Pack(14, 1), fields=fields)
    frames = [frame for clip in clips for frame in decoded(clip)["frames"]]
    want, sizes = padded({(at,): frame for at, frame in enumerate(frames)}, (14, 7, 8, 3), "uint8")
    np.testing.assert_array_equal(ragged["frames"].flat_values, want)
    np.testing.assert_array_equal(ragged["frames_size"].flat_values, sizes)
    assert ragged["frames"].row_lengths().numpy().tolist() == list(STEPS)
    np.testing.assert_array_equal(flat["frames"], want)
    order = np.argsort(packed["label"][0].numpy(), kind="stable")
    np.testing.assert_array_equal(packed["frames"].numpy()[0][order], want)
    np.testing.assert_array_equal(packed["frames_size"].numpy()[0][order], sizes)


RESIZED = {"frames": (6, 5), "depth": (3, 2), "still": (2, 7), "poster": (4, 4)}


@pytest.fixture(scope="module")
def resized(clips):
    """What TensorFlow makes of the images of each field."""
    images = {name: [one for clip in clips for one in decoded(clip)[name]] for name in ("frames", "depth", "still")}
    return {
        name: [tf.cast(tf.round(tf.image.resize(one, RESIZED[name])), one.dtype).numpy() for one in each]
        for name, each in images.items()
    }


@pytest.mark.parametrize("batch", [None, sr.Pad(5), sr.Ragged(5, flat=True)], ids=str)
def test_images_are_resized_as_by_tensorflow(batch, resized, corpus):
    """`resize` is what tf.image.resize gives, rounded to the declared type; of fixed sizes and 16 bits too."""
    dataset = sr.read(corpus, batch=batch, resize=RESIZED)
    elements = list(dataset)
    assert not any(name.endswith("_size") for name in elements[0])
    for name, want in resized.items():
        if batch is None:
            found = np.concatenate([element[name].numpy() for element in elements])
        elif isinstance(batch, sr.Pad):
            found = elements[0][name].numpy()[tf.sequence_mask(STEPS).numpy()]
        else:
            found = elements[0][name].numpy()
        np.testing.assert_array_equal(found, np.stack(want))
        assert dataset.element_spec[name].shape[-3:-1] == RESIZED[name]


def test_single_records_and_objects_have_their_own_size(clips, corpus):
    """Unbatched context images and objects are as large as they are; an absent one is None, and zeros of size 0."""
    for element, clip, record in zip(sr.read(corpus), clips, sr.read_records(corpus, schema=Clip), strict=True):
        assert same_bits(record.frames, decoded(clip)["frames"])
        assert same_bits(record.depth, clip.depth)
        assert same_bits(record.poster, clip.poster)
        if clip.poster is None:
            assert element["poster_size"].numpy().tolist() == [0, 0]
        else:
            np.testing.assert_array_equal(element["poster"], clip.poster)
    selection = sr.open(corpus, schema=Clip)["train"]
    records = list(sr.read_records(corpus, schema=Clip))
    assert list(selection) == records
    assert list(selection[[2, 0]]) == [records[2], records[0]]
    assert list(sr.from_table(selection.to_arrow().read_all(), Clip)) == records
    columns = selection.to_columns()
    assert same_bits(list(columns["frames"].values), [frame for record in records for frame in record.frames])


def test_encoded_images_are_stored_untouched(clips, corpus):
    """The very bytes that came are in the shards, and a copy of the dataset has them too."""
    stored = b"".join(file.read_bytes() for file in corpus.rglob("*.tfrecord"))
    assert all(stored.count(frame) == 1 for clip in clips for frame in clip.frames)


def test_images_are_not_encoded_again(clips, corpus, tmp_path):
    """`convert` and `merge` under another class keep the bytes of images; those of another format are made anew."""
    frames = sr.feature_list("uint8", shape=(None, None, 3), storage="jpeg")
    wider = attrs.make_class("Wider", {"frames": frames, "n": sr.context("int8", default=1)})
    sr.merge([corpus], tmp_path / "merged", schema=wider)
    shards = list(corpus.rglob("*.tfrecord"))
    convert(shards, tmp_path / "converted", schema=wider)
    frames = [frame for clip in clips for frame in clip.frames]
    for name in ("merged", "converted"):
        stored = b"".join(file.read_bytes() for file in (tmp_path / name).rglob("*.tfrecord"))
        assert [stored.count(frame) for frame in frames] == [1] * len(frames), name
    mixed = tmp_path / "mixed.tfrecord"
    photo = attrs.make_class("Photo", {"x": sr.feature_list("uint8", shape=(4, 5, 3), storage="jpeg")})
    pixels = np.full((4, 5, 3), 7, "uint8")
    features = [tf.train.Feature(bytes_list={"value": [encode(pixels)]}) for encode in (png, jpeg)]
    step = {"x": tf.train.FeatureList(feature=features)}
    with tf.io.TFRecordWriter(str(mixed)) as file:
        file.write(tf.train.SequenceExample(feature_lists={"feature_list": step}).SerializeToString())
    convert(mixed, tmp_path / "of mixed", schema=photo)
    [record] = sr.read_records(tmp_path / "of mixed", schema=photo)
    np.testing.assert_array_equal(record.x, [pixels, pixels])


def test_targets_sizes_and_shifted_images(clips, corpus):
    """Images are inputs and targets, of the next step and of horizons too; sizes are inputs."""
    inputs = {"frames": "frames", "sizes": "frames_size"}
    [(x, y, _)] = sr.read(corpus, batch=sr.Pad(5), inputs=inputs, targets=sr.next_step("depth"))
    assert x["sizes"].shape == (5, 5, 2)
    np.testing.assert_array_equal(y[2, 3, :6], clips[2].depth[4])
    window = sr.Window(2, horizon=1, batch_size=9)
    [batch] = sr.read(corpus, batch=window, fields=["frames"], resize={"frames": (2, 2)})
    assert batch["frames_horizon"].shape[1:] == (1, 2, 2, 3)
    [batch] = sr.read(corpus, batch=window, fields=["frames"])
    assert batch["frames_horizon_size"].numpy()[0].tolist() == [[3, 6]]
    [record] = sr.read(sr.open(corpus)["train"][:1], fields=["frames"], output="record")
    assert record.frames_size.shape == (3, 2)


def test_lacking_images_are_their_default(tmp_path):
    """Data that lack a field of images give its default, in objects and in batches."""
    old = attrs.make_class("Old", {"n": sr.feature_list("int32")})
    default = np.arange(12, dtype="uint8").reshape(2, 2, 3)
    options = {"shape": (None, None, 3), "storage": "jpeg", "kw_only": True}
    new = attrs.make_class(
        "New",
        {
            "n": sr.feature_list("int32"),
            "icon": sr.context("uint8", default=default, **options),
            "more": sr.feature_list("uint8", default=[default, default[:1]], align=None, **options),
        },
    )
    sr.write([old([1, 2]), old([3])], tmp_path / "data")
    [record, _] = sr.read_records(tmp_path / "data", schema=new)
    assert same_bits([record.icon, *record.more], [default, default, default[:1]])
    [batch] = sr.read(tmp_path / "data", schema=new, batch=sr.Pad(2))
    np.testing.assert_array_equal(batch["icon"][1], default)
    np.testing.assert_array_equal(batch["more_size"][1], [[2, 2], [1, 2]])
    assert sr.Schema.from_json(sr.Schema.of(new).to_json()) == sr.Schema.of(new)


def test_a_class_may_leave_sizes_open(tmp_path):
    """A dataset of images of one size is read by a class of any; not the other way round."""

    def of(shape):
        return attrs.make_class("Photo", {"x": sr.context("uint8", shape=shape, storage="png")})

    sr.write([of((2, 3, 1))(np.ones((2, 3, 1), "uint8"))], tmp_path / "data")
    [record] = sr.read_records(tmp_path / "data", schema=of((None, 3, 1)))
    assert record.x.shape == (2, 3, 1)
    for shape in ((2, 4, 1), (None, None, 3)):
        with pytest.raises(sr.SchemaMismatchError, match="shape"):
            list(sr.read_records(tmp_path / "data", schema=of(shape)))


gray, colors, alpha = (np.ones((4, 5, channels), "uint8") for channels in (1, 3, 4))
WRONG = {
    "another format": (png(colors), "a JPEG of shape .* got a PNG of shape"),
    "another height": (jpeg(np.ones((3, 5, 3), "uint8")), r"\(4, 5, 3\).* got a JPEG of shape \(3, 5, 3\)"),
    "other channels": (jpeg(gray), r"got a JPEG of shape \(4, 5, 1\)"),
    "no image": (b"GIF89a", "got bytes b'GIF89a'"),
    "no bytes": (b"", "got bytes b''"),
    "a cut header": (jpeg(colors)[:30], "got bytes"),
    "a cut file": (jpeg(colors)[:-9], "got a truncated image: .* without an end marker"),
    "pixels of another size": (np.ones((5, 4, 3), "uint8"), "got shape"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("shape", [(4, 5, 3), (4, None, 3)], ids=str)
def test_other_images_are_refused(name, shape, tmp_path):
    """What is not as the field declares it is an error that names record, field and step."""
    value, message = WRONG[name]
    photo = attrs.make_class(
        "Photo",
        {
            "key": sr.context(str, key=True),
            "x": sr.feature_list("uint8", shape=shape, storage="jpeg"),
        },
    )
    if name == "pixels of another size" or shape == (4, 5, 3):
        message = message.replace(r"\(4, 5, 3\)", "")
    if name == "another height" and shape == (4, None, 3):
        message = message.replace("5", ".*", 1)
    good = photo("good", [jpeg(colors)])
    with pytest.raises(sr.RecordError, match=message) as caught:
        sr.write([good, photo("bad", [jpeg(colors), value])], tmp_path / "data")
    assert caught.value.key == "bad"
    assert [(problem.field, problem.index[:1]) for problem in caught.value.problems] == [("x", (1,))]


def test_bits_and_palettes_of_png_are_checked(tmp_path):
    """16 bits are for uint16, 8 and fewer for uint8; an image with a palette has colors."""
    photo = attrs.make_class("Photo", {"x": sr.context("uint16", shape=(None, None, 1), storage="png")})
    deep = np.arange(20, dtype="uint16").reshape(4, 5, 1) * 3000
    sr.write([photo(png(deep)), photo(deep)], tmp_path / "data")
    np.testing.assert_array_equal(next(iter(sr.read(tmp_path / "data", batch=2)))["x"], [deep, deep])
    with pytest.raises(sr.RecordError, match="16 bits, got .* 8 bits"):
        sr.Schema.of(photo).encode(photo(png(gray)))


def test_columns_tables_and_dictionaries_take_encoded_images(tmp_path):
    """Every source of records takes the bytes of images, columns of bytes among them."""
    pa = pytest.importorskip("pyarrow")
    photo = attrs.make_class(
        "Photo",
        {
            "x": sr.context("uint8", shape=(4, 5, 3), storage="jpeg"),
            "y": sr.feature_list("uint8", shape=(None, None, 4), storage="png"),
        },
    )
    rows = [{"x": jpeg(colors), "y": [png(alpha), alpha[:2]]}, {"x": jpeg(colors), "y": []}]
    encoded = [
        {"x": row["x"], "y": [part if isinstance(part, bytes) else png(part) for part in row["y"]]} for row in rows
    ]
    sources = {"records": [photo(**row) for row in rows], "rows": rows, "table": pa.Table.from_pylist(encoded)}
    for name, source in sources.items():
        sr.write(source, tmp_path / name, schema=photo)
    with sr.Writer(tmp_path / "columns", photo) as writer:
        items = [part for row in rows for part in row["y"]]
        writer.write_batch({"x": [row["x"] for row in rows], "y": (items, [2, 0])})
    want = [photo(tf.io.decode_jpeg(jpeg(colors)).numpy(), [alpha, alpha[:2]][: 2 * (n == 0)]) for n in (0, 1)]
    for name in (*sources, "columns"):
        assert list(sr.read_records(tmp_path / name, schema=photo)) == want, name
        stored = b"".join(file.read_bytes() for file in (tmp_path / name).rglob("*.tfrecord"))
        assert stored.count(jpeg(colors)) == 2, name


def test_options_of_images_are_checked(corpus):
    """What cannot be resized or padded is an error that says so."""
    for resize, message in (
        ({"label": (2, 2)}, "expected fields with storage='png' or 'jpeg'"),
        ({"frames": 64}, r"expected \(height, width\) for 'frames'"),
        ({"frames": (0, 2)}, r"expected \(height, width\)"),
        ([("frames", 2)], "expected a mapping"),
    ):
        with pytest.raises(sr.OptionError, match=message):
            sr.read(corpus, resize=resize)
    with pytest.raises(sr.OptionError, match="vocabulary: .* 'frames', which holds images"):
        sr.read(corpus, vocabulary={"frames": sr.Vocabulary(["a"])})
    with pytest.raises(sr.SchemaError, match="no field 'frame'"):
        sr.read(corpus, resize={"frame": (2, 2)})
    for batch, resize in (
        (sr.Pad(2, padding_values={"frames": 1}), {}),
        (sr.Pad(2, padding_values={"still": 1}), {"still": (2, 2)}),
    ):
        with pytest.raises(sr.OptionError, match="padded with zeros"):
            sr.read(corpus, batch=batch, resize=resize)
    with pytest.raises(sr.SchemaError, match="adds a_size, which is also the name of a field"):
        sr.record(
            type(
                "Twice",
                (),
                {
                    "__annotations__": {"a": object, "a_size": object},
                    "a": sr.context("uint8", shape=(None, None, 1), storage="png"),
                    "a_size": sr.context("int64"),
                },
            )
        )
    photo = attrs.make_class("P", {"a": sr.context("uint8", shape=(None, 5, 1), storage="png", default=png(gray))})
    with pytest.raises(sr.SchemaError, match="the default of an image is pixels"):
        sr.Schema.of(photo)


def test_what_looks_at_records_takes_images_of_any_size(clips, corpus, tmp_path):
    """Statistics, report, plot, notebooks and the round trip of a class know images of different sizes."""
    stats = sr.stats(corpus)
    pixels = np.concatenate([frame.reshape(-1, 3) for clip in clips for frame in decoded(clip)["frames"]])
    assert (stats["frames"].count == len(pixels)).all()
    np.testing.assert_array_equal(stats["frames"].maximum, pixels.max(0))
    np.testing.assert_allclose(stats["frames"].mean, pixels.mean(0))
    np.testing.assert_allclose(stats["frames"].normalization()(pixels[:5]), stats["frames"].normalize(pixels[:5]), 1e-5)
    with pytest.raises(sr.OptionError, match="normalize: 'frames' holds images of any size: .*Rescaling"):
        sr.read(corpus, batch=2, normalize={"frames": stats["frames"]})
    sr.report(corpus, tmp_path / "report.html")
    assert "5 images" in (tmp_path / "report.html").read_text()
    record = sr.open(corpus)["train"][2]
    assert "5: [[[" in record._repr_html_()
    sr.plot(record)
    assert_round_trip(clips)


def test_only_the_frames_of_a_crop_are_decoded(tmp_path):
    """A broken image that is cropped off does no harm, and one that is kept does."""
    clip = attrs.make_class("Clip", {"x": sr.feature_list("uint8", shape=(None, None, 3), storage="png")})
    good, bad = png(colors), png(colors)[:40] + b"IEND"  # with a sound header and end
    sr.write([clip([bad, good, good])], tmp_path / "data")
    [batch] = sr.read(tmp_path / "data", batch=sr.Pad(1), steps=slice(1, None))
    np.testing.assert_array_equal(batch["x"][0], [colors, colors])
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(sr.read(tmp_path / "data", batch=sr.Pad(1)))
    with pytest.raises(sr.RecordError, match="x"):
        list(sr.read_records(tmp_path / "data"))


SIZES = st.tuples(st.integers(1, 9), st.integers(1, 9))


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.lists(SIZES, max_size=3), min_size=1, max_size=4),
    st.sampled_from([("uint8", 1), ("uint8", 2), ("uint8", 3), ("uint8", 4), ("uint16", 1), ("uint16", 3)]),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.integers(0, 2**32 - 1),
)
def test_pixels_come_back_whether_they_came_encoded_or_not(sizes, kind, encoded, seed):
    """PNG keeps every pixel of every type and size, of bytes and arrays side by side, through bytes and tensors."""
    dtype, channels = kind
    clip = attrs.make_class("Clip", {"x": sr.feature_list(dtype, shape=(None, None, channels), storage="png")})
    schema, random = sr.Schema.of(clip), np.random.default_rng(seed)
    images = [[image(random, *size, channels, dtype) for size in record] for record in sizes]
    mixed = [[png(one) if flag else one for one, flag in zip(record, encoded, strict=False)] for record in images]
    data = schema.encode_batch(list(map(clip, mixed)))
    assert same_bits([record.x for record in schema.decode_batch(data)], images)
    assert schema.encode_batch(list(map(clip, images))) == data  # they were encoded by the same hand
    batch = schema.parse_batch(data)
    for row, record in enumerate(images):
        for step, one in enumerate(record):
            height, width = batch["x_size"].numpy()[row, step]
            np.testing.assert_array_equal(batch["x"].numpy()[row, step, :height, :width], one)
    assert int(tf.math.count_nonzero(batch["x"])) == sum(np.count_nonzero(one) for record in images for one in record)
