"""The conformance kit is what its builder makes, and the library agrees with every case in it."""

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch import estimation
from streamsketch.agreement import TextRule
from streamsketch.continual import Factorisation, History, Tree
from streamsketch.estimation.joint_estimate import JointEstimates
from streamsketch.features import Features
from streamsketch.local import MeanAggregator, Mechanism, Report
from streamsketch.release.checking.release import check_release
from tests.golden import histories, laws, local_reader, make_kit, table_reader
from tests.golden.kit_releases import load, projection_fields, wrapped

# what these files state is public test data: warnings about noise that does not fit would be beside the point
pytestmark = pytest.mark.filterwarnings("ignore")

KIT: dict[str, list[dict[str, Any]]] = {
    path.stem: json.loads(path.read_text(encoding="utf-8")) for path in make_kit.KIT.glob("*.json")
}
RELEASES = {case["name"]: case for case in KIT["releases"]}
SIGNS = {case["name"]: case for case in KIT["signs"]}
PARSERS: dict[str, Callable[[Any], Any]] = {
    "integer": int,
    "nanoseconds": int,
    "text": str,
    "bytes": bytes.fromhex,
    "date": dt.date.fromisoformat,
    "time": dt.datetime.fromisoformat,
    "float": float,
    "decimal": Decimal,
}


def cases(name: str) -> Any:
    return pytest.mark.parametrize("case", KIT[name], ids=lambda case: case.get("name", "")[:60])


def integers(texts: list[str]) -> list[int]:
    return [int(text) for text in texts]


def release_of(name: str) -> ss.PrivateSketch:
    return ss.PrivateSketch.from_bytes(bytes.fromhex(RELEASES[name]["bytes"]))


def signs_of(name: str) -> Any:
    return getattr(ss.signs, SIGNS[name]["kind"]).from_bytes(bytes.fromhex(SIGNS[name]["bytes"]))


# --- the kit itself -----------------------------------------------------------------------------------------------


def test_no_number_needs_more_than_a_double() -> None:
    """JavaScript and others read every JSON number as one."""

    def check(value: Any) -> None:
        if isinstance(value, dict):
            for one in value.values():
                check(one)
        elif isinstance(value, list):
            for one in value:
                check(one)
        elif type(value) is int:
            assert abs(value) <= 2**53

    check(KIT)


def test_the_kit_has_every_kind_and_place() -> None:
    kinds = {case["fields"]["kind"] for case in KIT["projections"]}
    assert kinds == {json.loads(case["projection"])["kind"] for case in KIT["releases"]}
    assert {case["noise"]["place"] for case in KIT["releases"]} == {"", "input", "hadamard"}
    assert {case["law"]["shape"] for case in KIT["signs"] if "law" in case} == {"constant", "levels", "linear"}
    assert {case["name"] for case in KIT["local"]} >= {case["name"] for case in load("local")}
    assert max(abs(cell) for case in KIT["releases"] for cell in integers(case["cells"])) > 2**60


# --- maps and streams ---------------------------------------------------------------------------------------------


@cases("projections")
def test_projections(case: dict[str, Any]) -> None:
    projection = ss.projections.Projection.from_json(case["json"])
    assert (projection.to_json(), projection.fingerprint) == (case["json"], case["fingerprint"])
    assert projection.scale_squared == pytest.approx(case["scale_squared"], rel=1e-15)
    assert projection.scale_squared == laws.scale_squared(projection_fields(case["json"]))  # to the last digit
    law = projection.variance
    size = law.norms + law.inner + 1e-30
    for name, found in (("a", law.norms), ("b", law.inner), ("c", law.fourth)):
        assert found == pytest.approx(case["variance"][name], rel=1e-15, abs=1e-15 * size)
    indices = [int(column["index"]) for column in case["columns"]]
    for column, dense in zip(case["columns"], projection.columns(indices).T, strict=True):
        assert [[int(row), int(dense[row])] for row in np.flatnonzero(dense)] == column["nonzeros"]


