"""The picture of changes, and the section on them."""

import math
import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.report import page_of, picture_of_changes

SVG = "{http://www.w3.org/2000/svg}"
PROJECTION = ss.SJLT(sketch_dim=32, sparsity=4, seed=3)


def changes_of(estimates: list[float], alarms: tuple[int, ...] = (), *, windows: Any = None, **ends: Any) -> Any:
    """Return what `streamsketch.changes` does, with these estimates."""
    names = windows or [f"2024-{month:02}" for month in range(2, 2 + len(estimates))]
    rows = [
        {
            "window": name,
            "before": "",
            "estimate": value,
            "error": 10.0,
            "low": value - 20,
            "high": value + 20,
            "p_value": 0.5,
            "line": 100.0,
            "alarm": place in alarms,
        }
        | {end: at[place] for end, at in ends.items()}
        for place, (name, value) in enumerate(zip(names, estimates, strict=True))
    ]
    table = pa.Table.from_pylist(rows)
    return SimpleNamespace(table=table, by="distance", against="previous", level=0.05)


def drawn(**series: Any) -> ET.Element:
    return ET.fromstring(picture_of_changes(series))  # noqa: S314 - our own


def of_class(picture: ET.Element, name: str) -> list[ET.Element]:
    return [one for one in picture.iter() if one.get("class") == name]


def points_of(one: ET.Element) -> list[tuple[float, float]]:
    return [tuple(map(float, point.split(","))) for point in one.attrib["points"].split()]  # type: ignore[misc]


def test_curve_band_line_and_alarms_are_drawn_to_scale() -> None:
    picture = drawn(north=changes_of([0.0, 50.0, 200.0, 100.0], alarms=(2,)))
    (curve,) = of_class(picture, "curve")
    zero, fifty, top, middle = (y for _, y in points_of(curve))
    assert zero - fifty == pytest.approx((fifty - top) / 3, abs=0.2)
    assert zero - middle == pytest.approx((zero - top) / 2, abs=0.2)
    across = [x for x, _ in points_of(curve)]
    assert across[1] - across[0] == pytest.approx((across[2] - across[1]) * 29 / 31, abs=0.2), "February is short"
    (line,) = of_class(picture, "limit")
    assert {y for _, y in points_of(line)} == {middle}
    (band,) = of_class(picture, "band")
    assert len(points_of(band)) == 2 * (4 + 2)
    (alarm,) = of_class(picture, "alarm")
    assert (float(alarm.attrib["cx"]), float(alarm.attrib["cy"])) == (across[2], top)
    assert [one.text for one in of_class(picture, "alarm-name")] == ["2024-04"]
    assert len(of_class(picture, "point")) == 3
    assert [one.text for one in of_class(picture, "name")] == ["north"]


def test_what_is_not_known_is_a_gap_and_what_has_no_end_reaches_the_edge() -> None:
    nan, inf = math.nan, math.inf
    found = changes_of([1.0, nan, 3.0, 4.0], low=[-inf, nan, 0.0, 1.0], high=[5.0, nan, inf, 6.0], line=[nan] * 4)
    picture = drawn(north=found)
    assert [len(points_of(one)) for one in of_class(picture, "curve")] == [1, 2]
    assert not of_class(picture, "limit")
    heights = [y for one in of_class(picture, "band") for _, y in points_of(one)]
    assert (min(heights), max(heights)) == (30.0, 30.0 + 260.0)
    assert "nan" not in ET.tostring(picture, encoding="unicode")


@pytest.mark.parametrize("count", [1, 2, 40, 500])
def test_names_on_the_axis_have_room_and_are_evenly_apart(count: int) -> None:
    names = [f"2024-05-01T{number // 60:02}{number % 60:02}Z" for number in range(count)]
    alarms = tuple(range(0, count, 3))
    picture = drawn(north=changes_of([1.0] * count, alarms, windows=names))
    ticks = [one for one in picture.iter(f"{SVG}text") if one.text in names and one.get("class") is None]
    shown = [names.index(str(one.text)) for one in ticks]
    assert len({second - first for first, second in pairwise(shown)}) <= 1
    assert 1 <= len(shown) <= 7
    assert len(of_class(picture, "alarm")) == len(alarms)
    assert len(of_class(picture, "alarm-name")) <= 12


