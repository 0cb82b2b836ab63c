"""Write ``retail_web.csv`` and ``retail_shops.parquet``: invented order lines with the faults of real ones.

Two sellers, on the web and in shops, have one catalogue and customers in eight countries. A country's taste is the
same at both; four pairs of countries share most of theirs. Customers buy again and again, a few of them as
wholesalers. Of a hundred lines two are returns, some twelve name no customer, and at each seller one order of 80,995
pieces was a mistake and taken back within the hour. The seed is fixed, so the files are made again bit for bit by the
versions of `requirements.lock`.
"""

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


def main(folder: Path) -> None:
    """Write both files."""
    rng = np.random.default_rng(2025)
    taste = tastes(rng)
    pc.write_csv(orders(rng, taste, 4_500, 10_000), folder / "retail_web.csv", pc.WriteOptions(quoting_style="needed"))
    pq.write_table(orders(rng, taste, 3_500, 50_000), folder / "retail_shops.parquet", compression="zstd")


if __name__ == "__main__":
    main(Path(__file__).parent)
