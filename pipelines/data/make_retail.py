"""Write ``retail_web.csv`` and ``retail_shops.parquet``, or one large shop: order lines with the faults of real ones.

Two sellers, on the web and in shops, have one catalogue and customers in eight countries. A country's taste is the
same at both; four pairs of countries share most of theirs. Customers buy again and again, a few of them as
wholesalers. Of a hundred lines two are returns, some twelve name no customer, and at each seller one order of 80,995
pieces was a mistake and taken back within the hour. The seed is fixed, so the files are made again bit for bit by the
versions of `requirements.lock`.

`shop` makes a larger seller: 20,000 customers over 24 months. Half of them buy 45 different items or more, and the tail
is long: wholesalers with tastes of their own, a few scripts that order for many people, returns, lines without a
customer, mistakes. Items come and go, and sell by season. `write_shop` writes it where it is wanted.
"""

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

COUNTRIES = ("United Kingdom", "Ireland", "Germany", "Austria", "France", "Belgium", "Spain", "Portugal")
ALIKE = {"Ireland": "United Kingdom", "Austria": "Germany", "Belgium": "France", "Portugal": "Spain"}
ITEMS = 400
LINES = 15_000
MISTAKE = 80_995


def tastes(rng: np.random.Generator) -> np.ndarray:
    """Return how likely a line of each country is for each item: (countries, items)."""
    popular = 1.0 / np.arange(1, ITEMS + 1)
    own = {country: rng.permutation(popular) for country in COUNTRIES}
    rows = [0.15 * own[country] + 0.85 * own[ALIKE.get(country, country)] for country in COUNTRIES]
    return np.array([row / row.sum() for row in rows])


def orders(rng: np.random.Generator, taste: np.ndarray, customers: int, first: int) -> pa.Table:
    """Return one seller's lines, in order of time."""
    home = rng.choice(len(COUNTRIES), customers, p=np.linspace(2, 1, 8) / 12)
    often = rng.pareto(2.5, customers) + 0.5
    who = rng.choice(customers, LINES, p=often / often.sum())
    country = home[who]
    item = np.array([rng.choice(ITEMS, p=taste[place]) for place in country])
    wholesale = rng.random(customers) < 0.03
    quantity = 1 + rng.poisson(3, LINES) * np.where(wholesale[who], 8, 1)
    quantity[rng.random(LINES) < 0.02] *= -1
    times = np.datetime64("2025-03-03T08:00") + np.sort(rng.integers(0, 28 * 24 * 60, LINES)).astype("timedelta64[m]")
    price = np.round(rng.gamma(2.0, 2.0, ITEMS) + 0.29, 2)[item]
    named = rng.random(LINES) >= 0.12
    wrong = 4_000
    for column in (who, country, item):
        column[wrong + 6] = column[wrong]
    quantity[[wrong, wrong + 6]], named[[wrong, wrong + 6]] = (MISTAKE, -MISTAKE), True
    return pa.table(
        {
            "time": pa.array(times.astype("datetime64[s]")),
            "customer": pa.array((first + who).astype(np.int32), mask=~named),
            "country": pa.array([COUNTRIES[place] for place in country]),
            "item": pa.array((20_000 + item).astype(np.int32)),
            "quantity": pa.array(quantity.astype(np.int32)),
            "price": pa.array([f"{value:.2f}" for value in price]).cast(pa.decimal128(6, 2)),
        }
    )