def test_each_key_has_a_panel_and_windows_may_have_any_names() -> None:
    assert of_class(drawn(north=changes_of([1.0, 2.0], alarms=(1,), windows=[0, 1])), "alarm-name")[0].text == "1"
    picture = drawn(north=changes_of([1.0, 2.0], windows=["before", "after"]), south=changes_of([5e6, 7e6]))
    assert [one.text for one in of_class(picture, "name")] == ["north", "south"]
    assert "Squared distance, in millions, from the window before" in ET.tostring(picture, encoding="unicode")
    assert picture_of_changes({"": changes_of([0.0])}).count("<polyline") == 2
    escaped = picture_of_changes({"<b>\x1b": changes_of([0.0], windows=["<i>"])})
    assert "<b>" not in escaped
    assert "<i>" not in escaped
    for wrong in ({}, {str(number): changes_of([0.0]) for number in range(25)}):
        with pytest.raises(ss.InvalidInputError, match="a picture has 1 to 24 keys"):
            picture_of_changes(wrong)


# --- the report ------------------------------------------------------------------------------------------------


def release(tea: int) -> ss.PrivateSketch:
    sketch = PROJECTION.sketch()
    sketch.update(["tea", "salt"], [tea, 40])
    return sketch.release(epsilon=10.0, neighbours=ss.L1(1, unit="sale"))


def test_a_report_of_windows_has_their_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    bits = KeyedBits(bytes(32), b"changes")  # the same noise each time, as 5 % of series have a false alarm
    monkeypatch.setattr("streamsketch.release.ready.SystemBits", lambda: bits)
    found = {f"north 2024-{month:02}": release(90 if month < 4 else 50) for month in range(1, 7)}
    found |= {"south 2024-01": release(30), "south 2024-02": release(60), "west 2024-01": release(80)}
    shown = page_of(found, title="Shops")
    assert "<h2>Changes</h2>" in shown
    assert "<strong>Alarms:</strong> north 2024-04, south 2024-02." in shown
    rows = re.findall(r'<td class="name">(2024-\d\d)</td>(?:<td>[^<]*</td>){5}<td>(\w*)</td>', shown)
    assert rows == [(f"2024-{month:02}", "alarm" if month == 4 else "") for month in range(2, 7)] + [
        ("2024-02", "alarm")
    ]
    assert shown.count('class="curve"') == 2
    for others in ({"all": release(1)}, {}):
        names = list(found)[-1:] if not others else list(found)
        some = {name: found[name] for name in names} | others | ({} if others else {"east 2024-01": release(80)})
        assert "<h2>Changes</h2>" not in page_of(some, title="Shops")


def test_a_report_by_cosines_has_changes_of_the_mix_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    bits = KeyedBits(bytes(32), b"changes of the mix")
    monkeypatch.setattr("streamsketch.release.ready.SystemBits", lambda: bits)

    def month(*sold: int) -> ss.PrivateSketch:
        sketch = PROJECTION.sketch()
        sketch.update(["tea", "salt"], sold)
        return sketch.release(epsilon=10.0, neighbours=ss.L1(1, unit="sale"))

    found = {"2024-11": month(900, 400), "2024-12": month(450, 200)}
    assert "<strong>Alarm:</strong> 2024-12." in page_of(found, title="Shop", by="distance")
    shown = page_of(found, title="Shop", by="cosine")
    assert "The profile distance of each window from the one before." in shown
    assert "There is none." in shown
    found |= {"2025-01": month(0, 0), "2025-02": month(450, 300), "2025-03": month(900, 100)}
    shown = page_of(found, title="Shop", by="profile")
    assert "<strong>Alarm:</strong> 2025-03." in shown
    assert shown.count("<td>undefined</td>") == 2, "nothing is below the noise floor, and raises no alarm"
