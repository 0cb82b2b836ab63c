"""Figures in the text of pages are what the library computes, or what `benchmarks/results` has from a run."""

import ast
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from packaging.requirements import Requirement
from sklearn.datasets import load_digits

import streamsketch as ss
from benchmarks import markdown, rendering
from pipelines.data.make_products import orders
from streamsketch import continual
from streamsketch.features import Embedding
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from tests.cli.running import ROOT


def page(name: str) -> str:
    """Return a page's text, without the breaks of its lines."""
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def rows_of(name: str, heading: str) -> list[list[str]]:
    """Return the cells of the rows of the table whose first line begins with a heading."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return _cells(text[text.index(f"| {heading} |") :])


def result_of(study: str) -> dict[str, Any]:
    """Return what is kept of a benchmark's or study's last run."""
    return rendering.result_of(study, ROOT / "benchmarks")


def measured(study: str, title: str) -> list[dict[str, str]]:
    """Return the rows of a study's table whose title begins so, as texts by the names of their columns."""
    ((_, columns, rows, _),) = (table for table in markdown.tables(result_of(study)) if table[0].startswith(title))
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _split(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]


def _cells(text: str) -> list[list[str]]:
    lines = text.split("\n\n", maxsplit=1)[0].splitlines()[2:]
    return [_split(line) for line in lines]


def number(text: str) -> float:
    return float(text.replace(",", "").replace("\N{MINUS SIGN}", "-").removesuffix(" %"))


def test_the_demo_installs_as_many_packages_as_its_lock_names() -> None:
    """On Linux with Python 3.11, which the README's numbers are for."""
    lines = (ROOT / "pipelines/requirements.lock").read_text().splitlines()
    found = [Requirement(line.partition("\\")[0]) for line in lines if line[:1].isalnum()]
    here = {"sys_platform": "linux", "python_version": "3.11", "python_full_version": "3.11.2"}
    installed = [one for one in found if one.marker is None or one.marker.evaluate(here)]
    assert f"({len(installed)} packages, " in page("README.md")


def test_what_a_count_of_customers_costs_the_other_cells() -> None:
    projection = ss.CountSketch(sketch_dim=512, resolution="1/16384", seed=1)
    limit = ss.SketchL2(1, unit="customer", max_keys=1)
    weight = ss.privacy.Counting.of(projection, limit, delta=1e-6).units  # in steps, of which a vote has 2^14
    assert f"{math.hypot(1, weight / 2**14) - 1:.0%}" == "3%"
    assert "makes the noise of the others 3 % larger" in page("docs/tutorials/customers.md")


def test_airlines_stand_out_by_the_lengths_of_their_months() -> None:
    flights = pd.read_parquet(ROOT / "pipelines/data/flights.parquet", columns=["carrier", "route"])
    for name, monthly, routes, length, _ in rows_of("docs/tutorials/what-changed.md", "airline"):
        carrier = name.partition("(")[2].rstrip(")") or {"SkyWest (OO)": "OO"}[name]
        own = flights.loc[flights["carrier"] == carrier, "route"]
        assert number(monthly) == pytest.approx(len(own) / 12, abs=0.5)
        assert number(routes) == own.nunique()
        assert number(length) == pytest.approx(len(own) / 12 / math.sqrt(own.nunique()), abs=0.6)
    assert "32 flights a year" in page("docs/tutorials/what-changed.md")
    assert (flights["carrier"] == "OO").sum() == 32


@pytest.mark.parametrize("name", ["docs/tutorials/what-changed.md", "docs/how-to/choose-epsilon-and-bounds.md"])
def test_how_often_an_aircraft_flies(name: str) -> None:
    flights = pd.read_parquet(ROOT / "pipelines/data/flights.parquet", columns=["tailnum"])["tailnum"].value_counts()
    assert f"{flights[flights > 0].mean():.0f} times" in page(name)
    if "at most" in page(name).partition("83 times")[2][:40]:
        assert f"at most {flights.max()} times" in page(name)