@cases("streams")
def test_streams(case: dict[str, Any]) -> None:
    projection = ss.projections.Projection.from_json(case["projection"])
    keys = [[PARSERS[column["type"]](item) for item in column["items"]] for column in case["keys"]]
    columns = [
        pa.array(items, pa.timestamp("ns")) if column["type"] == "nanoseconds" else items
        for items, column in zip(keys, case["keys"], strict=True)
    ]
    indices = columns[0] if len(columns) == 1 else projection.indices_of(*columns)
    assert projection.indices_of(indices).tolist() == integers(case["indices"])
    values = [PARSERS[case["values"]["type"]](item) for item in case["values"]["items"]]
    sketch = projection.sketch()
    sketch.update(indices, values)
    assert sketch.state().tolist() == integers(case["cells"])
    assert sum(map(abs, integers(case["steps"]))) == sketch.mass == int(case["mass"])
    again = projection.replace(resolution=1).sketch()
    again.update(indices, integers(case["steps"]))
    assert again.state().tolist() == integers(case["cells"])


@cases("features")
def test_features(case: dict[str, Any]) -> None:
    features = Features.from_json(case["features"])
    assert features.to_json() == case["features"]
    rows = pa.table(dict(zip(features.columns, map(pa.array, zip(*case["rows"], strict=True)), strict=True)))
    cells = features.transform(rows) * (1 << 15)
    assert cells.tolist() == [integers(row) for row in case["cells"]]


@cases("people")
def test_people(case: dict[str, Any]) -> None:
    agreement = ss.Agreement.from_json(case["agreement"])
    assert agreement.to_json() == case["agreement"]
    rows = {"person": case["units"]} | dict(zip(["age", "ward"], zip(*case["rows"], strict=True), strict=True))
    if case["times"] is not None:
        is_whole = agreement.rows_rule is not None and agreement.rows_rule.time.type == "integer"
        rows["at"] = [int(time) for time in case["times"]] if is_whole else case["times"]
    sketch = ss.bound(pa.table({name: pa.array(list(column)) for name, column in rows.items()}), agreement)
    assert isinstance(sketch, ss.Sketch)
    assert sketch.state().tolist() == integers(case["cells"])


# --- releases -----------------------------------------------------------------------------------------------------


@cases("releases")
def test_releases_are_read_and_written(case: dict[str, Any]) -> None:
    release = release_of(case["name"])
    assert release.to_bytes().hex() == case["bytes"]
    assert release.projection.to_json() == case["projection"]
    assert release.values.tolist() == integers(case["cells"])
    assert (release.noise.k2, release.noise.k4) == (case["noise"]["k2"], case["noise"]["k4"])
    assert release.noise_place == (case["noise"]["place"] or "output")
    guarantee, stated = release.guarantee, case["guarantee"]
    assert (guarantee.epsilon, guarantee.delta, str(guarantee.mechanism)) == tuple(
        stated[name] for name in ("epsilon", "delta", "mechanism")
    )
    assert list(guarantee.conditions) == stated["conditions"]
    assert (guarantee.basis or "") == stated["basis"]
    relation = stated["neighbours"]
    assert (guarantee.neighbours.kind, guarantee.neighbours.unit) == (relation["kind"], relation["unit"])
    assert (guarantee.neighbours.bound, guarantee.neighbours.max_keys) == (
        Fraction(relation["bound"]),
        relation["max_keys"] or 1,
    )
    assert release.multiplier == Fraction(case["multiplier"])
    assert [one.hex() for one in release.release_ids] == case["release_ids"]
    assert [one.hex() for one in release.data_ids] == case["data_ids"]
    assert release.agreement == case.get("agreement")
    assert release.clip == case.get("clip")
    assert (None if release.counts is None else release.counts.tolist()) == (
        integers(case["counts"]) if "counts" in case else None
    )
    assert sorted((part.count, Fraction(part.multiplier), part.noise.k2) for part in release.parts) == sorted(
        (part["count"], Fraction(part["multiplier"]), part["noise"]["k2"]) for part in case["parts"]
    )


def test_cells_are_the_stream_and_the_noise() -> None:
    for case in KIT["releases"]:
        if "drawn" not in case or case["noise"]["place"] == "hadamard":
            continue
        sketch = ss.projections.Projection.from_json(case["projection"]).replace(resolution=1).sketch()
        for event in case["steps"]:
            sketch.update(*integers(event))
        drawn = integers(case["drawn"])
        if case["noise"]["place"] == "input":
            sketch.update(list(range(len(drawn))), drawn)
            drawn = [0] * sketch.projection.sketch_dim
        exact = sketch.state().tolist()
        if "counts" in case:
            release = release_of(case["name"])
            assert release.layout.counting is not None
            bound = (
                release.guarantee.neighbours.grid_steps(release.projection.grid) if release.layout.counting.slack else 0
            )
            exact += release.layout.counting.weighted(np.array([integers(case["counted"])]), bound)[0].tolist()
        cells = [wrapped(cell + noise) for cell, noise in zip(exact, drawn, strict=True)]
        assert cells == integers(case["cells"]) + integers(case.get("counts", [])), case["name"]


