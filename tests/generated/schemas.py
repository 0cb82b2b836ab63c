"""The table of messages and fields of the TypeScript package, from what protoc makes of wire.proto."""

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from streamsketch.wire import wire_pb2

SIZES = {("Projection", "sketch_dim"), ("LocalMean", "count"), ("LocalMechanism", "dim")}
"""Integers of 64 bits in the file that are below 2^53: numbers in TypeScript."""
LISTED = {("Guarantee", "steps")}
"""Lists that are there only where they have entries, as is a list without a step: `WIRE.md` says which."""
_MOST = 130  # columns of a message on one line
_HEAD = """\
/** The messages of wire.proto: name, type and rule of each field by its number. Written by `make generated`. */

/**
 * - `always`: a message, written even if it is empty
 * - `default`: written unless it is 0, or has length 0
 * - `optional`: written where it applies, 0 and empty text included
 * - `repeated`: a list; `listed`: a list that is there only where it has entries
 */
export type Rule = "always" | "default" | "optional" | "repeated" | "listed";
export type Field = readonly [name: string, type: string, rule: Rule];

/** Integers of `size` are uint64 below 2^53, as numbers; those of `uint64`, `fixed64` and `sint64` are bigints. */
export const SCHEMAS: Readonly<Record<string, Readonly<Record<number, Field>>>> = {
"""


def typescript() -> str:
    """Return the source of the table."""
    return _HEAD + "".join(map(_message, wire_pb2.DESCRIPTOR.message_types_by_name.values())) + "};\n"


def _message(message: Descriptor) -> str:
    fields = [
        f'{field.number}: ["{_camel(field.name)}", "{_type(message.name, field)}", "{_rule(message.name, field)}"]'
        for field in message.fields
    ]
    line = f"  {message.name}: {{ {', '.join(fields)} }},\n"
    if len(line) <= _MOST:
        return line
    return "".join([f"  {message.name}: {{\n", *(f"    {one},\n" for one in fields), "  },\n"])


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _type(message: str, field: FieldDescriptor) -> str:
    if field.message_type is not None:
        return str(field.message_type.name)
    if (message, field.name) in SIZES:
        return "size"
    kinds = {getattr(FieldDescriptor, name): name[5:].lower() for name in dir(FieldDescriptor) if name[:5] == "TYPE_"}
    return kinds[field.type]


def _rule(message: str, field: FieldDescriptor) -> str:
    if field.is_repeated:
        return "listed" if (message, field.name) in LISTED else "repeated"
    if field.containing_oneof is not None:  # protoc puts each `optional` field in one of its own
        return "optional"
    return "default" if field.message_type is None else "always"
