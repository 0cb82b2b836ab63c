"""Make an invented table of patients at five hospitals: numbers, categories, and the faults of real exports.

Each patient has one row, as after a query of an OMOP database, or in `visits` a row for each visit. North and south
treat the same kind of people. West has older ones with other diagnoses. East writes glucose in mg/dL, where the others
write mmol/L, and harbour does so with the creatinine of one of its laboratories. Some values are null, and some ages
999. Everything is invented, and the seed is fixed: `sites` returns the same table each time with the versions of
`requirements.lock`.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SITES = {"north": 0.28, "south": 0.22, "east": 0.2, "west": 0.16, "harbour": 0.14}
"""The share of each hospital in the patients."""

FREQUENT = ("I10", "E11", "J45", "M54", "K21", "F32", "N39", "J44", "I50", "S72", "F03", "I48")
"""The most frequent codes of diagnoses, in this order at all hospitals but west."""

OF_THE_OLD = ("I50", "S72", "F03", "I48")
CODES = 300
GLUCOSE, CREATININE = 18.016, 1 / 88.42
"""What turns mmol/L of glucose, and µmol/L of creatinine, into mg/dL."""


def sites(patients: int = 20_000, seed: int = 2028) -> pa.Table:
    """Return one row for each patient: site, person_id, age, sex, smoker, four measurements and the main diagnosis.

    Parameters
    ----------
    patients
        How many there are at the five hospitals together. Each is at one.
    seed
        Of all that is drawn.
    """
    rng = np.random.default_rng(seed)
    site = rng.choice(len(SITES), patients, p=list(SITES.values()))
    east, west, harbour = (site == list(SITES).index(name) for name in ("east", "west", "harbour"))
    diagnosis = _diagnoses(rng, west)
    diabetes, woman = diagnosis == FREQUENT.index("E11"), rng.random(patients) < 0.53
    age = np.rint(np.where(west, rng.normal(70, 13, patients), rng.normal(52, 18, patients)).clip(18, 101))
    smoker = rng.random(patients) < 0.26 - 0.002 * (age - 50)
    systolic = np.rint(rng.normal(123 + 0.15 * age, 14))
    haemoglobin = np.round(rng.normal(np.where(woman, 13.3, 14.7), 1.3), 1)
    creatinine = rng.lognormal(np.log(np.where(woman, 62, 78)) + 0.004 * (age - 50), 0.22)
    glucose = rng.lognormal(np.log(np.where(diabetes, 8.6, 5.3)), np.where(diabetes, 0.28, 0.12))
    other_laboratory = harbour & (rng.random(patients) < 0.3)
    age[rng.random(patients) < 0.003] = 999
    return pa.table(
        {
            "site": pa.DictionaryArray.from_arrays(site.astype(np.int32), pa.array(list(SITES))),
            "person_id": pa.array(1_000_000 + rng.permutation(patients)),
            "age": pa.array(age.astype(np.int16)),
            "sex": pa.array(np.where(woman, "F", "M")),
            "smoker": pa.array(np.where(smoker, "yes", "no"), mask=rng.random(patients) < 0.06),
            "systolic": pa.array(systolic.astype(np.int16), mask=rng.random(patients) < 0.02),
            "haemoglobin": pa.array(haemoglobin, mask=rng.random(patients) < 0.03),
            "creatinine": pa.array(
                np.where(other_laboratory, np.round(creatinine * CREATININE, 2), np.rint(creatinine)),
                mask=rng.random(patients) < 0.04,
            ),
            "glucose": pa.array(
                np.where(east, np.rint(glucose * GLUCOSE), np.round(glucose, 1)), mask=rng.random(patients) < 0.05
            ),
            "diagnosis": pa.DictionaryArray.from_arrays(
                pa.array(diagnosis.astype(np.int32), mask=rng.random(patients) < 0.02), pa.array(_names())
            ),
        }
    )


def visits(patients: int = 20_000, seed: int = 2028) -> pa.Table:
    """Return a row for each visit of the patients of `sites`, with its date, visited: the older they are, the more.

    Measurements vary from visit to visit, and three in ten visits are for the diagnosis of another patient there.

    Parameters
    ----------
    patients, seed
        As in `sites`.
    """
    people, rng = sites(patients, seed), np.random.default_rng([seed, 1])
    older = people["age"].to_numpy().clip(18, 101) - 18
    whose = rng.permutation(np.repeat(np.arange(patients), 1 + rng.poisson(older / 30)))
    rows = people.take(pa.array(whose))
    creatinine = pc.multiply(rows["creatinine"], pa.array(rng.lognormal(0, 0.08, whose.size)))
    varied = {
        "systolic": pc.cast(pc.round(pc.add(rows["systolic"], pa.array(rng.normal(0, 8, whose.size)))), pa.int16()),
        "haemoglobin": pc.round(pc.add(rows["haemoglobin"], pa.array(rng.normal(0, 0.3, whose.size))), 1),
        "creatinine": pc.if_else(pc.less(creatinine, 10), pc.round(creatinine, 2), pc.round(creatinine)),
        "glucose": pc.round(pc.multiply(rows["glucose"], pa.array(rng.lognormal(0, 0.1, whose.size))), 1),
        "diagnosis": _others(rng, rows),
    }
    for name, column in varied.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, column)
    days = np.datetime64("2027-01-01") + rng.integers(0, 365, whose.size)
    return rows.add_column(2, "visited", pa.array(days))


def _others(rng: np.random.Generator, rows: pa.Table) -> pa.Array:
    """Return diagnoses, of which three in ten are those of another row of the site."""
    place, site = np.arange(rows.num_rows), rows["site"].to_numpy()
    for name in SITES:
        own = np.flatnonzero(site == name)
        moved = own[rng.random(own.size) < 0.3]
        place[moved] = rng.permutation(moved)
    return rows["diagnosis"].combine_chunks().take(pa.array(place))


def _names() -> list[str]:
    """Return the codes: the most frequent ones, and others of a letter and a number."""
    others = (f"{chr(65 + letter)}{number:02d}" for number in range(100) for letter in range(20))
    return [*FREQUENT, *(name for name in others if name not in FREQUENT)][:CODES]


def _diagnoses(rng: np.random.Generator, west: np.ndarray) -> np.ndarray:
    """Return a code for each patient, as its place among the names."""
    usual = (np.arange(CODES) + 4.0) ** -1.0
    old = usual * np.where(np.isin(np.arange(CODES), [FREQUENT.index(name) for name in OF_THE_OLD]), 12, 1)
    drawn = [rng.choice(CODES, west.size, p=law / law.sum()) for law in (usual, old)]
    return np.where(west, drawn[1], drawn[0])


def write_sites(folder: Path, **options: int) -> list[Path]:
    """Write a file for each hospital, such as ``north.parquet``, of what `sites` returns, and return the paths."""
    return _written(sites(**options), folder)


def write_visits(folder: Path, **options: int) -> list[Path]:
    """Write a file for each hospital, such as ``north.parquet``, of what `visits` returns, and return the paths."""
    return _written(visits(**options), folder)


def _written(made: pa.Table, folder: Path) -> list[Path]:
    paths = [folder / f"{name}.parquet" for name in SITES]
    for name, path in zip(SITES, paths, strict=True):
        pq.write_table(made.filter(pc.equal(made["site"], name)).drop(["site"]), path, compression="zstd")
    return paths
