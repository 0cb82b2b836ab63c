"""Notebooks show results as HTML: escaped, without scripts, in the notebook's colours, with intervals drawn."""

import datetime as dt
import html
import html.parser
import math
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.core.notebooks import MOST_ROWS
from streamsketch.estimation.estimate import Estimate
from streamsketch.estimation.estimate_arrays import Estimates
from streamsketch.planning import StreamFacts, TypicalUnit, plan_units
from streamsketch.planning.bounds import plan_bounds

MAP = ss.CountSketch(sketch_dim=64, seed=7)
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</td></table><h1>",
    "&lt;b&gt;",
    "a\nb\u202ec\x1b[31m\x00",
    "\ud800",
    "x" * 5000,
    "{{7*7}}${7*7}",
    "<!-- --><style>*{display:none}</style>",
    "javascript:alert(1)",
]
ALLOWED = {
    "div": {"class", "style"},
    **{tag: set() for tag in ("table", "thead", "tbody", "tr", "b", "br", "title")},
    **{tag: {"style"} for tag in ("p", "pre", "td", "span")},
    "th": {"style", "scope"},
    "svg": {"role", "width", "height", "viewbox"},
    "line": {"x1", "x2", "y1", "y2", "stroke", "stroke-opacity", "stroke-width"},
    "polyline": {"points", "fill", "stroke", "stroke-width"},
    "circle": {"cx", "cy", "r", "fill"},
}
COLOURS = {"currentColor", "none"}


