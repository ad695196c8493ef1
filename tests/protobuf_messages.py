"""`tf.train.SequenceExample` and its parts as protobuf alone makes them, so that its tests need no TensorFlow."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_TYPE = descriptor_pb2.FieldDescriptorProto
# Each message: its fields by number, name and type; of repeated ones, and of maps of a text to a message, with a mark.
_MESSAGES = {
    "BytesList": [(1, "value", "repeated", _TYPE.TYPE_BYTES)],
    "FloatList": [(1, "value", "repeated", _TYPE.TYPE_FLOAT)],
    "Int64List": [(1, "value", "repeated", _TYPE.TYPE_INT64)],
    "Feature": [
        (1, "bytes_list", "kind", "BytesList"),
        (2, "float_list", "kind", "FloatList"),
        (3, "int64_list", "kind", "Int64List"),
    ],
    "Features": [(1, "feature", "map", "Feature")],
    "FeatureList": [(1, "feature", "repeated", "Feature")],
    "FeatureLists": [(1, "feature_list", "map", "FeatureList")],
    "SequenceExample": [(1, "context", "", "Features"), (2, "feature_lists", "", "FeatureLists")],
}


def _add_field(message, number, name, form, kind):
    field = message.field.add(name=name, number=number, label=_TYPE.LABEL_OPTIONAL)
    if form in ("repeated", "map"):
        field.label = _TYPE.LABEL_REPEATED
    if form == "kind":
        field.oneof_index = 0
    if form == "map":
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _add_field(entry, 1, "key", "", _TYPE.TYPE_STRING)
        _add_field(entry, 2, "value", "", kind)
        kind = f"{message.name}.{entry.name}"
    if isinstance(kind, str):
        field.type, field.type_name = _TYPE.TYPE_MESSAGE, f".tensorflow.{kind}"
    else:
        field.type = kind


def _classes():
    file = descriptor_pb2.FileDescriptorProto(name="sequence_example.proto", package="tensorflow", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        if any(form == "kind" for _, _, form, _ in fields):
            message.oneof_decl.add(name="kind")
        for field in fields:
            _add_field(message, *field)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"tensorflow.{name}")) for name in _MESSAGES
    }


_CLASSES = _classes()
BytesList, Feature, FeatureList = (_CLASSES[name] for name in ("BytesList", "Feature", "FeatureList"))
SequenceExample = _CLASSES["SequenceExample"]
