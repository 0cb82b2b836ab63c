"""The worked examples of WIRE.md and of the script beside it, and that its lists are complete."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import streamsketch
from streamsketch import SJLT, local, signs
from streamsketch.conformance import column
from streamsketch.privacy.noise import NOISES
from streamsketch.projections.families import KINDS as PROJECTIONS
from streamsketch.signs.sign_changes import Shape
from streamsketch.signs.sketch import Method
from streamsketch.wire import wire_pb2
from tests.golden import schemas
from tests.oracles import naive

ROOT = Path(streamsketch.__file__).parent
WIRE = (ROOT / "wire" / "WIRE.md").read_text(encoding="utf-8")


def test_the_word_in_the_description_is_right() -> None:
    word = naive.polynomial_at(5, naive.field_elements(7, "example", 4))
    assert f'`word("example", 0, 5)` is {word}.' in WIRE
    assert naive.product(1 << 63, 2) == 0x1B


def test_the_script_prints_a_column() -> None:
    script = str(Path(column.__file__))
    done = subprocess.run(  # noqa: S603
        [sys.executable, script, "2024", "64", "4", "8", "17"], capture_output=True, text=True, check=True
    )
    dense = SJLT(dim=100, sketch_dim=64, sparsity=4, seed=2024).columns([17])[:, 0]
    assert done.stdout.strip() == str([(int(row), int(dense[row])) for row in dense.nonzero()[0]])


def concrete(base: Any, module: Any) -> Iterator[Any]:
    """Yield the public classes of a folder that extend one of it."""
    found = (getattr(module, name) for name in module.__all__)
    return (kind for kind in found if isinstance(kind, type) and issubclass(kind, base) and kind is not base)


def names() -> Iterator[tuple[str, str]]:
    """Yield what each table of WIRE.md must have a row for."""
    yield from (("a projection", kind) for kind in PROJECTIONS)
    yield from (("a local mechanism", kind.kind) for kind in concrete(local.Mechanism, local))
    yield from (("a noise", name) for name in NOISES)
    yield from (("a sign mechanism", kind.name) for kind in concrete(signs.SignMechanism, signs))


@pytest.mark.parametrize(("what", "name"), sorted(names()))
def test_the_tables_list_every_kind(what: str, name: str) -> None:
    rows = [line.split(" | ")[0] for line in WIRE.splitlines() if line.startswith("| `")]
    assert any(f"`{name}`" in row for row in rows), f"WIRE.md has no row for {what} called {name}"


def test_the_description_names_every_individual_method_and_flip_law() -> None:
    for name in (*get_args(Method), *get_args(Shape)):
        assert f"`{name}`" in WIRE


@pytest.mark.parametrize("name", sorted(schemas.SCHEMAS))
def test_the_pure_reader_knows_every_field(name: str) -> None:
    """By number, name and type, and whether it may be absent; WIRE.md names it."""
    descriptor = wire_pb2.DESCRIPTOR.message_types_by_name[name]
    assert {field.number for field in descriptor.fields} == set(schemas.SCHEMAS[name])
    for field in descriptor.fields:
        known, of, rule = schemas.SCHEMAS[name][field.number]
        message = field.message_type
        assert known == field.name
        assert of == (message.name if message else KINDS[field.type])
        assert f"`{field.name}" in WIRE or f".{field.name}`" in WIRE, f"WIRE.md does not name {name}.{field.name}"
        if field.is_repeated:
            assert rule in schemas.LISTS
        elif message is None:
            assert rule == ("optional" if field.has_presence else "default")


def test_the_pure_reader_knows_every_message() -> None:
    assert set(schemas.SCHEMAS) == set(wire_pb2.DESCRIPTOR.message_types_by_name)


KINDS = {
    getattr(wire_pb2.Ratio.DESCRIPTOR.fields[0], f"TYPE_{name.upper()}"): name
    for name in ("bool", "bytes", "double", "fixed64", "sint32", "sint64", "string", "uint32", "uint64")
}
