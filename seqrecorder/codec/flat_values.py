"""Reading of one field's values from many messages to flat numpy arrays, with checks.

Presence and defaults are handled in `decode`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from seqrecorder.codec.columns import check_threads_of_tensorflow, objects
from seqrecorder.codec.encode import tensor_header
from seqrecorder.codec.images import decode_each
from seqrecorder.errors import FieldProblem
from seqrecorder.schema.half_floats import narrow
from seqrecorder.wire.byte_rows import Blob, Spans, bounds, integers
from seqrecorder.wire.read import find_entries, fixed_steps, octets_at, payloads, step_payloads, step_pieces

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from seqrecorder.schema.field import Field

if TYPE_CHECKING:
    Check = Callable[[NDArray[np.bool_]], None]


class Broken(Exception):  # noqa: N818 - internal: the decoder turns it into a `RecordError`
    """Record that cannot be decoded.

    Args:
        record: number of the record.
        field: name of the field; "" if the bytes are not a message.
        message: text with the expected and the actual value.
        problem: problem with the value; None if the message contains all details.
    """

    def __init__(self, record: int, field: str, message: str, problem: FieldProblem | None = None) -> None:
        super().__init__(message)
        self.record, self.field, self.message, self.problem = record, field, message, problem


def require_all(ok: Any, rows: Any, field: Field, message: str, *details: Any, counts: Any = None) -> None:
    """Raise `Broken` for the first item that is not ok.

    Args:
        ok: flag of each item, bool `(n,)`.
        rows: record number of each item, or of each run of items in `counts`.
        field: field that the values belong to.
        message: beginning of the message, with the expected value.
        details: end of the message: words, and arrays with one value per item.
        counts: number of items in each run; None if there are no runs.
    """
    if not ok.all():
        item = int((~ok).argmax())
        row = item if counts is None else int(np.searchsorted(np.cumsum(counts), item, side="right"))
        words = [detail if isinstance(detail, str) else str(detail[item]) for detail in details]
        raise Broken(int(rows[row]), field.name, " ".join([message, *words]))


def from_buffer(
    field: Field, octets: NDArray[np.uint8], sizes: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[Any]:
    """Convert concatenated buffers to values."""
    dtype = field.element.numpy
    if dtype.kind == "b":
        message = f"bytes 0 and 1 are expected in {field.feature!r}, got"
        require_all(octets <= 1, rows, field, message, octets, counts=sizes)
    return view_as(octets, dtype)


def view_as(octets: NDArray[np.uint8], dtype: Any) -> NDArray[Any]:
    """View bytes as numbers.

    Bytes that are not contiguous, aligned and writable are copied.
    """
    numbers: NDArray[Any] = np.ascontiguousarray(octets).view(dtype)
    return numbers if numbers.flags.aligned and numbers.flags.writeable else numbers.copy()


def tensor_contents(field: Field, items: Spans, rows: NDArray[np.int64]) -> Spans:
    """Find the buffers in serialized tensors, and check that their headers are those of `tf.io.serialize_tensor`."""
    dtype, width = field.element.graph, field.count * field.element.itemsize
    sizes, heads = items.sizes, np.zeros(len(items), np.int64)
    wrong = np.zeros(len(items), bool)
    for size in np.unique(sizes).tolist():  # tensors of one size share one header
        alike = np.flatnonzero(sizes == size)
        header = _header_of(field, dtype, width, size)
        if header is None:
            wrong[alike] = True
            continue
        octets = items.data[items.starts[alike][:, None] + np.arange(len(header))]
        wrong[alike] = (octets != np.frombuffer(header, np.uint8)).any(1)
        heads[alike] = len(header)
    if wrong.any():
        item = int(wrong.argmax())
        start = items.data[items.starts[item] : items.stops[item]][:_SHOWN].tolist()
        message = (
            f"tensors of {dtype} and shape {field.shape}, as tf.io.serialize_tensor gives them, are expected in "
            f"{field.feature!r}, got {sizes[item]} bytes, which begin with {start}"
        )
        raise Broken(int(rows[item]), field.name, message)
    return Spans(items.data, items.starts + heads, items.stops)


def _header_of(field: Field, dtype: str, width: int, size: int) -> bytes | None:
    """Build the header of a serialized tensor that has `size` bytes, including the header.

    Returns:
        The header, or None if no tensor of the field has this size.
    """
    if not field.is_ragged:
        header = tensor_header(dtype, field.rest, width)
        return header if len(header) + width == size else None
    longest = len(tensor_header(dtype, (1 << 31, *field.rest), 1 << 31))
    for count in range(max(0, (size - longest) // width), size // width + 1):
        header = tensor_header(dtype, (count, *field.rest), count * width)
        if len(header) + count * width == size:
            return header
    return None


def images_of(field: Field, items: Spans, rows: NDArray[np.int64]) -> NDArray[Any]:
    """Decode images with TensorFlow."""
    import tensorflow as tf

    check_threads_of_tensorflow("decode images")
    octets = items.data.data
    encoded = [bytes(octets[i:j]) for i, j in zip(items.starts.tolist(), items.stops.tolist(), strict=True)]
    try:
        return decode_each(encoded, field)
    except tf.errors.OpError as error:
        for row, one in zip(rows.tolist(), encoded, strict=True):
            try:
                decode_each([one], field)
            except tf.errors.OpError as own:
                raise Broken(row, field.name, str(own.message)) from None
        raise Broken(int(rows[0]), field.name, str(error.message)) from None


FLOAT_BYTES = 4
_SHOWN = 16  # bytes of a bad tensor to show in an error
_LARGE_LIST = 1 << 20  # bytes; larger feature lists are read in pieces, to bound memory
_SHORT_TEXT = 256  # mean bytes; longer texts are decoded faster one by one
_UTF8_TOP, _UTF8_CONTINUED = 0xC0, 0x80


@attrs.frozen(eq=False)
class Values:
    """Values of the features of one field.

    Attributes:
        values: flat array, `(n, *known dimensions)`; joined texts have one dimension.
        units: number of rows of `values` that belong to each feature, int64.
    """

    values: Any
    units: NDArray[np.int64]


def kind_of(field: Field) -> str:
    """Return the kind of protobuf list in which a field is stored."""
    return "bytes" if field.in_items else field.element.wire


class Reader:
    """Reader of the features of one field.

    Args:
        field: declaration of the field.
        rows: record number of each feature or feature list.
        joined: whether to decode texts to rows of a `Blob` if possible, instead of objects.
    """

    def __init__(self, field: Field, rows: NDArray[np.int64], *, joined: bool = False) -> None:
        self.field, self._rows, self._joined = field, rows, joined

    def read_steps(self, lists: Spans, check: Check) -> tuple[Values, NDArray[np.int64]]:
        """Read feature lists that are stored with one feature per step.

        Args:
            lists: spans of the lists.
            check: function to call with the mask of lists that are not in canonical form.

        Returns:
            The values, and the number of steps of each list.
        """
        field = self.field
        kind = kind_of(field)
        width = field.count * (FLOAT_BYTES if kind == "float" else field.element.itemsize)
        if not field.is_ragged and (field.buffered or (kind == "float" and not field.in_items)):
            fixed = fixed_steps(lists, width, kind)
            if fixed is not None:
                offsets, each = fixed
                ones = np.ones(offsets.size, np.int64)
                flat = octets_at(lists.data, offsets, width)
                owners = np.repeat(self._rows, each)
                if field.buffered:
                    values = from_buffer(field, flat, width * ones, owners)
                else:
                    values = declared(field, flat.view("<f4"), field.count * ones, owners)
                return Values(values.reshape(-1, *field.rest), ones), each
        if len(lists) and int(lists.sizes.max()) > _LARGE_LIST:
            return self._read_in_pieces(lists, check)
        return self._read_lists(lists, check)

    def _read_lists(self, lists: Spans, check: Check) -> tuple[Values, NDArray[np.int64]]:
        field, kind = self.field, kind_of(self.field)
        several = field.element.is_text and (field.shape or field.is_ragged) and kind == "bytes"
        known = None if several else step_payloads(lists, kind)
        if known is not None and kind == "bytes":
            return self._single_items(*known)
        if known is not None:
            (spans, each), strange = known, None
        else:
            features, each, unusual = find_entries(lists)
            check(unusual)
            spans, strange = payloads(features, kind)
        owners = np.repeat(np.arange(len(lists)), each)

        def check_steps(bad: NDArray[np.bool_]) -> None:
            check(np.isin(np.arange(len(lists)), owners[bad]))

        if strange is not None:
            check_steps(strange)
        reader = Reader(field, self._rows[owners], joined=self._joined)
        return reader.read(spans, check_steps, any_number=field.is_ragged), each

    def _read_in_pieces(self, lists: Spans, check: Check) -> tuple[Values, NDArray[np.int64]]:
        """Read long lists piece by piece, with little memory beyond their values."""
        values, counts, steps = list[Any](), [np.empty(0, np.int64)], np.zeros(len(lists), np.int64)
        for number in range(len(lists)):
            here = np.arange(len(lists)) == number

            def check_list(unusual: NDArray[np.bool_], here: NDArray[np.bool_] = here) -> None:
                check(here & unusual.any())

            reader = Reader(self.field, self._rows[here])
            for piece in step_pieces(lists.take(here), kind_of(self.field), _LARGE_LIST):
                own, each = reader._read_lists(piece, check_list)
                values.append(own.values)
                if self.field.is_ragged:
                    counts.append(own.units)
                steps[number] += each[0]
        return Values(np.concatenate(values), np.concatenate(counts)), steps

    def _single_items(self, items: Spans, each: NDArray[np.int64]) -> tuple[Values, NDArray[np.int64]]:
        """Read steps that consist of one bytes value each."""
        reader = Reader(self.field, np.repeat(self._rows, each), joined=self._joined)
        ones = np.ones(len(items), np.int64)
        if self.field.in_items:
            return reader.of_items(items, ones, any_number=self.field.is_ragged), each
        return Values(reader.texts(items), ones), each

    def read(self, spans: Spans, check: Check, *, any_number: bool = False, required: Any = True) -> Values:
        """Read the values of features.

        Args:
            spans: spans of packed numbers, or of bytes values with headers.
            check: function to call with the mask of features that are not in canonical form.
            any_number: whether a feature may contain any number of arrays of the known dimensions, instead of one.
            required: whether a feature must have a value; a bool for all features, or one per feature.
        """
        field = self.field
        kind = kind_of(field)
        if kind == "bytes":
            items, counts, unusual = find_entries(spans)
            check(unusual)
            if field.in_items:
                if not any_number:
                    self._require(counts, 1, required=required)
                return self.of_items(items, counts, any_number=any_number)
            values: Any = self.texts(items, np.repeat(self._rows, counts))
        elif kind == "float":
            counts, rest = np.divmod(spans.sizes, FLOAT_BYTES)
            check(rest > 0)
            size = int(spans.sizes.sum())
            values = declared(field, view_as(spans.joined()[:size], "<f4"), counts, self._rows)
        else:
            numbers, counts, unusual = integers(spans)
            check(unusual)
            values = declared(field, numbers, counts, self._rows)
        if not any_number:
            self._require(counts, field.count, required=required)
            return Values(_reshape(field, values), (counts > 0).astype(np.int64))
        units, rest = np.divmod(counts, field.count)
        message = f"multiples of {field.count} values are expected in {field.feature!r}, got"
        require_all(rest == 0, self._rows, field, message, counts)
        return Values(_reshape(field, values), units)

    def _require(self, counts: NDArray[np.int64], expected: int, *, required: Any) -> None:
        ok = (counts == expected) | ((counts == 0) & np.logical_not(required))
        message = f"{expected} values per feature are expected in {self.field.feature!r}, got"
        require_all(ok, self._rows, self.field, message, counts)

    def of_items(self, items: Spans, counts: NDArray[np.int64], *, any_number: bool) -> Values:
        """Decode arrays that are stored as bytes values: images, serialized tensors or buffers.

        Args:
            items: spans of the bytes values.
            counts: number of bytes values in each feature.
            any_number: whether a buffer may contain any number of arrays of the known dimensions, instead of one.
        """
        field = self.field
        owners = np.repeat(np.arange(counts.size), counts)
        rows = self._rows[owners]
        if field.is_image:
            return Values(images_of(field, items, rows), counts)
        if field.storage == "tensor":
            items = tensor_contents(field, items, rows)
        width = field.element.itemsize * field.count
        sizes = items.sizes
        wanted = "a multiple of " if any_number else ""
        message = f"buffers of {wanted}{width} bytes are expected in {field.feature!r}, got"
        require_all(sizes % width == 0 if any_number else sizes == width, rows, field, message, sizes)
        size = int(sizes.sum())
        values = from_buffer(field, items.joined()[:size], sizes, rows).reshape(-1, *field.rest)
        return Values(values, np.diff(bounds(sizes // width)[bounds(counts)]))

    def texts(self, items: Spans, rows: NDArray[np.int64] | None = None) -> Any:
        """Decode texts or bytes to an array of objects or a `Blob`.

        Args:
            items: spans of the texts.
            rows: record number of each text; None to use the rows of the reader.
        """
        if not len(items):
            return objects([])
        is_str = self.field.element.name == "str"
        if self._joined and (blob := _joined_texts(items, is_str=is_str)) is not None:
            return blob
        try:
            return objects(_split(items, is_str=is_str))
        except UnicodeDecodeError:
            view = items.data.data
            for item, (start, stop) in enumerate(zip(items.starts.tolist(), items.stops.tolist(), strict=True)):
                try:
                    bytes(view[start:stop]).decode()
                except UnicodeDecodeError as error:
                    row = (self._rows if rows is None else rows)[item]
                    expected = "UTF-8 (declare bytes for other text)"
                    problem = FieldProblem(self.field.name, (), expected, str(error))
                    raise Broken(int(row), self.field.name, f"{expected} is expected", problem) from None
            raise


def _reshape(field: Field, values: Any) -> Any:
    return values if isinstance(values, Blob) else values.reshape(-1, *field.rest)


def _joined_texts(items: Spans, *, is_str: bool) -> Blob | None:
    """Concatenate the bytes or texts of spans; return None if a text is not UTF-8."""
    sizes = items.sizes
    data = items.joined()[: int(sizes.sum())]
    if is_str:
        try:
            data.tobytes().decode()
        except UnicodeDecodeError:
            return None
        begins = bounds(sizes)[:-1][sizes > 0]
        if ((data[begins] & _UTF8_TOP) == _UTF8_CONTINUED).any():
            return None
    return Blob(data, sizes)


def _split(items: Spans, *, is_str: bool) -> list[Any]:
    """Split spans into bytes or str objects.

    Short texts are split in one operation if none of them contains NUL.
    """
    data, sizes = items.data, items.sizes
    total = int(sizes.sum())
    if len(items) > 1 and total <= _SHORT_TEXT * len(items):
        # The byte before each text belongs to its header: replace it by a NUL, as the separator.
        joined = Spans(data, items.starts - 1, items.stops).joined()[: total + len(items)].copy()
        edges = bounds(sizes + 1)
        joined[edges[:-1]] = 0
        if int((joined == 0).sum()) == len(items):
            whole: bytes = joined[1:].tobytes()
            return list[Any](whole.decode().split("\0") if is_str else whole.split(b"\0"))
    octets = data.data
    pairs = zip(items.starts.tolist(), items.stops.tolist(), strict=True)
    if is_str:
        return [str(octets[start:stop], "utf-8") for start, stop in pairs]
    return [bytes(octets[start:stop]) for start, stop in pairs]


def declared(field: Field, values: NDArray[Any], counts: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Convert wire values to the declared dtype, keeping every bit of stored values.

    Args:
        field: declaration of the field.
        values: wire values, int64 or float32.
        counts: number of values in each feature.
        rows: record number of each feature.
    """
    element = field.element
    if element.name in ("int64", "float32"):
        return values
    if element.name == "uint64" or element.is_time:
        return values.view(element.numpy)
    if element.wire == "float":
        narrowed = narrow(values, element.numpy)
        with np.errstate(all="ignore"):
            wrong = np.isinf(narrowed.astype(np.float32)) & np.isfinite(values)
    elif element.name == "bool":
        narrowed, wrong = values != 0, (values != 0) & (values != 1)
    else:
        info = np.iinfo(element.numpy)
        wrong = (values < int(info.min)) | (values > int(info.max))
        narrowed = values.astype(element.numpy)
    message = f"values of {element.name} are expected in {field.feature!r}, got"
    require_all(~wrong, rows, field, message, values, counts=counts)
    return narrowed