def test_sums_and_multiples_have_these_bytes() -> None:
    made = 0
    for case in KIT["releases"]:
        if "scaled" in case:
            name, factor = case["scaled"]
            found = release_of(name).scaled(Fraction(factor))
        elif "sum" in case:
            first, second, sign, populations = case["sum"]
            x, y = release_of(first), release_of(second)
            found = (x.combine if sign > 0 else x.subtract)(y, populations=populations)
        else:
            continue
        made += 1
        assert found.to_bytes().hex() == case["bytes"], case["name"]
    assert made >= 8


def test_ranges_follow_from_their_rows() -> None:
    made = 0
    for case in KIT["releases"]:
        if "range" in case:
            made += 1
            found, part = History([release_of(name) for name in case["range"]]), case["history"]
            ends, minus = (part["start"], part["stop"]), (part["minus_start"], part["minus_stop"])
            release = found.difference(ends, minus) if minus[1] else found.range(*ends)
            stated = release_of(case["name"])
            assert release.history == stated.history, case["name"]
            assert (release.multiplier, release.guarantee, release.data_ids, release.release_ids) == (
                stated.multiplier, stated.guarantee, stated.data_ids, stated.release_ids
            )  # fmt: skip
            assert release.values.tolist() == stated.values.tolist()
            assert (release.counts is None) == (stated.counts is None)
            assert release.counts is None or release.counts.tolist() == integers(case["counts"])
            assert release.noise.k2 == pytest.approx(stated.noise.k2, rel=1e-12)
            assert release.noise.k4 == pytest.approx(stated.noise.k4, rel=1e-12)
            assert check_release(stated).verdict == "enough"
    assert made == 7


