"""Draw the pictures of the tutorials, each from one real run, in a light and a dark variant.

    python docs/tutorials/pictures.py [NAME …]

from the repository's root; a name is that of a page. Data and seeds are fixed. Noise is new in each run, as it should
be, so pictures differ a little from those that are here.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.cluster.hierarchy import dendrogram
from sklearn.datasets import load_breast_cancer, load_digits

import streamsketch as ss
from pipelines.data import make_products, make_sites
from streamsketch.features import Category, Embedding, Number
from streamsketch.local import MeanAggregator

FOLDER = Path(__file__).parent / "pictures"
DATA = Path("pipelines/data")
THEMES = {
    "light": {
        "text": "#24292f",
        "grid": "#d0d7de",
        "first": "#2467b0",
        "second": "#c4590a",
        "third": "#6e7781",
        "shift": 0.0,
    },
    "dark": {
        "text": "#d7dde3",
        "grid": "#3d444d",
        "first": "#74b0f4",
        "second": "#f3a15a",
        "third": "#9198a1",
        "shift": 0.2,
    },
}

Colours = dict[str, Any]
Draw = Callable[[Colours], Figure]


def two_parties() -> Draw:
    """Return how to draw the number of pairs of flights at several ε."""
    flights = pq.read_table(DATA / "flights.parquet", columns=["carrier", "route", "scheduled_hour"])
    one = ss.L1(1, unit="flight")
    projection = ss.CountSketch(sketch_dim=8192, seed=2013, independence=6)
    agreed = {"index": ["route", "scheduled_hour"], "neighbours": one}
    tables = [flights.filter(pc.equal(flights["carrier"], name)) for name in ("DL", "AA")]
    scale = [0.2, 0.5, 1.0, 2.0, 5.0]
    agreements = [ss.agree(flights.schema, projection, **agreed, epsilon=epsilon) for epsilon in scale]
    estimates = [ss.inner_product(*map(agreement.release, tables)) for agreement in agreements]
    counts = [t.to_pandas().groupby(["route", "scheduled_hour"], observed=True).size() for t in tables]
    truth = pd.concat(counts, axis=1, join="inner").prod(axis=1).sum()

    def draw(colours: Colours) -> Figure:
        figure = Figure(figsize=(7, 3.6), layout="constrained")
        axes = figure.subplots()
        bars = [1.96 * each.standard_error for each in estimates]
        axes.axhline(0, color=colours["grid"], linewidth=1)
        axes.axhline(truth, color=colours["second"], linestyle="--", label=f"exactly {truth:,}")
        values = [each.value for each in estimates]
        axes.errorbar(scale, values, bars, fmt="o", color=colours["first"], capsize=4, label="estimate, 95 % interval")
        axes.set_xscale("log")
        axes.set_xticks(scale, [f"{e:g}" for e in scale])
        axes.minorticks_off()
        axes.set_xlabel("ε of each release")
        axes.set_ylabel("pairs of flights")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.legend(frameon=False)
        return figure

    return draw


def unbounded_stream() -> Draw:
    """Return how to draw the cosine of each day to the first Monday."""
    flights = pd.read_parquet(DATA / "flights.parquet", columns=["scheduled_hour", "carrier", "route"])
    flights["day"] = flights["scheduled_hour"].dt.floor("D")
    days = pd.date_range("2013-01-07", periods=14)
    carriers = {"B6": "JetBlue (B6)", "EV": "ExpressJet (EV)"}
    flights = flights[flights["carrier"].isin(list(carriers))]
    agreement = ss.agree(
        flights,
        ss.SJLT(sketch_dim=256, sparsity=1, seed=2013),
        key="carrier",
        keys=list(carriers),
        index="route",
        neighbours=ss.L1(1, unit="flight"),
        windows=ss.Windows(time="scheduled_hour", every="1 day", first="2013-01-07", last="2013-01-20"),
        epsilon=2,
    )
    released = list(agreement.release(flights).values())
    found = {name: [ss.cosine(released[0][name], each[name]) for each in released[1:]] for name in carriers}
    counts = pd.crosstab([flights["carrier"], flights["day"]], flights["route"])
    truth = {
        name: [_cosine(*(counts.loc[name, day] for day in (days[0], later))) for later in days[1:]] for name in carriers
    }

    def draw(colours: Colours) -> Figure:
        figure = Figure(figsize=(7.5, 3.6), layout="constrained")
        axes = figure.subplots()
        for day in range(1, 14):
            if days[day].day_of_week >= 5:
                axes.axvspan(day - 0.5, day + 0.5, color=colours["grid"], alpha=0.35, linewidth=0)
        for (name, title), colour, shift in zip(carriers.items(), ("first", "second"), (-0.1, 0.1), strict=True):
            place = np.arange(1, 14) + shift
            bars = [1.96 * each.standard_error for each in found[name]]
            values = [each.value for each in found[name]]
            axes.errorbar(place, values, bars, fmt="o", color=colours[colour], capsize=3, label=title)
            exact = {"marker": "_", "linestyle": "", "markersize": 12, "color": colours["text"]}
            axes.plot(place, truth[name], **exact, label="exact" if name == "EV" else None)
        axes.set_xticks(range(1, 14), [f"{day:%a}\n{day.day}" for day in days[1:]])
        axes.set_ylabel("cosine to Monday, 7 January")
        axes.legend(frameon=False, loc="lower right", ncols=3, bbox_to_anchor=(1, 1))
        return figure

    return draw


def _cosine(one: Any, other: Any) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def customers() -> Draw:
    """Return how to draw the cosines of all countries on the web and in shops."""
    web = pyarrow.csv.read_csv(DATA / "retail_web.csv")
    shops = pq.read_table(DATA / "retail_shops.parquet")
    agreement = ss.agree(
        shops.schema,
        ss.CountSketch(sketch_dim=512, seed=2025),
        key="country",
        index="item",
        value="quantity",
        unit="customer",
        max_keys=1,
        keys="public",
        missing="drop",
        epsilon=1,
        delta=1e-6,
    )
    tables = [agreement.release(rows) for rows in (web, shops)]
    countries = [name for name in tables[0] if all(_is_told(table[name]) for table in tables)]
    countries.sort(key=lambda name: -ss.squared_norm(tables[0][name]).value)
    lost = sorted(set(tables[0]) - set(countries))
    values = np.array([[ss.cosine(tables[0][a], tables[1][b]).value for b in countries] for a in countries])
    errors = np.array([[ss.cosine(tables[0][a], tables[1][b]).standard_error for b in countries] for a in countries])

    def draw(colours: Colours) -> Figure:
        figure = Figure(figsize=(7.2, 5.2), layout="constrained")
        axes = figure.subplots()
        image = axes.imshow(values, cmap="viridis", vmin=0, vmax=1)
        for (i, j), value in np.ndenumerate(values):
            text = f"{value:.2f}\n± {errors[i, j]:.2f}"
            axes.text(j, i, text, ha="center", va="center", fontsize=8, color="white" if value < 0.6 else "black")
        axes.set_xticks(range(len(countries)), countries, rotation=30, ha="right")
        axes.set_yticks(range(len(countries)), countries)
        axes.tick_params(length=0)
        axes.set_ylabel("on the web")
        axes.set_xlabel("in shops" + (f"     (lost in the noise: {', '.join(lost)})" if lost else ""))
        figure.colorbar(image, ax=axes, label="estimated cosine", shrink=0.8).outline.set_edgecolor(colours["grid"])
        return figure

    return draw


def _is_told(release: ss.PrivateSketch) -> bool:
    size = ss.squared_norm(release)
    return size.value > 3 * size.standard_error


def hospitals() -> Draw:
    """Return how to draw counts of patients: exact, by a round, and by five releases."""
    cases = load_breast_cancer()
    size = np.clip(cases.data[:, 0] // 2, 3, 10).astype(int) - 3
    cell = size + 8 * (cases.target == 0)
    hospital = np.random.default_rng(1).integers(0, 5, len(cell))
    rows = [pa.table({"cell": cell[hospital == number]}) for number in range(5)]
    counts, patient = ss.projections.Identity(dim=16), ss.L1(1, unit="patient")
    agreement = ss.agree(rows[0].schema, counts, index="cell", neighbours=patient, epsilon=0.25)
    keys = [ss.parties.Key.generate(name) for name in ("Ash", "Birch", "Cedar", "Dogwood", "Elm")]
    agreed = ss.parties.Round.of(agreement, [key.public for key in keys])
    sketches = map(agreement.sketch, rows)
    together = agreed.combine(agreed.contribute(sketch, key) for sketch, key in zip(sketches, keys, strict=True))
    merged, *others = map(agreement.release, rows)
    for other in others:
        merged = merged.combine(other, populations="disjoint")
    panels = {
        "exact (nobody sees this)": np.bincount(cell, minlength=16),
        f"one round: ± {np.sqrt(together.noise.k2):.1f}": together.values,  # noqa: PD011 - no pandas
        f"five releases, merged: ± {np.sqrt(merged.noise.k2):.1f}": merged.values,  # noqa: PD011
    }

    def draw(colours: Colours) -> Figure:
        figure = Figure(figsize=(9, 3.4), layout="constrained")
        labels = ["< 8", *(f"{low}-{low + 2}" for low in range(8, 20, 2)), "20 +"]
        for axes, (title, values) in zip(figure.subplots(1, 3, sharey=True), panels.items(), strict=True):
            place = np.arange(8)
            axes.bar(place - 0.2, values[:8], 0.4, color=colours["first"], label="benign")
            axes.bar(place + 0.2, values[8:], 0.4, color=colours["second"], label="malignant")
            axes.axhline(0, color=colours["text"], linewidth=0.8)
            axes.set_xticks(place, labels, rotation=45)
            axes.set_title(title, fontsize=10)
        figure.axes[0].set_ylabel("patients")
        figure.axes[0].legend(frameon=False)
        figure.axes[1].set_xlabel("radius of the nuclei")
        return figure

    return draw


def phones() -> Draw:
    """Return how to draw mean digits by ε, and errors by the number of reports."""
    pixels, digit = load_digits(return_X_y=True)
    drawings = pixels / np.linalg.norm(pixels, axis=1, keepdims=True)

    def mean(epsilon: float, rows: Any) -> Any:
        mechanism = ss.local.ProjUnit(dim=64, sketch_dim=32, epsilon=epsilon, shared=True, seed=7)
        server = MeanAggregator(mechanism)
        server.add(mechanism.randomize_many(rows))
        return mechanism, server.mean()

    rows_of = [drawings[digit == number] for number in range(10)]
    images = {"exact": [rows.mean(axis=0) for rows in rows_of]}
    images |= {f"ε = {e}": [mean(e, rows)[1] for rows in rows_of] for e in (16, 4, 1)}
    numbers, curves = np.array([20, 60, 180, 600, 1797]), {}
    order = np.random.default_rng(1).permutation(len(drawings))
    for epsilon in (1, 2, 4, 8):
        measured = []
        for n in numbers:
            rows = drawings[order[:n]]
            mechanism, found = mean(epsilon, rows)
            measured.append(((found - rows.mean(axis=0)) ** 2).sum())
        curves[epsilon] = measured, [mechanism.expected_squared_error(int(n)) for n in numbers]

    def draw(colours: Colours) -> Figure:
        figure = Figure(figsize=(9.5, 3.4), layout="constrained")
        left, right = figure.subfigures(1, 2, width_ratios=[1.75, 1])
        grid = left.subplots(len(images), 10)
        for row, (title, means) in zip(grid, images.items(), strict=True):
            for axes, each in zip(row, means, strict=True):
                _show(axes, each, 0.3)
            row[0].set_ylabel(title)
        axes = right.subplots()
        shades = mpl.colormaps["viridis"](np.linspace(0.1, 0.8, len(curves)) + colours["shift"])
        for shade, (epsilon, (measured, expected)) in zip(shades, curves.items(), strict=True):
            axes.plot(numbers, expected, color=shade, label=f"ε = {epsilon}")
            axes.plot(numbers, measured, "o", color=shade)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("reports")
        axes.set_ylabel("squared error")
        axes.grid(color=colours["grid"], linewidth=0.5)
        axes.legend(frameon=False, fontsize=8)
        return figure

    return draw


def _show(axes: Axes, pixels: Any, darkest: float) -> None:
    axes.imshow(pixels.reshape(8, 8), cmap="gray_r", vmin=0, vmax=darkest)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(True)


def alike() -> Draw:
    """Return how to draw queries, their signs and what was found, and the share that is right by ε."""
    pixels, digit = load_digits(return_X_y=True)
    answers = pixels.astype(int) - 8
    projection, answer = ss.projections.OPORP(dim=64, sketch_dim=64, seed=5), ss.OneCoordinate(16, unit="answer")

    def published(epsilon: float) -> Any:
        publish = ss.signs.DPSignOPORPRR(epsilon=epsilon, neighbours=answer)
        archive, clinic = (publish.release_rows(projection, rows) for rows in (answers[:1400], answers[1400:]))
        return clinic, ss.signs.nearest(clinic, archive, top=3).places

    clinic, places = published(4.0)
    first = [int(np.flatnonzero(digit[1400:] == number)[0]) for number in (0, 1, 2, 3, 4, 5, 6, 9)]
    back = projection.columns(range(64)).T
    columns = [
        [pixels[1400 + i], 8 + 8 * (back @ clinic[i].signs), *(pixels[place] for place in places[i])] for i in first
    ]
    scale = [0.5, 1, 1.5, 2, 3, 4, 6, 8]
    right = [(digit[:1400][published(e)[1][:, 0]] == digit[1400:]).mean() for e in scale]
    square = ((answers[1400:, None, :] - answers[None, :1400, :]) ** 2).sum(axis=2)
    exact = (digit[:1400][square.argmin(axis=1)] == digit[1400:]).mean()

    def draw(colours: Colours) -> Figure:
        figure = Figure(figsize=(9.5, 4.2), layout="constrained")
        left, beside = figure.subfigures(1, 2, width_ratios=[1.6, 1])
        grid = left.subplots(5, len(columns))
        titles = ["question\n(secret)", "its signs\n(public)", "nearest", "second", "third"]
        for j, column in enumerate(columns):
            for i, each in enumerate(column):
                axes = grid[i, j]
                _show(axes, each, 16)
                if j == 0:
                    axes.set_ylabel(titles[i], rotation=0, ha="right", va="center", fontsize=9)
        axes = beside.subplots()
        axes.axhline(exact, color=colours["second"], linestyle="--", label="exact answers")
        axes.axhline(0.1, color=colours["third"], linestyle=":", label="guessing")
        axes.plot(scale, right, "o-", color=colours["first"], label="published signs")
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1))
        axes.set_xlabel("ε for one answer")
        axes.set_ylabel("nearest one is the same digit")
        axes.legend(frameon=False)
        return figure

    return draw


def what_changed() -> Draw:
    """Return how to draw when Virgin America's routes changed, and which did."""
    flights = pq.read_table(DATA / "flights.parquet", columns=["scheduled_hour", "carrier", "route"])
    virgin = flights.filter(pc.equal(flights["carrier"], "VX"))
    agreement = ss.agree(
        virgin.schema,
        ss.SJLT(sketch_dim=2560, sparsity=5, seed=2013),
        index="route",
        neighbours=ss.L1(1, unit="flight"),
        windows=ss.Windows(time="scheduled_hour", every="month", first="2013-01", last="2013-12", are="keys"),
        epsilon=2,
    )
    released = dict(agreement.release(virgin))
    series = ss.changes(released, tolerance=60).table.to_pandas()
    routes = pc.unique(flights["route"])
    months = released["2013-04"], released["2013-03"]
    found = ss.top_differences(*months, routes, 8, agreement=agreement).table.to_pandas()

    def draw(colours: Colours) -> Figure:
        figure = Figure(figsize=(9.5, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=[1.3, 1])
        place = np.arange(len(series))
        alarm = series["alarm"].to_numpy(dtype=bool)
        left.axhline(0, color=colours["grid"], linewidth=1)
        left.fill_between(place, series["low"], series["high"], color=colours["first"], alpha=0.25, linewidth=0)
        left.plot(place, series["estimate"], "o-", color=colours["first"], label="estimate, 95 % interval")
        left.plot(place[alarm], series["estimate"][alarm], "o", color=colours["second"], markersize=9, label="alarm")
        left.plot(place, series["line"], "--", color=colours["third"], label="alarm line")
        left.set_xticks(place, [f"{pd.Timestamp(name):%b}" for name in series["window"]])
        left.set_ylabel("squared distance to the month before")
        left.yaxis.set_major_formatter("{x:,.0f}")
        left.legend(frameon=False)
        apart = (found["low"] > 0) | (found["high"] < 0)
        for kind, colour in ((apart, "second"), (~apart, "third")):
            shown = found[kind]
            sides = [shown["estimate"] - shown["low"], shown["high"] - shown["estimate"]]
            rows = np.flatnonzero(kind)
            right.errorbar(shown["estimate"], rows, xerr=sides, fmt="o", color=colours[colour], capsize=3)
        right.axvline(0, color=colours["grid"], linewidth=1)
        right.set_yticks(range(len(found)), found["item"])
        right.invert_yaxis()
        right.set_xlabel("flights in April less those in March")
        return figure

    return draw


def sites() -> Draw:
    """Return how to draw which of five hospitals are alike, and in which columns they differ from the first."""
    kinds = {
        "age": Number(0, 110),
        "sex": Category(["F", "M"]),
        "smoker": Category(["yes", "no"]),
        "systolic": Number(60, 240),
        "haemoglobin": Number(4, 20),
        "creatinine": Number(20, 400),
        "glucose": Number(2, 25),
        "diagnosis": Category(hashed=64),
    }
    people = make_sites.visits()
    features = ss.Features(kinds, seed=2028, joint=8)
    choice: dict[str, Any] = {"unit": "person_id", "rows_of_unit": "mean"}
    agreement = ss.agree(people.schema, features=features, **choice, epsilon=1, delta=1e-6)
    names = list(make_sites.SITES)
    tables = [people.filter(pc.equal(people["site"], name)) for name in names]
    releases = [agreement.release(table) for table in tables]
    tree = ss.linkage(releases, by="mean")
    differ = {
        name: ss.estimation.column_differences(releases[0], each, agreement).to_pandas().set_index("column")
        for name, each in zip(names[1:], releases[1:], strict=True)
    }
    marks = {"south": ("third", "o"), "east": ("second", "s"), "west": ("first", "D"), "harbour": ("text", "^")}
    least = 1e-4

    def draw(colours: Colours) -> Figure:
        figure = Figure(figsize=(9.5, 4), layout="constrained")
        figure.get_layout_engine().set(wspace=0.06)
        left, right = figure.subplots(1, 2, width_ratios=[1, 2])
        style = {"color_threshold": 0, "above_threshold_color": colours["first"]}
        dendrogram(tree, labels=names, orientation="left", ax=left, **style)
        left.spines["left"].set_visible(False)
        left.tick_params(axis="y", labelsize=10, length=0)
        left.set_xlabel("distance of average patients")
        columns = [*kinds, "(joint)"]
        for shift, (name, table) in zip((-0.24, -0.08, 0.08, 0.24), differ.items(), strict=True):
            found = table.loc[columns].clip(lower=least)
            bars = [found["estimate"] - found["low"], found["high"] - found["estimate"]]
            colour, mark = marks[name]
            place = np.arange(len(columns)) + shift
            right.errorbar(
                found["estimate"], place, xerr=bars, fmt=mark, markersize=4, color=colours[colour], label=name
            )
        right.set_xscale("log")
        right.set_xlim(least, 4)
        right.set_yticks(range(len(columns)), columns)
        right.invert_yaxis()
        right.grid(axis="x", color=colours["grid"], linewidth=0.5)
        right.set_xlabel("squared distance from north, of at most 4")
        right.legend(frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=9)
        return figure

    return draw


def embeddings() -> Draw:
    """Return how to draw which kinds of products shops differ in, and when the last one changed."""
    products = pq.read_table(DATA / "products.parquet")
    lines = make_products.orders()
    vectors = products["embedding"].combine_chunks().take(lines["product"].combine_chunks())
    lines = lines.append_column("embedding", vectors)
    features = ss.Features({"embedding": Embedding(384, waves=32, width=1.0)}, seed=2036)
    agreed: dict[str, Any] = {"features": features, "unit": "customer", "epsilon": 1, "delta": 1e-6}
    agreement = ss.agree(lines.schema, **agreed)
    shops = {name: lines.filter(pc.equal(lines["shop"], name)) for name in make_products.SHOPS}
    releases = {name: agreement.release(rows) for name, rows in shops.items()}
    months = ss.Windows(
        time="time", every="month", first=make_products.MONTHS[1], last=make_products.MONTHS[-1], are="keys"
    )
    table = ss.agree(lines.schema, **agreed, windows=months).release(shops["elm"])
    series = ss.changes(dict(table), by="mean", samples=True).table.to_pandas()
    profiles, kinds = features.transform(products), products["kind"].to_numpy(zero_copy_only=False)
    names = list(make_products.KINDS)
    unmix = np.linalg.pinv(np.array([profiles[kinds == kind].mean(axis=0) for kind in names]).T)
    people = {name: one.units.value for name, one in releases.items()}
    mixes = {name: unmix @ (one.values / 2**15 / people[name]) for name, one in releases.items()}  # noqa: PD011
    step = np.sqrt(releases["ash"].noise.k2) / 2**15 * np.linalg.norm(unmix, axis=1)
    marks = {"birch": ("third", "o"), "cedar": ("first", "D"), "dale": ("text", "^"), "elm": ("second", "s")}

    def draw(colours: Colours) -> Figure:
        figure = Figure(figsize=(9.5, 4), layout="constrained")
        figure.get_layout_engine().set(wspace=0.06)
        left, right = figure.subplots(1, 2, width_ratios=[1.5, 1])
        left.axvline(0, color=colours["grid"], linewidth=1)
        for shift, (name, (colour, mark)) in zip((-0.24, -0.08, 0.08, 0.24), marks.items(), strict=True):
            error = 1.96 * step * np.hypot(1 / people[name], 1 / people["ash"])
            place = np.arange(len(names)) + shift
            style = {"markersize": 4, "color": colours[colour], "label": name}
            left.errorbar(mixes[name] - mixes["ash"], place, xerr=error, fmt=mark, **style)
        left.set_yticks(range(len(names)), names)
        left.invert_yaxis()
        left.grid(axis="y", color=colours["grid"], linewidth=0.5)
        left.set_xlabel("share of the average basket, less ash's")
        left.legend(frameon=False, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=9)
        place, alarm = np.arange(len(series)), series["alarm"].to_numpy(dtype=bool)
        right.axhline(0, color=colours["grid"], linewidth=1)
        right.fill_between(place, series["low"], series["high"], color=colours["first"], alpha=0.25, linewidth=0)
        right.plot(place, series["estimate"], "o-", color=colours["first"], label="estimate, 95 % interval")
        right.plot(place[alarm], series["estimate"][alarm], "o", color=colours["second"], markersize=9, label="alarm")
        right.plot(place, series["line"], "--", color=colours["third"], label="alarm line")
        right.set_xticks(place, [f"{pd.Timestamp(name):%b}" for name in series["window"]])
        right.set_ylabel("squared distance to the month before")
        right.legend(frameon=False, fontsize=9)
        return figure

    return draw


PICTURES = {
    "two-parties": two_parties,
    "unbounded-stream": unbounded_stream,
    "customers": customers,
    "hospitals": hospitals,
    "phones": phones,
    "alike": alike,
    "what-changed": what_changed,
    "sites": sites,
    "embeddings": embeddings,
}


def main(names: list[str]) -> None:
    """Draw the pictures that are named, or all."""
    FOLDER.mkdir(exist_ok=True)
    for name in names or PICTURES:
        draw = PICTURES[name]()
        for theme, colours in THEMES.items():
            text, grid = colours["text"], colours["grid"]
            style = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), text)
            style |= {"axes.edgecolor": grid, "axes.facecolor": "none", "figure.facecolor": "none", "font.size": 10}
            style |= {"axes.spines.top": False, "axes.spines.right": False}
            with mpl.rc_context(style):
                draw(colours).savefig(FOLDER / f"{name}-{theme}.png", dpi=110, transparent=True)


if __name__ == "__main__":
    main(sys.argv[1:])