def shop(customers: int = 20_000, months: int = 24, items: int = 5_000, seed: int = 2026) -> pa.Table:
    """Return the order lines of a large shop, in order of time, with the columns of the other files.

    Parameters
    ----------
    customers, months, items
        How many there are; the first month is January 2024.
    seed
        Of all that is drawn.
    """
    rng = np.random.default_rng(seed)
    wholesale = rng.random(customers) < 0.02
    mean = rng.lognormal(np.log(62), 0.9, customers) * np.where(wholesale, 5, 1)
    mean[rng.choice(customers, 1 + customers // 4_000, replace=False)] = customers  # scripts
    counts = 1 + rng.poisson(mean)
    who = np.repeat(np.arange(customers), counts)
    size = who.size
    order, when = _orders(rng, counts, months)
    item = _bought(rng, when.astype(np.int64), wholesale[who], months, items)
    first = np.repeat(np.cumsum(counts) - counts, counts)  # a customer's first line
    again = first + (rng.random(size) * (np.arange(size) - first + 1)).astype(np.int64)
    item = np.where(rng.random(size) < 0.3, item[again], item)
    quantity = 1 + (rng.lognormal(1.4, 1.15, size) * np.where(wholesale[who], 8, 1)).astype(np.int64)
    quantity[rng.random(size) < 0.02] *= -1
    named = rng.random(size) >= 0.08
    wrong = rng.choice(np.flatnonzero(np.diff(order) == 0), 3, replace=False)  # and taken back in the same order
    item[wrong + 1], quantity[wrong], quantity[wrong + 1] = item[wrong], MISTAKE, -MISTAKE
    named[wrong] = named[wrong + 1] = True
    month = np.datetime64("2024-01") + when.astype("timedelta64[M]")
    times = month.astype("datetime64[s]") + (when % 1 * 28 * 24 * 60).astype("timedelta64[m]")
    country = rng.choice(len(COUNTRIES), customers, p=np.linspace(2, 1, 8) / 12)
    price = np.round(rng.gamma(2.0, 2.0, items) + 0.29, 2)
    at = np.argsort(times, kind="stable")
    return pa.table(
        {
            "time": pa.array(times[at]),
            "customer": pa.array((100_000 + who[at]).astype(np.int32), mask=~named[at]),
            "country": pa.DictionaryArray.from_arrays(country[who[at]].astype(np.int32), pa.array(COUNTRIES)),
            "item": pa.array((20_000 + item[at]).astype(np.int32)),
            "quantity": pa.array(quantity[at].astype(np.int32)),
            "price": pa.array(price[item[at]]).cast(pa.decimal128(6, 2)),
        }
    )


def _orders(rng: np.random.Generator, counts: np.ndarray, months: int) -> tuple[np.ndarray, np.ndarray]:
    """Return each line's order, of some twelve lines, and its time in months: (lines,) each, customer by customer."""
    orders = 1 + rng.poisson(counts / 12)
    first = np.cumsum(orders) - orders
    order = np.repeat(first, counts) + (rng.random(counts.sum()) * np.repeat(orders, counts)).astype(np.int64)
    joined = np.repeat(rng.integers(-months // 2, months - 1, counts.size).clip(0), orders)
    return order, (joined + rng.random(orders.sum()) * (months - joined))[order]


def _bought(rng: np.random.Generator, month: np.ndarray, wholesale: np.ndarray, months: int, items: int) -> np.ndarray:
    """Return an item for each line: popular ones more often, by season, while they are sold, to two kinds of buyers."""
    popular = (np.arange(items) + 40.0) ** -1.0
    common = rng.permutation(popular)
    tastes = (common, (common + rng.permutation(popular)) / 2)
    season, peak = rng.choice([0.2, 2.0], items, p=[0.7, 0.3]), rng.integers(0, 12, items)
    start = rng.integers(-2 * months, months, items)
    end = start + rng.geometric(1 / (1.5 * months), items)
    item = np.empty(month.size, dtype=np.int64)
    for kind, now in itertools.product((0, 1), range(months)):
        sold = (start <= now) & (now < end)
        weights = np.cumsum(tastes[kind] * np.exp(season * np.cos(2 * np.pi * (now - peak) / 12)) * sold)
        lines = np.flatnonzero((month == now) & (wholesale == kind))
        item[lines] = np.searchsorted(weights / weights[-1], rng.random(lines.size), side="right")
    return item


def write_shop(folder: Path, **options: int) -> Path:
    """Write ``retail_large.parquet``, what `shop` returns with these options, and return its path."""
    path = folder / "retail_large.parquet"
    pq.write_table(shop(**options), path, compression="zstd")
    return path


def main(folder: Path) -> None:
    """Write both files."""
    rng = np.random.default_rng(2025)
    taste = tastes(rng)
    pc.write_csv(orders(rng, taste, 4_500, 10_000), folder / "retail_web.csv", pc.WriteOptions(quoting_style="needed"))
    pq.write_table(orders(rng, taste, 3_500, 50_000), folder / "retail_shops.parquet", compression="zstd")


if __name__ == "__main__":
    main(Path(__file__).parent)