class _Reader(html.parser.HTMLParser):
    """Reads HTML strictly: known elements and attributes alone, each closed, and no colour of its own."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.texts: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED, tag
        assert {name for name, _ in attrs} <= ALLOWED[tag], (tag, attrs)
        for name, value in attrs:
            if name in ("stroke", "fill"):
                assert value in COLOURS
            if name == "style":
                assert not re.search(r"url|expression|#[0-9a-f]{3}|rgb|black|white(?!-space)", value or "")
        self.tags.append((tag, dict(attrs)))
        if tag not in ("br", "line", "polyline", "circle"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        assert tag in ("line", "polyline", "circle")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        assert all(char.isprintable() or char == "\n" for char in data)
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def read(shown: Any) -> _Reader:
    """Return what an object shows, read strictly."""
    text = shown._repr_html_()
    text.encode()
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def sketches(count: int = 3) -> list[ss.Sketch]:
    """Return sketches of different streams."""
    made = [MAP.sketch() for _ in range(count)]
    for place, one in enumerate(made):
        one.update(range(place, place + 40), np.full(40, 100))
    return made


def released(count: int = 3) -> list[ss.PrivateSketch]:
    """Return releases of different streams."""
    return [one.release(epsilon=1.0, neighbours=ss.L1(1, unit="sale")) for one in sketches(count)]


def agreement_of(name: str) -> ss.Agreement:
    """Return an agreement with a name in all places that take text."""
    rows = pa.table({"item": ["tea"], "who": ["Ann"], name: ["Wien"]})
    return ss.agree(
        rows, MAP, key=name, index="item", unit="who", title=name, epsilon=1, delta=1e-6, keys=[name, "Wien"]
    )


def unit_plan(name: str) -> Any:
    """Return a plan with a key of a name."""
    typical = TypicalUnit(items=20, match=0.004)
    return plan_units(typical, units={name: 900, "other": 20}, unit="person", epsilon=1.0, delta=1e-6)


PRINTABLE = [name for name in HOSTILE if name.isprintable() and len(name) <= 200]


def _shown(name: str) -> dict[str, Any]:
    three = released()
    streams: dict[str, Any] = dict(zip([name, "b", "c"], three, strict=True))
    pairs = ss.pairwise(streams)
    table = MAP.table()
    table.update([name.encode("utf-8", "surrogatepass").decode("latin-1"), "b"], ["tea", "tea"])
    private = table.release(epsilon=1.0, neighbours=ss.L1(1), keys_are_public=True)
    found: dict[str, Any] = {
        "Estimate": pairs[0, 1],
        "Estimates": pairs,
        "SecretEstimates": ss.pairwise({name: sketches()[0], "b": sketches()[1]}),
        "JointEstimates": ss.pairwise(dict(zip([name, "b", "c"], three, strict=True)), by="cosine", together=True),
        "PrivateTable": private,
        "PrivateSketch": three[0],
    }
    found["JointEstimate"] = found["JointEstimates"][0, 1]
    if name in PRINTABLE:
        guarantee = MAP.sketch().release(epsilon=1.0, neighbours=ss.L1(1, unit=name[:60])).guarantee
        found |= {
            "Guarantee": guarantee,
            "Agreement": agreement_of(name),
            "UnitPlan": unit_plan(name),
            "explanation": ss.explain(MAP.sketch().release(epsilon=1.0, neighbours=ss.L1(1, unit=name[:60]))),
        }
    return found


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_no_name_becomes_anything_but_text(name: str) -> None:
    for kind, shown in _shown(name).items():
        reader = read(shown)
        assert len(shown._repr_html_()) < 60_000, kind
        if name in PRINTABLE and kind in ("Estimates", "JointEstimates", "SecretEstimates", "Agreement", "UnitPlan"):
            assert name[:20] in " ".join(reader.texts), kind
        repr(shown)
        str(shown).encode("utf-8", "replace")


def test_plans_show_their_text() -> None:
    plans = [
        ss.plan(StreamFacts(squared_distances=[1e6]), epsilon=1.0, neighbours=ss.L1(1)),
        plan_bounds([1.0, 2.0, 5.0] * 10, [1, 2, 5], MAP, squared_distance=100.0, epsilon=1.0),
        unit_plan("Wien"),
    ]
    for plan in plans:
        assert "".join(read(plan).texts).split() == str(plan).split()


def test_pairs_are_drawn_once_each_with_their_names() -> None:
    pairs = ss.pairwise(dict(zip(["a", "b", "c"], released(), strict=True)))
    reader = read(pairs)
    assert sum(tag == "svg" for tag, _ in reader.tags) == 3
    text = " ".join(reader.texts)
    assert "3 pairs" in text
    for first, second in (("a", "b"), ("a", "c"), ("b", "c")):
        assert f"{first} {second}" in " ".join(text.split())
    assert repr(pairs).startswith("<3 by 3 estimates of a, b, c: ")
    assert pairs.to_arrow().column("first").to_pylist() == ["a", "a", "b"]
    assert pairs.to_arrow(["x", "y", "z"]).column("first").to_pylist() == ["x", "x", "y"]


@pytest.mark.parametrize("keys", [[1, 2, 3], [b"a", b"b", b"c"], [dt.date(2026, 1, day) for day in (1, 2, 3)]])
def test_a_table_is_compared_as_it_is(keys: list[Any]) -> None:
    table = MAP.table()
    table.update(keys, [1, 2, 3], [100, 100, 100])
    private = table.release(epsilon=1.0, neighbours=ss.L1(1), keys_are_public=True)
    for streams in (table, private, dict(private)):
        pairs = ss.pairwise(streams)
        assert pairs.names == tuple(keys)
        assert pairs.to_arrow().column("second").to_pylist() == [keys[1], keys[2], keys[2]]
        assert str(keys[1]) in " ".join(read(pairs).texts)
    assert ss.pairwise(list(private.values())).names is None
    with pytest.raises(ss.InvalidInputError, match="names of the streams"):
        ss.pairwise(list(private.values())).to_arrow()


def test_joint_and_secret_tables_keep_names() -> None:
    streams = dict(zip("abc", released(), strict=True))
    joint = ss.pairwise(streams, by="cosine", together=True)
    assert joint.names == joint.as_secret().names == ("a", "b", "c")
    assert "joint estimate" in " ".join(read(joint).texts)
    assert "secret: from a raw sketch" in " ".join(read(joint.as_secret()).texts)
    assert joint.with_parts(*joint.parts()).names is None  # which may be those of other pairs


def test_many_pairs_are_counted_and_not_all_shown() -> None:
    pairs = ss.pairwise({str(place): one for place, one in enumerate(released(15))})
    reader = read(pairs)
    assert sum(tag == "tr" for tag, _ in reader.tags) == MOST_ROWS + 1
    assert f"{15 * 14 // 2 - MOST_ROWS} more are not shown" in " ".join(reader.texts)


def _bar(value: float, variance: float, **known: Any) -> tuple[float, float, float]:
    """Return where the ends and the value of an estimate are drawn."""
    tags = read(Estimate(value, 0.0, variance, **known)).tags
    line = [attrs for tag, attrs in tags if tag == "line"][1]
    circle = next(attrs for tag, attrs in tags if tag == "circle")
    return tuple(float(number or "nan") for number in (line["x1"], circle["cx"], line["x2"]))  # type: ignore[return-value]


@pytest.mark.parametrize(("value", "error"), [(100.0, 10.0), (-3.0, 1.0), (1e9, 1.0), (1e-9, 1e-10), (0.0, 5.0)])
def test_intervals_are_drawn_to_scale(value: float, error: float) -> None:
    low, middle, high = _bar(value, error**2)
    assert 0 < low <= middle <= high < 180
    wider = _bar(value, error**2, lowest=value - 100 * error, highest=value + 100 * error)
    assert wider[2] - wider[0] <= high - low + 0.02
    in_range = _bar(0.5, 0.01, lowest=-1.0, highest=1.0)
    ends = Estimate(0.5, 0.0, 0.01, lowest=-1.0, highest=1.0).interval()
    assert in_range == pytest.approx(tuple(6 + 168 * (1 + at) / 2 for at in (ends.low, 0.5, ends.high)), abs=0.01)


def test_what_has_no_end_or_no_value_is_shown() -> None:
    endless = Estimate(10.0, 50.0, 0.0, lowest=0.0, slope=4.0, curvature=2.0)
    assert math.isinf(endless.interval().high)
    assert any(tag == "polyline" for tag, _ in read(endless).tags)
    undefined = Estimates(np.array([math.nan, 1.0]), np.array([math.nan, 1.0]), np.zeros(2), lowest=-1.0, highest=1.0)
    reader = read(undefined)
    assert "undefined" in reader.texts
    assert sum(tag == "svg" for tag, _ in reader.tags) == 1
    read(Estimate(math.nan, math.nan, math.nan))
    read(Estimates(np.zeros(()), np.zeros(()), np.zeros(())))
    read(Estimates(np.zeros((0, 0)), np.zeros((0, 0)), np.zeros((0, 0))))
    read(Estimates(np.zeros((2, 3, 2)), np.ones((2, 3, 2)), np.ones((2, 3, 2))))