def test_what_signs_keep_of_digits() -> None:
    pixels, digit = load_digits(return_X_y=True)
    answers = pixels.astype(int) - 8
    archive, clinic = answers[:1400], answers[1400:]
    lengths = [np.linalg.norm(rows, axis=1, keepdims=True) for rows in (archive, clinic)]
    cosines = (clinic / lengths[1]) @ (archive / lengths[0]).T
    right = (digit[:1400][cosines.argmax(axis=1)] == digit[1400:]).mean()
    assert f"With the exact answers, the share is {right:.0%}".replace("%", " %") in page("docs/tutorials/alike.md")

    shares = (64 - np.sign(clinic) @ np.sign(archive).T) / 128  # an answer of 0 gets a random sign: half of it differs
    bias = np.degrees((math.pi * shares - np.arccos(cosines.clip(-1, 1))).mean())
    assert f"about {-bias:.0f}° too small" in page("docs/tutorials/alike.md")

    flipped = 1 / (math.exp(4) + 1)
    differ = 1 / 3 * (1 - 2 * flipped) + flipped
    error = 180 * math.sqrt(differ * (1 - differ) / 64) / (1 - 2 * flipped)
    assert f"± {error:.0f}° at 60°" in page("docs/tutorials/alike.md")


MECHANISMS: dict[str, Callable[[], ss.local.Mechanism]] = {
    "`PrivUnit`, `PrivUnitG`": lambda: ss.local.PrivUnitG(dim=32_768, epsilon=10.0),
    "`ProjUnit(sketch_dim=1000)`": lambda: ss.local.ProjUnit(dim=32_768, sketch_dim=1000, epsilon=10.0, seed=1),
    "`ProjUnit(sketch_dim=1000, compressed=True)`": lambda: ss.local.ProjUnit(
        dim=32_768, sketch_dim=1000, epsilon=10.0, compressed=True, seed=1
    ),
    "`SQKR`": lambda: ss.local.SQKR(dim=32_768, epsilon=10.0, seed=1),
    "`RePrivHS`": lambda: ss.local.RePrivHS(dim=32_768, epsilon=10.0),
    "`PrivHS`": lambda: ss.local.PrivHS(dim=32_768, epsilon=10.0),
    "`GaussianMechanism(delta=1e-6)`": lambda: ss.local.GaussianMechanism(dim=32_768, epsilon=10.0, delta=1e-6),
}


def test_the_errors_of_local_mechanisms() -> None:
    rows = rows_of("docs/tutorials/phones.md", "mechanism")
    assert {name for name, *_ in rows} == MECHANISMS.keys()
    for name, _, error, _ in rows:
        assert number(re.match(r"[\d,]+", error)[0]) == pytest.approx(  # type: ignore[index]
            MECHANISMS[name]().expected_squared_error(1), rel=0.001
        ), name


def test_the_noise_of_ranges_of_time() -> None:
    text = page("docs/how-to/ranges-of-time.md")
    assert f"a week of hours has {math.sqrt(7 * 24):.0f} times" in text
    assert f"a year {math.sqrt(365 * 24):.0f} times" in text
    year = continual.Factorisation(horizon=365 * 24)
    assert round(year.worst_error(7 * 24)) == round(year.worst_error()) == 4
    assert "about 4 times the noise of one hour" in text
    assert f"a single hour has {year.worst_error(1):.1f} times the noise of a separate release" in text
    for _, schedule, root, separate in rows_of("docs/how-to/ranges-of-time.md", "a unit is in"):
        name, given = re.fullmatch(r"`(\w+)\((.*)\)`", schedule).groups()  # type: ignore[union-attr]
        who = {word: ast.literal_eval(value) for word, value in (one.split("=") for one in given.split(", "))}
        assert name == ("Separate" if number(separate) < number(root) else "Factorisation")
        for kind, shown in ((continual.Factorisation, root), (continual.Separate, separate)):
            assert number(shown) == float(f"{kind(**who).worst_error():.{2 if number(shown) < 100 else 3}g}")


