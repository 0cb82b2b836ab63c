"""What is known of bounds, as JSON and back."""

from typing import Any

import pytest

import streamsketch as ss
from streamsketch.privacy.bounds import NO_DATA, UNKNOWN, Bounds


@pytest.mark.parametrize(
    "bounds",
    [NO_DATA, UNKNOWN, Bounds(ss.L2(3, unit="a"), "scale", conditions=("b", "c")), Bounds(ss.L1(3), "cut").updated()],
)
def test_bounds_survive_json(bounds: Bounds) -> None:
    assert Bounds.from_dict(bounds.to_dict()) == bounds
    for name in bounds.to_dict():
        with pytest.raises(ss.InvalidInputError):
            Bounds.from_dict({key: value for key, value in bounds.to_dict().items() if key != name})


@pytest.mark.parametrize(
    "change",
    [
        {"together": 0},
        {"together": True},
        {"conditions": "none"},
        {"conditions": [3]},
        {"ended": 3},
        {"clip": ["scale"]},
        {"is_empty": 1},
        {"is_empty": True, "neighbours": ss.L1(1).to_dict()},
        {"neighbours": {"relation": "l1"}},
        {"neighbours": "l1"},
    ],
)
def test_bounds_that_nothing_wrote_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ss.InvalidInputError):
        Bounds.from_dict(Bounds(ss.L1(3)).to_dict() | change)
