"""What streams are compared by is a line of one table: toys of another kind appear wherever streams are compared."""

import dataclasses
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.beam import comparison_schema
from streamsketch.cli._pairs import SketchPairs
from streamsketch.estimation import Estimates
from streamsketch.estimation.blocks import Block
from streamsketch.estimation.distances import distances_between
from streamsketch.estimation.measures import MEASURES, By, Measure, Need
from streamsketch.report import page_of
from streamsketch.report.choice import choose
from streamsketch.report.pairs import pairs_of
from streamsketch.report.pictures import display_unit, heat_map, scale_of
from streamsketch.report.standing import Groups, answer

LARGE = 150.0


def halved(rows: Block, columns: Block, same: bool) -> Estimates:  # noqa: FBT001 - as `Measure.between` is called
    whole = distances_between(rows, columns, same=same)
    return Estimates(whole.value / 2, whole.projection_variance / 4, whole.noise_variance / 4, lowest=0.0)


def nearness(rows: Block, columns: Block, same: bool) -> Estimates:  # noqa: FBT001 - as above
    """Return 3 - d/1000, within [-1, 3], of the distances d: the greatest is the nearest."""
    whole = distances_between(rows, columns, same=same)
    parts = 3 - whole.value / 1e3, whole.projection_variance / 1e6, whole.noise_variance / 1e6
    return Estimates(*parts, lowest=-1.0, highest=3.0)


HALF = Measure(
    "half distance", halved, "Halves of squared distances. They are for tests alone.", of_what="half streams"
)
NEAR = Measure(
    "nearness",
    nearness,
    "How near streams are. They are for tests alone.",
    plural="nearnesses",
    sign=-1,
    limits=(-1.0, 3.0),
    in_common=1.0,
    squares="half",  # type: ignore[arg-type]
    needs=Need(lambda block, _: block.squared_norms < LARGE, "toy norms", "less than a toy needs"),
)


@pytest.fixture
def releases() -> dict[str, ss.PrivateSketch]:
    projection = ss.CountSketch(sketch_dim=256, seed=1)
    found = {}
    for name, count in (("a", 500), ("b", 900), ("c", 700), ("small", 90)):
        sketch = projection.sketch()
        sketch.update([str(i) for i in range(count)], 1)
        found[name] = sketch.release(epsilon=8.0, neighbours=ss.L1(1))
    return found


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    toys: dict[Any, Measure] = {"half": HALF, "near": NEAR}
    for name, measure in toys.items():
        monkeypatch.setitem(MEASURES, name, measure)


def test_measures_have_the_names_that_are_typed() -> None:
    assert get_args(By) == tuple(MEASURES)[:-2]


def test_an_unknown_measure_is_told_of_all() -> None:
    with pytest.raises(ss.InvalidInputError, match=r"by must be 'distance'.*'half' or 'near', got 'size'"):
        ss.pairwise([ss.CountSketch(sketch_dim=8, seed=1).sketch()] * 2, by="size")  # type: ignore[arg-type]


@pytest.mark.parametrize(("by", "column"), [("half", "half_distance"), ("near", "nearness")])
def test_a_further_measure_is_computed_everywhere(releases: dict[str, ss.PrivateSketch], by: Any, column: str) -> None:
    distances = ss.pairwise(releases.values()).value
    expected = {"half": distances / 2, "near": 3 - distances / 1e3}[by]
    assert np.allclose(ss.pairwise(releases.values(), by=by).value, expected)
    assert comparison_schema(pa.string(), by=by).names[2] == column
    assert column in SketchPairs(releases, by).fields((0, 1), 0.95)
    nearest = np.unravel_index(np.argmin(distances + np.diag([np.inf] * 4)), (4, 4))
    assert ss.linkage(releases.values(), by=by, draws=2).members(0) == sorted(nearest)


def test_its_heading_and_paragraph_are_on_the_page(releases: dict[str, ss.PrivateSketch]) -> None:
    by: Any
    for by, heading in (("half", "All half distances"), ("near", "All nearnesses")):
        page = page_of(releases, title="Toys", by=by)
        assert f"<h2>{heading}</h2>" in page
        assert f"<p>{MEASURES[by].about}</p>" in page
        for other in MEASURES.keys() - {by}:
            assert MEASURES[other].about not in page
        assert "of half streams: nearby points" in page, "the map's distances"
        biased = "the greatest of many estimates is biased up" if by == "near" else "the least of many estimates is"
        assert biased in page


def test_a_help_text_is_the_first_sentence() -> None:
    assert (HALF.help, NEAR.help) == ("Halves of squared distances.", "How near streams are.")
    assert MEASURES["cosine"].help.endswith("0 for streams with nothing in common.")


def test_its_map_is_of_its_squares(releases: dict[str, ss.PrivateSketch]) -> None:
    by: Any
    for by in ("half", "near"):
        chosen = choose(list(releases.values()), by)
        kept = [list(releases.values())[place] for place in chosen.kept]
        assert np.allclose(chosen.squares.value, ss.pairwise(kept).value / 2)


