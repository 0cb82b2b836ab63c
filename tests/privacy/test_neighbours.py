"""Neighbour relations survive whatever writes them down: JSON of every kind, raw files and the exchange format."""

from collections.abc import Callable
from pathlib import Path

import pytest

import streamsketch as ss
from streamsketch.parties import Key, Round
from streamsketch.privacy import Neighbours
from streamsketch.privacy.bounds import Bounds
from streamsketch.privacy.neighbours import NEIGHBOURS

MAP = ss.projections.OPORP(dim=64, sketch_dim=16, seed=7, resolution="1/4096")
PARTIES = [Key.generate().public, Key.generate().public]


def in_round(neighbours: Neighbours, _: Path) -> Neighbours:
    agreed = Round(MAP, epsilon=1, delta=1e-6, neighbours=neighbours, parties=PARTIES)
    return Round.from_json(agreed.to_json()).neighbours


def in_raw_file(neighbours: Neighbours, folder: Path) -> Neighbours:
    path = folder / "a.raw-sketch"
    ss.storage.save_raw(MAP.sketch(), path)
    ss.storage.release_raw(path, epsilon=1, delta=1e-6, neighbours=neighbours)
    (past,) = ss.storage.load_raw(path).releases
    return past.guarantee.neighbours


def in_release(neighbours: Neighbours, _: Path) -> Neighbours:
    released = MAP.sketch().release(epsilon=1, delta=1e-6, neighbours=neighbours)
    return ss.PrivateSketch.from_bytes(released.to_bytes()).guarantee.neighbours


WRITERS: dict[str, Callable[[Neighbours, Path], Neighbours | None]] = {
    "a dict": lambda neighbours, _: Neighbours.from_dict(neighbours.to_dict()),
    "bounds": lambda neighbours, _: Bounds.from_dict(Bounds(neighbours).to_dict()).neighbours,
    "an agreement": lambda neighbours, _: (
        ss.Agreement.from_json(ss.Agreement(MAP, key="shop", index="item", neighbours=neighbours).to_json()).neighbours
    ),
    "a round": in_round,
    "a raw file": in_raw_file,
    "a release": in_release,
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("kind", NEIGHBOURS)
def test_a_relation_survives(kind: str, writer: str, tmp_path: Path) -> None:
    neighbours = NEIGHBOURS[kind]("7/2", unit="Käufer", max_keys=3)
    assert WRITERS[writer](neighbours, tmp_path) == neighbours


@pytest.mark.parametrize(
    "change",
    [
        {"relation": "l3"}, {"relation": ["l1"]}, {"bound": 0}, {"bound": "2/4"}, {"bound": 1}, {"unit": ""},
        {"unit": 3}, {"max_keys": 0}, {"max_keys": True}, {"max_keys": "1"}, {"more": 1},
    ],
)  # fmt: skip
def test_what_no_relation_writes_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ss.InvalidInputError):
        Neighbours.from_dict(ss.L1(1).to_dict() | change)


@pytest.mark.parametrize(
    ("unit", "units"),
    [
        ("customer", "customers"),
        ("customer in one window of 60 s", "customers in one window of 60 s"),
        ("customer in one month (Europe/Berlin)", "customers in one month (Europe/Berlin)"),
    ],
)
def test_units_are_many(unit: str, units: str) -> None:
    assert ss.L1(1, unit=unit).units == units
