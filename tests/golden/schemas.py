"""The messages of wire.proto, as WIRE.md has them: a part of ``reader.py``."""

from typing import Any

MAGICS = {
    "PrivateSketch": b"\x89SSK\r\n\x1a\n",
    "SignSketch": b"\x89SSG\r\n\x1a\n",
    "IndividualSignSketch": b"\x89SSI\r\n\x1a\n",
    "LocalReport": b"\x89SSR\r\n\x1a\n",
    "LocalMean": b"\x89SSM\r\n\x1a\n",
}

# name, type and rule of each field by its number; "always" marks messages and lists of them, written even if empty,
# "listed" lists that are there only where they have entries
SCHEMAS: dict[str, dict[int, tuple[str, str, str]]] = {
    "PrivateSketch": {
        1: ("projection", "Projection", "always"),
        2: ("values", "Values", "always"),
        3: ("noise", "Noise", "always"),
        4: ("guarantee", "Guarantee", "always"),
        5: ("multiplier", "Ratio", "always"),
        6: ("release_ids", "bytes", "repeated"),
        7: ("data_ids", "bytes", "repeated"),
        8: ("parts", "NoisePart", "repeated"),
        9: ("agreement", "bytes", "optional"),
        10: ("counts", "Values", "optional"),
        11: ("clip", "string", "optional"),
    },
    "NoisePart": {
        1: ("noise", "Noise", "always"),
        2: ("guarantee", "Guarantee", "always"),
        3: ("multiplier", "Ratio", "always"),
        4: ("count", "uint32", "default"),
    },
    "Projection": {
        1: ("kind", "string", "default"),
        2: ("dim", "uint64", "default"),
        3: ("sketch_dim", "uint64", "default"),
        4: ("seed", "fixed64", "default"),
        5: ("resolution", "Ratio", "always"),
        6: ("sparsity", "uint32", "optional"),
        7: ("independence", "uint32", "optional"),
        8: ("fraction_bits", "uint32", "optional"),
        9: ("density", "Ratio", "optional"),
    },
    "Values": {1: ("width", "uint32", "default"), 2: ("cells", "bytes", "default")},
    "Noise": {
        1: ("k2", "double", "default"),
        2: ("k4", "double", "default"),
        3: ("place", "string", "default"),
    },
    "Guarantee": {
        1: ("epsilon", "double", "default"),
        2: ("delta", "double", "default"),
        3: ("neighbours", "Neighbours", "always"),
        4: ("mechanism", "string", "default"),
        5: ("conditions", "string", "repeated"),
        6: ("steps", "Step", "listed"),
        7: ("basis", "string", "default"),
    },
    "Step": {
        1: ("noise", "AddedNoise", "optional"),
        2: ("flips", "FlippedSigns", "optional"),
        3: ("keys", "KeySelection", "optional"),
        4: ("text", "string", "optional"),
    },
    "AddedNoise": {
        1: ("kind", "string", "default"),
        2: ("amount", "Ratio", "always"),
        3: ("layers", "uint32", "default"),
        4: ("place", "string", "default"),
        5: ("shares", "Shares", "optional"),
        6: ("counting", "Counting", "optional"),
    },
    "Counting": {1: ("units", "uint32", "default"), 2: ("slack", "uint32", "default")},
    "Shares": {1: ("parties", "uint32", "default"), 2: ("honest", "uint32", "default")},
    "FlippedSigns": {
        1: ("method", "string", "default"),
        2: ("law", "FlipLaw", "always"),
        3: ("norm_bound", "Ratio", "optional"),
    },
    "KeySelection": {1: ("epsilon", "double", "default"), 2: ("delta", "double", "default")},
    "Neighbours": {
        1: ("kind", "string", "default"),
        2: ("bound", "Ratio", "always"),
        3: ("unit", "string", "default"),
        4: ("max_keys", "uint32", "default"),
    },
    "SignSketch": {
        1: ("projection", "Projection", "always"),
        2: ("signs", "bytes", "default"),
        3: ("law", "FlipLaw", "always"),
        4: ("guarantee", "Guarantee", "always"),
        5: ("release_id", "bytes", "default"),
        6: ("data_ids", "bytes", "repeated"),
        7: ("agreement", "bytes", "optional"),
    },
    "FlipLaw": {1: ("shape", "string", "default"), 2: ("rate", "Ratio", "always")},
    "IndividualSignSketch": {
        1: ("projection", "Projection", "always"),
        2: ("signs", "bytes", "default"),
        3: ("method", "string", "default"),
        4: ("guarantee", "Guarantee", "always"),
        5: ("release_id", "bytes", "default"),
        6: ("agreement", "bytes", "optional"),
    },
    "LocalReport": {
        1: ("mechanism", "fixed64", "default"),
        2: ("seed", "fixed64", "default"),
        3: ("values", "bytes", "default"),
    },
    "LocalMean": {
        1: ("mechanism", "LocalMechanism", "always"),
        2: ("count", "uint64", "default"),
        3: ("totals", "Values", "always"),
        4: ("step_exponent", "sint32", "default"),
    },
    "LocalMechanism": {
        1: ("kind", "string", "default"),
        2: ("dim", "uint64", "default"),
        3: ("epsilon", "double", "default"),
        4: ("ball", "bool", "default"),
        5: ("precision", "string", "optional"),
        6: ("sketch_dim", "uint32", "optional"),
        7: ("rotation", "string", "optional"),
        8: ("shared", "bool", "optional"),
        9: ("unbiased", "bool", "optional"),
        10: ("compressed", "bool", "optional"),
        11: ("seed", "fixed64", "optional"),
        12: ("repetitions", "uint32", "optional"),
        13: ("delta", "double", "optional"),
    },
    "Ratio": {1: ("numerator", "sint64", "default"), 2: ("denominator", "uint64", "default")},
}
WIRE_TYPES = {"bool": 0, "uint32": 0, "uint64": 0, "sint32": 0, "sint64": 0, "double": 1, "fixed64": 1}
LISTS = ("repeated", "listed")
DEFAULTS: dict[str, Any] = {"bool": False, "string": "", "bytes": b"", "double": 0.0}
