"""The kinds of generated files, each with a function that returns its files' content.

The page of the report and ``web/tests/written.json`` need node: ``npm run page`` and ``npm run write`` in ``web/``
write them, which ``make generated`` calls, and ``make test-web`` compares.
"""

import base64
import json
import math
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.generated import namespaces
from tests.generated.namespaces import PACKAGE, ROOT


def stubs() -> dict[Path, str]:
    """Return the stubs of namespaces."""
    return namespaces.stubs()


def wire() -> dict[Path, str]:
    """Return what protoc makes of wire.proto."""
    from grpc_tools import protoc  # noqa: PLC0415 - for these files alone

    names = ("wire_pb2.py", "wire_pb2.pyi")
    with tempfile.TemporaryDirectory() as folder:
        source = (PACKAGE / "wire" / "wire.proto").relative_to(ROOT)
        command = [f"--proto_path={ROOT}", f"--python_out={folder}", f"--pyi_out={folder}", str(source)]
        if protoc.main([sys.executable, *command]):
            raise SystemExit(f"protoc does not compile {source}")
        made = Path(folder, *source.parts[:-1])
        return {PACKAGE / "wire" / name: (made / name).read_text(encoding="utf-8") for name in names}


def schemas() -> dict[Path, str]:
    """Return the fields of messages for the TypeScript package, from the descriptors of wire_pb2."""
    from tests.generated.schemas import typescript  # noqa: PLC0415 - it loads protobuf

    return {ROOT / "web" / "src" / "schemas.ts": typescript()}


def sentences() -> dict[Path, str]:
    """Return the sentences that the TypeScript package says, too."""
    from tests.generated.sentences import typescript  # noqa: PLC0415 - for this file alone

    return {ROOT / "web" / "src" / "sentences.ts": typescript()}


def kit() -> dict[Path, str]:
    """Return the conformance kit, which the twins of the tests make from the golden files."""
    from tests.golden import make_kit  # noqa: PLC0415 - which reads the golden files

    return {make_kit.KIT / f"{name}.json": make_kit.text_of(cases) for name, cases in make_kit.kit().items()}


def words() -> dict[Path, str]:
    """Return the words of this library that those of the TypeScript package are compared with."""
    from tests.golden import web_words  # noqa: PLC0415 - which reads the kit

    return {web_words.WEB / name: web_words.text_of(cases()) for name, cases in web_words.FILES.items()}


def page() -> dict[Path, str]:
    """Return the cases of the report's page, as Python computes them."""
    from tests.report import test_script  # noqa: PLC0415 - which reads the kit

    return {test_script.CASES: test_script.current_cases()}


def sums() -> dict[Path, str]:
    """Return the histograms of releases, as Python computes them."""
    from tests.golden import test_web_sums  # noqa: PLC0415 - which draws releases

    return {test_web_sums.FILE: test_web_sums.current_text()}


def rows() -> dict[Path, str]:
    """Return releases of rows by known bits, which the TypeScript package must equal."""
    from tests.golden import web_rows  # noqa: PLC0415 - which draws releases

    return {web_rows.FILE: web_rows.current_text()}


def unicode() -> dict[Path, str]:
    """Return the tables of Unicode 14.0 for the TypeScript package."""
    from tests.generated import unicode_tables  # noqa: PLC0415 - which looks at each code point

    return {unicode_tables.FILE: unicode_tables.current_text()}


def audit() -> dict[Path, str]:
    """Return the page of claims and of what checks them."""
    from tests.audit import claims  # noqa: PLC0415 - for this page alone

    return {claims.PAGE: claims.page()}


KINDS: dict[str, Callable[[], dict[Path, str]]] = {
    "stubs": stubs,
    "wire": wire,
    "schemas": schemas,
    "sentences": sentences,
    "kit": kit,
    "words": words,
    "page": page,
    "sums": sums,
    "rows": rows,
    "unicode": unicode,
    "audit": audit,
}


ROUNDED = {"page", "sums"}
"""Kinds with doubles, whose last digits depend on the machine."""

_CLOSE, _CLOSE_P = 1e-9, 1e-8
"""How far these, and p-values, may differ, relatively: one of 8e-6, a sum of terms near 1, does by 2e-9 of itself."""


def differing(kind: str) -> dict[Path, bytes]:
    """Return the files of a kind that are not there with the content that they should have, and that content."""
    content = {path: text.encode() for path, text in KINDS[kind]().items()}
    return {path: made for path, made in content.items() if not path.exists() or not _same(path, made, kind)}


def _same(path: Path, made: bytes, kind: str) -> bool:
    old = path.read_bytes()
    return old == made or (kind in ROUNDED and _alike(json.loads(old), json.loads(made)))


def _doubles(packed: dict[str, Any]) -> list[float]:
    """Return the numbers that `Pairs.packed` packs."""
    planes = np.frombuffer(zlib.decompress(base64.b64decode(packed["base64"])), np.uint8).reshape(
        4, packed["bytes"], -1
    )
    values: list[float] = np.ascontiguousarray(planes.swapaxes(1, 2)).view(f"<f{packed['bytes']}").ravel().tolist()
    return values


def _alike(one: Any, other: Any, close: float = _CLOSE) -> bool:
    """Return whether two values of JSON are the same but for the last digits of doubles."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=close)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() == other.keys() == {"bytes", "base64"}:
            return _doubles(one) == pytest.approx(_doubles(other), rel=_CLOSE, abs=0, nan_ok=True)
        return one.keys() == other.keys() and all(
            _alike(one[name], other[name], _CLOSE_P if name == "p_value" else _CLOSE) for name in one
        )
    return type(one) is type(other) and one == other
