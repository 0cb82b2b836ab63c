"""Make invented visits of patients to clinics: few codes a patient, and clinics of unequal size.

Twelve clinics of six kinds share a list of 3,000 codes of diagnoses. Half of the 30,000 patients have five different
codes or fewer; the chronically ill have dozens, month after month. One patient in six goes to a second clinic, mostly
of the same kind. Some visits name no patient. Everything is invented, and the seed is fixed: `visits` returns the same
table each time with the versions of `requirements.lock`.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

KINDS = ("children", "heart", "eyes", "lungs", "general", "skin")
CLINICS = tuple(f"{kind} {place}" for kind in KINDS for place in ("north", "south"))


def visits(patients: int = 30_000, codes: int = 3_000, seed: int = 2027) -> pa.Table:
    """Return one row for each code noted at a visit, in order of time: day, patient, clinic, code.

    Parameters
    ----------
    patients, codes
        How many there are.
    seed
        Of all that is drawn.
    """
    rng = np.random.default_rng(seed)
    shares = rng.permutation(np.linspace(1, 6, len(CLINICS)))
    home = rng.choice(len(CLINICS), patients, p=shares / shares.sum())
    same_kind, anywhere = home ^ 1, rng.integers(0, len(CLINICS), patients)
    second = np.where(rng.random(patients) < 0.7, same_kind, anywhere)
    elsewhere = np.where(rng.random(patients) < 1 / 6, rng.random(patients) * 0.5, 0.0)
    chronic = rng.random(patients) < 0.08
    counts = 1 + rng.poisson(rng.gamma(1.2, 5.0, patients) + chronic * rng.gamma(2.0, 25.0, patients))
    who = np.repeat(np.arange(patients, dtype=np.int32), counts)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    clinic = np.where(rng.random(who.size) < elsewhere[who], second[who], home[who])
    drawn = np.array([rng.choice(codes, who.size, p=law) for law in _laws(rng, codes)])
    code = drawn[clinic // 2, np.arange(who.size)]
    # the chronically ill come again with what they had
    again = starts + (rng.random(who.size) * (np.arange(who.size) - starts + 1)).astype(np.int64)
    code = np.where(rng.random(who.size) < np.where(chronic[who], 0.6, 0.1), code[again], code)
    day = rng.integers(0, 365, who.size)
    named = rng.random(who.size) >= 0.03
    at = np.argsort(day, kind="stable")
    names = pa.array([f"{chr(65 + number // 125)}{number % 125:03d}" for number in range(codes)])
    return pa.table(
        {
            "day": pa.array((np.datetime64("2025-01-01") + day[at]).astype("datetime64[D]")),
            "patient": pa.array(500_000 + who[at], mask=~named[at]),
            "clinic": pa.DictionaryArray.from_arrays(clinic[at].astype(np.int32), pa.array(CLINICS)),
            "code": pa.DictionaryArray.from_arrays(code[at].astype(np.int32), names),
        }
    )


def _laws(rng: np.random.Generator, codes: int) -> np.ndarray:
    """Return how likely a code is at each kind of clinic: (kinds, codes)."""
    popular = (np.arange(codes) + 15.0) ** -1.1
    common = rng.permutation(popular)
    return np.array([(0.4 * common + 0.6 * rng.permutation(popular)) / popular.sum() for _ in KINDS])


def write_visits(folder: Path, **options: int) -> Path:
    """Write ``visits.parquet``, what `visits` returns with these options, and return its path."""
    path = folder / "visits.parquet"
    pq.write_table(visits(**options), path, compression="zstd")
    return path