def test_what_other_noise_would_cost() -> None:
    """Laplace noise on people, and Gaussian noise where the rule keeps Laplace."""
    people = ss.CountSketch(sketch_dim=256, resolution="1/16384", seed=1)
    limit = ss.SketchL2(1, unit="customer", max_keys=3)
    gaussian, laplace = ss.accounting.mechanisms(people, epsilon=1, delta=1e-6, neighbours=limit)
    assert isinstance(gaussian.noise, DiscreteGaussian)
    assert isinstance(laplace.noise, DiscreteLaplace)
    wider = math.sqrt(2) * float(laplace.noise.scale) / math.sqrt(gaussian.noise.sigma_squared)
    assert round(wider) == 9
    assert "nine times as wide for 256 cells and people in up to three keys" in page("docs/reference/api/bounds.md")

    projection = ss.SJLT(dim=4096, sketch_dim=1024, sparsity=8, seed=1)
    other = ss.accounting.mechanisms(projection, epsilon=1, delta=1e-6, neighbours=ss.L1(1))[1]
    assert other.mechanism == "gaussian"
    assert f"a smaller error, ± {math.sqrt(other.variance):,.0f}" in page("docs/how-to/choose-projection.md")


def test_shops_with_few_customers() -> None:
    """What noise and samples do to distances of average baskets, and the shares that the invented data have."""
    text = page("docs/tutorials/embeddings.md")
    features = ss.Features({"embedding": Embedding(384, waves=32, width=1.0)}, seed=2036)
    products = pq.read_table(ROOT / "pipelines/data/products.parquet")
    lines = orders()
    lines = lines.append_column("embedding", products["embedding"].take(lines["product"].combine_chunks()))
    agreement = ss.agree(lines.schema, features=features, unit="customer")
    ash = ss.bound(lines.filter(pc.equal(lines["shop"], "ash")), agreement)
    assert isinstance(ash, ss.Sketch)
    assert agreement.neighbours is not None
    release = ash.release(epsilon=1.0, delta=1e-6, neighbours=agreement.neighbours)

    cell = math.sqrt(release.noise.k2) * release.cell_unit
    few, many = (math.sqrt(2 * features.dim) * 2 * (cell / people) ** 2 for people in (500, 2000))
    assert f"± {few:.4f} if each has 500 customers, and of ± {many:.4f} if each has 2,000" in text
    at_ash = lines.filter(pc.equal(lines["shop"], "ash"))
    customers = pd.DataFrame(features.transform(at_ash)).groupby(at_ash["customer"].to_numpy()).mean()
    assert 2 * customers.var(ddof=0).sum() == pytest.approx(0.35, abs=0.01)
    assert "about 0.35 divided by the number of customers" in text

    kind = products["kind"].take(lines["product"].combine_chunks())
    bought = pd.DataFrame({"shop": lines["shop"].to_numpy(), "customer": lines["customer"].to_numpy(), "kind": kind})
    counts = pd.crosstab([bought["shop"], bought["customer"]], bought["kind"], normalize="index")
    shares = counts.groupby("shop").mean()
    assert f"garden goods is {shares.loc['cedar', 'garden'] - shares.loc['ash', 'garden']:.2f} larger" in text
    assert f"office goods is {shares.loc['elm', 'office'] - shares.loc['ash', 'office']:.2f} larger" in text