def test_what_it_needs_is_told_where_it_is_lacking(
    releases: dict[str, ss.PrivateSketch], capsys: pytest.CaptureFixture[str]
) -> None:
    near: Any = "near"
    page = page_of(releases, title="Toys", by=near)
    assert "the toy norms of 1 of the streams are less than a toy needs." in page
    assert "the squared norms of" not in page
    SketchPairs(releases, near).say_notes([])
    said = " ".join(capsys.readouterr().err.split())
    assert "Without nearnesses, as the toy norms are less than a toy needs" in said
    assert said.endswith("small.")
    assert [SketchPairs(releases, near).is_defined((0, place)) for place in (1, 2, 3)] == [True, True, False]
    half: Any = "half"
    assert SketchPairs(releases, half).is_defined((0, 3)), "it needs nothing"
    few = {name: releases[name] for name in ("a", "small")}
    assert choose(list(few.values()), near).by == "distance", "fewer than two have it"
    assert choose(list(few.values()), half).by == half


def test_a_need_of_which_nothing_can_take_the_place_is_refused(
    releases: dict[str, ss.PrivateSketch], monkeypatch: pytest.MonkeyPatch
) -> None:
    near: Any = "near"
    assert NEAR.needs is not None
    strict = dataclasses.replace(NEAR, needs=dataclasses.replace(NEAR.needs, refusal="no toy norms"))
    monkeypatch.setitem(MEASURES, near, strict)
    with pytest.raises(ss.InvalidInputError, match="no toy norms"):
        page_of({name: releases[name] for name in ("a", "small")}, title="Toys", by=near)


def test_its_scale_and_units_follow_from_its_limits() -> None:
    by: Any
    for by, (first, last), linear in (("half", (10.0, 1000.0), False), ("near", (3.0, -1.0), True)):
        middle = (first + last) / 2
        values = np.array([[0, first, middle], [first, 0, last], [middle, last, 0.0]])
        pairs = pairs_of(Estimates(values, 0 * values, 0 * values + 1e-4))
        scale = scale_of(pairs, by)
        assert scale.logarithmic is not linear
        if linear:
            assert (scale.nearest, scale.farthest) == pytest.approx((3.0, -1.0), abs=0.1)
        million = pairs_of(Estimates(1e6 * values, 0 * values, 0 * values + 1.0))
        assert display_unit(million, by)[1] == ("" if linear else "millions")
        shown = heat_map(["x", "y", "z"], pairs, [0, 1, 2], by, scale)["rows"][0][1][1]["shown"]
        assert shown == ("3.00" if linear else "10.000")
    with pytest.raises(ValueError, match="state squares"):
        dataclasses.replace(NEAR, squares=None)
    with pytest.raises(ValueError, match="in_common"):
        dataclasses.replace(NEAR, in_common=None)


def test_alike_and_apart_are_told_by_what_the_measure_says(releases: dict[str, ss.PrivateSketch]) -> None:
    names = list("xyz")
    value = np.array([[3, 2.5, 0], [2.5, 3, 0.5], [0, 0.5, 3]])
    exact = Estimates(value, 0 * value, 0 * value + 1e-4)
    chosen = dataclasses.replace(choose(list(releases.values())[:3], "near"), estimates=exact, squares=exact)  # type: ignore[arg-type]
    alike = answer(names, chosen, Groups([], [], alike=False), drawn=True)
    assert alike.short == "1 of 3 pairs has something in common, most surely x and y."
    assert "the nearness of each of them is above 1, the value for streams with nothing in common" in alike.detail
    apart = answer(names, dataclasses.replace(chosen, by="half"), Groups([], [], alike=False), drawn=True)  # type: ignore[arg-type]
    assert "2 of 3 pairs differ beyond the noise" in apart.short
    assert "is above 0, and the intervals" in apart.detail


def test_a_range_with_two_ends_is_no_cosine() -> None:
    """Of a selected estimate the interval is that at Bonferroni's quantile, and a cosine's only where it says so."""
    arrays = np.array([2.9]), np.array([0.04]), np.array([0.01])
    plain = Estimates(*arrays, lowest=-1.0, highest=3.0)
    usual = plain.interval(1 - 0.05 / 40)
    selected = plain.selected_interval(40)
    assert (selected.low[0], selected.high[0]) == pytest.approx((usual.low[0], usual.high[0]))
    assert plain[0].selected_interval(40).low == pytest.approx(usual.low[0])
    cosine = dataclasses.replace(plain, error_law="cosine")
    assert cosine.selected_interval(40).low[0] < selected.low[0] - 0.05
    assert (
        cosine[0].scaled(2.0).error_law
        == cosine.as_secret()[0].error_law
        == cosine.with_parts(*cosine.parts()).error_law
        == "cosine"
    )


@pytest.mark.parametrize("by", ["cosine", "profile"])
def test_cosines_have_the_intervals_of_cosines(releases: dict[str, ss.PrivateSketch], by: Any) -> None:
    assert ss.pairwise(releases.values(), by=by).error_law == "cosine"
    assert ss.pairwise(releases.values()).error_law == "auto"
