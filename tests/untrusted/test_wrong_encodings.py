"""Readers of public types say what is wrong with lists, None, numbers and empty bytes."""

import inspect
import itertools
import types
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.errors import StreamsketchError

MAP = ss.CountSketch(sketch_dim=4, seed=7)
MODULES = [vars(ss).get(name) or getattr(ss, name) for name in ss.__all__]


def _readers() -> dict[str, Any]:
    """Return every reader of a public class, by its name."""
    spaces = [ss, *(one for one in MODULES if isinstance(one, types.ModuleType))]
    classes = {getattr(space, name) for space in spaces for name in dir(space) if not name.startswith("_")}
    found = {}
    for kind in classes:
        if inspect.isclass(kind):
            for name in ("from_bytes", "from_dict", "from_json"):
                if hasattr(kind, name):
                    found[f"{kind.__name__}.{name}"] = getattr(kind, name)
    return dict(sorted(found.items()))


READERS = _readers()
WRONG: list[Any] = [
    *([], [1], [[1, 2]], [{}], (), set(), None, 5, 1.5, True, object(), np.zeros(3)),
    *(b"", b"\0", b"{}", "", "x", "[]", "{}", "null", "5", "[[1]]", {}, {"a": 1}, {1: 2}, {"a": []}, {"epsilon": None}),
]


def test_there_are_readers() -> None:
    assert len(READERS) > 20
    assert {"PrivateSketch.from_bytes", "Agreement.from_json", "Guarantee.from_dict"} <= set(READERS)


@pytest.mark.parametrize("name", READERS)
def test_readers_refuse_other_things_in_a_sentence(name: str) -> None:
    reader = READERS[name]
    more = [ss.local.PrivHS(dim=8, epsilon=1.0)] if "mechanism" in inspect.signature(reader).parameters else []
    for passed in WRONG:
        with pytest.raises((TypeError, StreamsketchError)) as caught:
            reader(passed, *more)
        text = str(caught.value)
        assert isinstance(caught.value, StreamsketchError) or "got " in text or "no bytes" in text, (name, passed, text)
        assert len(text) > 15
        assert "object is not" not in text
        assert "object has no" not in text


STATES = [[0, 0, 0, 0], [[0, 0, 0, 0]], None, 5, b"", "x", {}, np.zeros(4), np.zeros((2, 4), np.int64), object()]
MASSES = [0, [0], None, 2.5, "x", b"", np.zeros(1), np.zeros(3, np.int64)]
KEYS = [["a"], ["a", "a"], None, 5, b"", "x", [1.5], [None], {}, object(), iter(["a"])]


@pytest.mark.parametrize(("state", "mass"), list(itertools.product(STATES, MASSES)))
def test_states_of_a_wrong_type_are_refused(state: Any, mass: Any) -> None:
    with pytest.raises((TypeError, StreamsketchError), match=r"got |shape|mass"):
        ss.Sketch.from_state(MAP, state, mass)
    for keys in KEYS:
        with pytest.raises((TypeError, StreamsketchError), match=r"got |shape|mass|key"):
            ss.SketchTable.from_state(MAP, keys, state, mass)


@pytest.mark.parametrize("projection", [None, 5, [1], "x", b"", MAP.to_json()])
def test_states_without_a_map_are_refused(projection: Any) -> None:
    cells = np.zeros(4, np.int64)
    with pytest.raises(TypeError, match=r"Projection.*got .*: "):
        ss.Sketch.from_state(projection, cells, 0)
    with pytest.raises(TypeError, match=r"Projection.*got .*: "):
        ss.SketchTable.from_state(projection, ["a"], cells[None], np.zeros(1, np.int64))


def test_right_states_are_read() -> None:
    cells = np.array([[1, -2, 0, 0]], np.int64)
    table = ss.SketchTable.from_state(MAP, iter(["a"]), cells, np.array([3]))
    assert table.sketch_of("a").state().tolist() == [1, -2, 0, 0]