def test_bounds_of_aircraft_as_measured() -> None:
    table = rows_of("docs/how-to/choose-epsilon-and-bounds.md", "bound on one aircraft | 3 | 10 | 30 | 100 | 300")
    rows = {row[0]: row[1:] for row in table}
    found = [row for row in measured("bounding", "ε = 1") if row["index"] == "route"]
    cosine, cut = (
        [float(row["cosine to the unbounded airline, mean"]) for row in found if row["clip"] == clip]
        for clip in ("scale", "cut")
    )
    scaled = [row for row in found if row["clip"] == "scale"]
    assert [number(cell) for cell in rows["flights kept, in %"]] == [
        round(100 * float(row["share of flights kept"])) for row in scaled
    ]
    for name, values in zip(list(rows)[1:3], (cosine, cut), strict=True):
        assert [number(cell) for cell in rows[name]] == pytest.approx(values, abs=0.0006)
    for name, column in (
        ("bias from clipping, in %", "bias of a squared distance"),
        ("standard error from the noise, in %", "its noise (standard error)"),
    ):
        for cell, row in zip(rows[name], scaled, strict=True):
            assert number(cell) == pytest.approx(100 * number(row[column]), rel=0.06, abs=0.05)


def test_errors_of_people_as_measured() -> None:
    name = "docs/reference/api/bounds.md"
    first = next(line for line in (ROOT / name).read_text().splitlines() if line.startswith("| median number of items"))
    rows = {row[0]: row[1:] for row in rows_of(name, first.strip("| "))}
    every = measured("people", "Six sites of 500 people, by items")
    sites = [row for row in every if row["question"] == "cosine" and row["ε"] == "1"]
    assert first.strip("| ").split(" | ")[1:] == [row["items of a typical person"] for row in sites]
    for title, column in (
        ("`L1`, Laplace noise", "best L1, Laplace"),
        ('`SketchL2`, `clip="equal"`', "best sketch L2, equal"),
    ):
        assert rows[title] == [f"{float(row[column]):.2f}" for row in sites]

    found = measured("people", "δ = ")
    shop = {row["question"]: row for row in found if row["data"] == "shop" and row["ε"] == "1"}
    cosine, distance = shop["cosine"], shop["squared distance"]
    limited, equal = float(cosine["best L1, Laplace"]), float(cosine["best sketch L2, equal"])
    assert f'is {limited:.2f} with `L1` and {equal:.2f} with `clip="equal"`' in page(name)
    limited, scaled = float(distance["best L1, Laplace"]), float(distance["best sketch L2, scale"])
    assert f'errors of {limited:.0%} with `L1` and {scaled:.0%} with `clip="scale"`'.replace("%", " %") in page(name)


def test_planned_probabilities_as_measured() -> None:
    found = re.search(r"differ from the frequencies of 300 releases by ([\d.]+) at most", result_of("keys")["finding"])
    assert found is not None
    stated = re.search(r"they were wrong by at most ([\d.]+) if", page("docs/how-to/choose-epsilon-and-bounds.md"))
    assert stated is not None
    assert 0 <= float(stated[1]) - float(found[1]) < 0.01


def test_populations_as_measured() -> None:
    found = measured("populations", "Share of draws in which samples of patients")
    shares = {(number(row["people"]), row["class, times as frequent"]): row for row in found}
    for people, times, ours, classifier in rows_of("docs/reference/api/features.md", "patients a site"):
        row = shares[number(people), {"no": "1", "twice": "2"}.get(times, times.removesuffix(" times"))]
        assert number(ours) == pytest.approx(100 * float(row["features, 5%"]), abs=0.51)
        assert number(classifier) == pytest.approx(100 * float(row["classifier, 5%"]), abs=0.51)


def test_streams_under_load_as_measured() -> None:
    text = page("docs/reference/kafka-and-flink.md")
    arrow, rows = measured("backlog", "")
    for row, word in ((arrow, "events"), (rows, "rows")):
        ours, counted = (1000 / number(re.search(r"[\d,]+", row[name])[0]) for name in ("ours", "others"))  # type: ignore[index]
        assert f"| {ours:.2f} million {word} a second |" in text
        assert f"| {counted:.2f} million {word} a second |" in text
    late = re.search(r"windows were released within ([\d.]+) s, 99 % within ([\d.]+) s", result_of("soak")["finding"])
    assert late is not None
    assert f"half within {float(late[1]):.1f} s, 99 % within {float(late[2]):.1f} s" in text
