"""The picture of the keys of a plan."""

import dataclasses
import xml.etree.ElementTree as ET
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.planning import TypicalUnit, UnitPlan, plan_units
from streamsketch.report import picture_of_keys

SVG = "{http://www.w3.org/2000/svg}"


def planned(units: Any, **asked: Any) -> UnitPlan:
    return plan_units(
        TypicalUnit(items=20, match=0.004), units=units, epsilon=1.0, delta=1e-6, unit="buyer", max_cells=64, **asked
    )


def drawn(plan: UnitPlan) -> ET.Element:
    return ET.fromstring(picture_of_keys(plan))  # noqa: S314 - our own


def widths(picture: ET.Element) -> list[float]:
    return [float(bar.attrib["width"]) for bar in picture.iter(f"{SVG}rect")][1:]


def test_bars_are_keys_largest_first_with_their_probabilities() -> None:
    plan = planned({"small": 5, "<b>large</b>": 4_000, "middle": 60})
    picture = drawn(plan)
    assert widths(picture) == sorted(widths(picture), reverse=True)
    texts = [text.text for text in picture.iter(f"{SVG}text")]
    assert [text for text in texts if text in ("small", "<b>large</b>", "middle")] == [
        "<b>large</b>",
        "middle",
        "small",
    ]
    chances = [f"{100 * key.below:.0f} %" for key in sorted(plan.keys, key=lambda key: -key.units)]
    assert [text for text in texts if text in chances and text != "5 %"] == chances
    colours = [bar.attrib["fill"] for bar in picture.iter(f"{SVG}rect")][1:]
    assert len(set(colours)) == 3


def test_lines_mark_how_many_units_it_takes() -> None:
    plan = planned([4_000.0, 60.0, 5.0])
    plan = dataclasses.replace(plan, units=(4_000.0, plan.least_units(), 5.0))
    picture = drawn(plan)
    line = next(one.attrib["d"] for one in picture.iter(f"{SVG}path") if one.get("stroke") == "#b35900")
    assert float(line[1:].split()[0]) == pytest.approx(170 + widths(picture)[1], abs=0.2)


def test_many_keys_and_one_key_have_a_picture() -> None:
    many = drawn(planned({f"k{place}": 2.0 + place**2 for place in range(500)}))
    assert len(widths(many)) == 60
    assert "60 of 500 keys" in ET.tostring(many, encoding="unicode")
    assert len(widths(drawn(planned(1e15)))) == 1
    assert "without an average" in picture_of_keys(planned([50.0, 500.0], question="mean"))


def test_other_questions_have_none() -> None:
    with pytest.raises(ss.InvalidInputError, match="this plan is for a point"):
        picture_of_keys(planned([50.0, 500.0], question="point"))
