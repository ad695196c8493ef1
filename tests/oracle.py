"""What a record may be, written down a second time: slowly, from its message alone."""

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError

from seqrecorder.schema.field import value_features

KINDS = {"int64": "int64_list", "float": "float_list", "bytes": "bytes_list"}


class RefusedError(Exception):
    """The record is none of the schema."""


def value_of_record(schema, data):
    """Return the value of each field, in lists (sparse ones in dicts by index), or None for what is no record."""
    message = tf.train.SequenceExample.FromString(data)
    try:
        found = {field.name: _value(field, message) for field in schema.fields}
        for group in schema.groups:
            members = [field for field in schema.fields if field.is_list and field.group == group]
            # A list that is not there has no length, and neither has an empty default in its place.
            steps = {len(found[f.name]) for f in members if found[f.name] is not None and not _defaulted(f, message)}
            _require(len(steps) < 2)
    except RefusedError:
        return None
    return found


def _require(ok):
    if not ok:
        raise RefusedError


def _defaulted(field, message):
    return field.has_default and not len(field.default) and not _holds(field, message) and _stated(field, message) < 0


def _stated(field, message):
    """Return what a record says of an optional field: 1 for a value, 0 for None, -1 for nothing."""
    if not field.optional or field.presence not in message.context.feature:
        return -1
    return _items(message.context.feature[field.presence], "int64", 1)[0]


def _holds(field, message):
    place = message.feature_lists.feature_list if field.is_list else message.context.feature
    return all(name in place for name in value_features(field))


def _value(field, message):
    stated = _stated(field, message)
    fixed = not field.is_list and not field.is_ragged and field.sparse is None
    if fixed:
        parts = [_items(message.context.feature[field.feature], _kind(field))] if _holds(field, message) else [[]]
        lacks, is_empty = not _holds(field, message), not parts[0]
        _require(lacks or parts[0] or stated == 0)
        _require(stated <= 0 or not lacks)
    else:
        parts = _parts(field, message)
        lacks, is_empty = not _holds(field, message), not len(parts)
    if stated == 0:
        _require(is_empty)
        return None
    if lacks and stated < 0:
        _require(field.may_lack)
        return _plain(field, field.exact(field.default)) if field.has_default else None
    return _one(field, parts[0]) if fixed else parts


def _kind(field):
    return "bytes" if field.in_items else field.element.wire


def _items(feature, kind, count=None):
    have = feature.WhichOneof("kind")
    _require(have in (None, KINDS[kind]))
    items = list(getattr(feature, KINDS[kind]).value)
    _require(count is None or len(items) == count)
    return items


def _parts(field, message):
    """Return what there may be any number of: the steps, or the values of the context."""
    if not field.is_list:
        features = [message.context.feature[name] for name in value_features(field) if name in message.context.feature]
        return _many(field, features)
    lists = [message.feature_lists.feature_list[name].feature for name in value_features(field) if _in(name, message)]
    if field.sparse is not None:
        lists += [[]] * (2 - len(lists))
        _require(len(lists[0]) == len(lists[1]))
        return [_many(field, pair) for pair in zip(*lists, strict=True)]
    steps = lists[0] if lists else []
    if field.packed:
        return [value for step in steps for value in _many(field, [step])]
    return [_many(field, [step]) if field.is_ragged else _one(field, _items(step, _kind(field))) for step in steps]


def _in(name, message):
    return name in message.feature_lists.feature_list


def _many(field, features):
    """Return a ragged value: a list of what the known dimensions hold; of a sparse one a dict."""
    if field.sparse is not None:
        indices = _items(features[0], "int64") if features else []
        values = _items(features[1], _kind(field)) if len(features) > 1 else []
        _require(len(indices) == len(values) == len(set(indices)) and all(0 <= i < field.sparse for i in indices))
        return dict(sorted(zip(indices, _scalars(field, values), strict=True)))
    scalars = _scalars(field, _items(features[0], _kind(field)) if features else [])
    _require(len(scalars) % field.count == 0)
    return np.array(scalars, object).reshape(-1, *field.rest).tolist() if field.rest else scalars


def _one(field, items):
    _require(len(items) == (1 if field.in_items else field.count))
    scalars = _scalars(field, items)
    _require(len(scalars) == field.count)
    return np.array(scalars, object).reshape(field.rest).tolist() if field.rest else scalars[0]


def _scalars(field, items):
    """Return single values of the field's dtype."""
    name = field.element.name
    if field.storage == "png":
        images = [_decoded(tf.io.decode_png, item).numpy() for item in items]
        _require(all(image.shape == field.shape for image in images))
        return [value for image in images for value in image.ravel().tolist()]
    if field.storage == "tensor":
        arrays = [tf.make_ndarray(_decoded(type(tf.make_tensor_proto(0)).FromString, item)) for item in items]
        shapes = [array.shape[field.is_ragged :] for array in arrays]
        _require(all(array.dtype == field.element.numpy for array in arrays) and not {*shapes} - {field.rest})
        return [value for array in arrays for value in array.ravel().tolist()]
    if field.buffered:
        _require(all(len(item) % field.element.itemsize == 0 for item in items))
        return [value for item in items for value in np.frombuffer(item, field.element.numpy).tolist()]
    if name == "str":
        try:
            return [item.decode() for item in items]
        except UnicodeDecodeError:
            raise RefusedError from None
    if field.element.numpy.kind in "iu":
        _require(all(np.iinfo(name).min <= item <= np.iinfo(name).max for item in items))
    return items


def _decoded(decode, item):
    try:
        decoded = decode(item)
    except (tf.errors.InvalidArgumentError, DecodeError):
        raise RefusedError from None
    _require(getattr(decoded, "dtype", 1) != 0)  # no tensor at all
    return decoded


def _plain(field, value):
    """Return a value as `value_of_record` gives it."""
    if field.sparse is not None:
        vectors = value if field.is_list else [value]
        dicts = [dict(zip(v.indices.tolist(), v.values.tolist(), strict=True)) for v in vectors]
        return dicts if field.is_list else dicts[0]
    if isinstance(value, list):
        return [part.tolist() for part in value]
    return value.tolist() if hasattr(value, "tolist") else value


def plain_record(schema, record):
    """Return the values of a decoded record as `value_of_record` gives them."""
    values = {field.name: getattr(record, field.name) for field in schema.fields}
    return {
        field.name: None if values[field.name] is None else _plain(field, values[field.name]) for field in schema.fields
    }
