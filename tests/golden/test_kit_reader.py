"""Every case of the conformance kit is read by a reader that knows neither the library nor the builder."""

import copy
import json
from typing import Any

import pytest

from tests.golden import kit_reader, make_kit

KIT: dict[str, list[dict[str, Any]]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in make_kit.KIT.glob("*.json")
}


@pytest.mark.parametrize("file", sorted(KIT))
def test_the_pure_reader_reads_every_case(file: str) -> None:
    found = [(place, case.get("name"), kit_reader.check(file, case, KIT)) for place, case in enumerate(KIT[file])]
    assert not [one for one in found if one[2]]


def test_it_reads_every_file() -> None:
    assert set(kit_reader.READS) == set(kit_reader.GIVEN) == set(KIT)


@pytest.mark.parametrize("file", sorted(set(KIT) - {"refused"}))
def test_it_notices_a_change(file: str) -> None:
    """In each field that is read of a case, and a field that nobody reads."""
    case = next(one for one in reversed(KIT[file]) if "reason" not in one)
    assert kit_reader.check(file, case | {"nobody reads this": 1}, KIT)
    for name in set(case) - kit_reader.GIVEN[file]:
        changed = copy.deepcopy(case)
        changed[name] = changed_once(changed[name])
        try:
            text = kit_reader.check(file, changed, KIT)
        except AssertionError:
            continue
        assert text, f"{file}: another {name} is not noticed"


def changed_once(value: Any) -> Any:
    """Return another value, changed in one place."""
    if isinstance(value, dict):
        name = "value" if "value" in value else next(iter(value))
        return value | {name: changed_once(value[name])}
    if isinstance(value, list):
        return [*value[:-1], changed_once(value[-1])] if value else [0]
    if isinstance(value, str):
        return value[:-1] + chr(ord(value[-1]) ^ 1) if value else "0"
    return not value if isinstance(value, bool) else 1 if value is None else value + 1