@pytest.mark.parametrize(
    "schedule",
    [
        *(Tree(horizon=horizon, depth=depth) for horizon, depth in ((1, 1), (9, 2), (40, 3), (33, 7))),
        *(Factorisation(horizon=41, blocks=blocks, bits=bits) for blocks, bits in ((2, 3), (3, 8), (50, 12))),
        *(Factorisation(horizon=12, band=band, bits=5) for band in (1, 5, 12)),
    ],
    ids=lambda one: f"{one.words} {one.horizon}",
)
def test_schedules_are_what_the_description_says(schedule: Any) -> None:
    fields = {name: value for name, value in schedule.to_dict().items() if value is not None}
    assert schedule.matrix().tolist() == histories.matrix(fields)
    part = {"start": schedule.horizon // 2, "stop": schedule.horizon, "minus_start": 0, "minus_stop": 0}
    expected = [float(one) for one in histories.weights(fields, part)]
    assert schedule.weights(part["start"], part["stop"]).tolist() == pytest.approx(expected)


# --- estimates ------------------------------------------------------------------------------------------------------


def check_estimate(found: Any, stated: dict[str, Any], name: str) -> None:
    for part in ("value", "projection_variance", "noise_variance", "standard_error"):
        off = abs(getattr(found, part) - stated[part]["value"]) if part in stated else 0.0
        assert off <= stated.get(part, {"within": 0.0})["within"], (name, part)
    low, high = stated["range"]
    assert found.lowest == (-np.inf if low is None else low)
    assert found.highest == (np.inf if high is None else high)
    for interval in stated.get("intervals", ()):
        check_ends(found.interval(interval["confidence"], interval["method"]), interval, name)


def test_estimates() -> None:
    for case in KIT["estimates"]:
        releases = [release_of(name) for name in case["of"]]
        label = f"{case['estimate']} of {case['of']}"
        if case["estimate"] == "pairwise":
            found = ss.pairwise(releases)
            for i, row in enumerate(case["pairs"]):
                for j, stated in enumerate(row):
                    check_estimate(found[i, j], stated, label)
            continue
        if case["estimate"] in ("units", "total"):
            if "undefined" in case:
                with pytest.raises(ss.InvalidInputError):
                    getattr(releases[0], case["estimate"])
            else:
                check_estimate(getattr(releases[0], case["estimate"]), case, label)
            continue
        if "undefined" in case:
            with pytest.raises(ss.InvalidInputError):
                getattr(estimation, case["estimate"])(*releases)
            continue
        norms = dict(zip(("norm_x", "norm_y"), case.get("norms", ()), strict=False))
        check_estimate(getattr(estimation, case["estimate"])(*releases, **norms), case, label)


def check_ends(found: Any, stated: dict[str, Any], name: str) -> None:
    for end, stated_end, none in ((found.low, stated["low"], -np.inf), (found.high, stated["high"], np.inf)):
        expected = none if stated_end is None else stated_end
        assert end == expected or abs(end - expected) <= stated["within"], (name, stated)


def test_frequencies() -> None:
    for case in KIT["frequencies"]:
        release, label = release_of(case["of"][0]), f"{case.get('item', 'missed')} of {case['of']}"
        if "dictionary" in case:
            if "undefined" in case:
                with pytest.raises(ss.InvalidInputError):
                    ss.top(release, integers(case["dictionary"]))
            else:
                check_estimate(ss.top(release, integers(case["dictionary"])).missed, case, label)
            continue
        if len(case["of"]) == 2:
            item, other = int(case["item"]), release_of(case["of"][1])
            (row,) = ss.top_differences(release, other, [item], estimator=case["estimator"]).table.to_pylist()
            found = ss.estimation.Estimate(row["estimate"], row["error"] ** 2, 0.0)
            check_estimate(found, {name: case[name] for name in ("value", "standard_error", "range")}, label)
            check_ends(estimation.Interval(row["low"], row["high"]), case["intervals"][0], label)
            continue
        if "undefined" in case:
            with pytest.raises(ss.InvalidInputError):
                ss.frequency(release, int(case["item"]), estimator=case["estimator"])
            continue
        found = ss.frequency(release, int(case["item"]), estimator=case["estimator"])
        check_estimate(found, case, label)
        together = case["together"]
        check_ends(found.selected_interval(together["candidates"], together["confidence"]), together, label)
        if case["estimator"] == "auto":  # the same numbers, by what is said to be chosen
            again = ss.frequency(release, int(case["item"]), estimator=case["chosen"])
            assert (again, again.interval()) == (found, found.interval())


def test_intervals_that_hold_together() -> None:
    for case in KIT["simultaneous"]:
        releases = [release_of(name) for name in case["of"]]
        norms = dict(zip(("norm_x", "norm_y"), case.get("norms", ()), strict=False))
        if case["estimate"] in ("units", "total"):
            found = getattr(releases[0], case["estimate"])
        else:
            found = getattr(estimation, case["estimate"])(*releases, **norms)
        ends = found.selected_interval(case["candidates"], case["confidence"])
        check_ends(ends, case["interval"], f"{case['estimate']} of {case['of']}")


@cases("joint")
def test_joint_estimates(case: dict[str, Any]) -> None:
    by: Any = {"cosine": "cosine", "squared_distance": "distance", "inner_product": "product"}[case["by"]]
    found = ss.pairwise([release_of(name) for name in case["of"]], by=by, together=True, order=case["order"])
    assert isinstance(found, JointEstimates)
    assert (found.model.target, found.model.strength, found.model.folds) == (case["target"], case["strength"], 2)
    assert abs(found.model.weight - case["weight"]["value"]) <= case["weight"]["within"]
    pairs = np.triu_indices(len(case["of"]), 1)
    low, high = found.interval()
    for name, array in (("value", found.value), ("standard_error", found.standard_error), ("low", low), ("high", high)):
        assert np.abs(array[pairs] - case[name]["value"]).max() <= case[name]["within"], name


@cases("agreements")
def test_agreements(case: dict[str, Any]) -> None:
    if "reason" in case:
        with pytest.raises(ss.InvalidInputError):
            ss.Agreement.from_json(case["json"])
        return
    agreement = ss.Agreement.from_json(case["json"])
    assert (agreement.to_json(), agreement.fingerprint) == (case["json"], case["fingerprint"])
    assert agreement.windows is not None
    assert agreement.windows.to_dict() == json.loads(case["json"])["windows"]
    assert str(agreement.windows) == case["words"]
    assert f"windows of {case['words']}" in str(agreement)


def test_spellings() -> None:
    for case in KIT["spellings"]:
        assert TextRule.from_dict(case["rule"]).apply(case["text"]) == case["spelt"], case["name"]


def test_sameness() -> None:
    for case in KIT["sameness"]:
        found = ss.sameness(*(release_of(name) for name in case["of"]), case["tolerance"])
        assert abs(found.p_value - case["p_value"]["value"]) <= case["p_value"]["within"], case


def test_wide_cells_are_subtracted_as_integers() -> None:
    (case,) = (
        case for case in KIT["estimates"] if case["estimate"] == "squared_distance" and "wide cells, x" in case["of"]
    )
    assert case["value"]["within"] < case["standard_error"]["value"] / 1000


@cases("sign_estimates")
def test_sign_estimates(case: dict[str, Any]) -> None:
    x, y = (signs_of(name) for name in case["of"])
    assert ss.signs.hamming_distance(x, y) == case["hamming"]
    norms = dict(zip(("norm_x", "norm_y"), case["norms"], strict=True))
    check_estimate(ss.signs.angle(x, y, **norms), case["angle"], "angle")
    if "undefined" in case["cosine"]:
        with pytest.raises(ss.InvalidInputError):
            ss.signs.cosine(x, y, **norms)
    else:
        check_estimate(ss.signs.cosine(x, y, **norms), case["cosine"], "cosine")


# --- signs, local reports, refusals -----------------------------------------------------------------------------------


@cases("signs")
def test_signs_are_read_and_written(case: dict[str, Any]) -> None:
    found = signs_of(case["name"])
    assert found.to_bytes().hex() == case["bytes"]
    assert "".join("-+"[int(sign > 0)] for sign in found.signs) == case["signs"]


@cases("local")
def test_local_reports_and_means(case: dict[str, Any]) -> None:
    mechanism, mean = Mechanism.from_json(case["mechanism"]), case["mean"]
    assert mechanism.to_json() == case["mechanism"]
    assert abs(mechanism.squared_error - case["squared_error"]["value"]) <= case["squared_error"]["within"]
    server = MeanAggregator(mechanism)
    for one in case["reports"]:
        report = Report.from_bytes(bytes.fromhex(one["bytes"]), mechanism)
        assert report.to_bytes().hex() == one["bytes"]
        assert report.seed == int(one["seed"])
        server.add(report)
    assert server == MeanAggregator.from_bytes(bytes.fromhex(mean["bytes"]))
    assert (server.count, server.step_exponent) == (mean["count"], mean["step_exponent"])
    assert server.totals.tolist() == integers(mean["totals"])
    assert server.mean() == pytest.approx(mean["value"], rel=mean["within"], abs=mean["within"])


@cases("tables")
def test_tables_are_read(case: dict[str, Any]) -> None:
    kind = {"PrivateTable": ss.PrivateTable, "SignTable": ss.signs.SignTable}[case["kind"]]
    table = kind.from_bytes(bytes.fromhex(case["bytes"]))
    keys = [PARSERS[case["keys"]["type"]](item) for item in case["keys"]["items"]]
    if case["keys"]["type"] == "nanoseconds":
        keys = [dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=key // 1000) for key in keys]  # noqa: DTZ001
    assert list(table) == keys
    assert [release.to_bytes().hex() for release in table.rows] == case["rows"]
    assert table_reader.read_table(table.to_bytes()) == table_reader.read_table(bytes.fromhex(case["bytes"]))


def test_means_of_golden_reports_are_the_golden_ones() -> None:
    """The golden bytes were written by the library's first version."""
    for golden in load("local"):
        fields = json.loads(golden["mechanism"])
        seed, values = local_reader.read_report(bytes.fromhex(golden["report"]), fields)
        totals = local_reader.steps_of(seed, values, fields)
        assert local_reader.read_mean(bytes.fromhex(golden["server"])) == (fields, 1, totals), golden["name"]
        assert local_reader.write_mean(fields, 1, totals).hex() == golden["server"], golden["name"]
        assert local_reader.mean_of(fields, 1, totals) == pytest.approx(golden["mean"], rel=1e-12, abs=1e-15)


def read_by_the_library(case: dict[str, Any]) -> Any:
    data = bytes.fromhex(case["bytes"])
    if case["kind"] == "LocalReport":
        return Report.from_bytes(data, Mechanism.from_json(case["mechanism"]))
    readers = {"PrivateSketch": ss.PrivateSketch, "PrivateTable": ss.PrivateTable, "LocalMean": MeanAggregator}
    return (readers.get(case["kind"]) or getattr(ss.signs, case["kind"])).from_bytes(data)


@cases("refused")
def test_what_must_be_refused_is(case: dict[str, Any]) -> None:
    with pytest.raises(ss.errors.WireFormatError):
        read_by_the_library(case)
