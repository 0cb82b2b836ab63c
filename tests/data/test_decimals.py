"""Numbers in text are read exactly or refused, however many digits and zeros they have."""

import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.data.decimals import DIGITS, decimals_of, exact_decimal
from streamsketch.intake import BadLines, RowReader

FORM = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")
ZEROS = st.sampled_from([0, 0, 1, 5, 36, 37, 38, 39, 40, 52, 300, 1000]).map(lambda count: "0" * count)
DIGITS_OF = st.sampled_from([0, 1, 2, 3, 12, 13, 18, 20, 26, 27, 36, 38, 39]).flatmap(
    lambda count: st.text("0123456789", min_size=count, max_size=count)
)
NUMBERS = st.tuples(
    st.sampled_from(["", "", "+", "-"]), ZEROS, DIGITS_OF, st.sampled_from(["", "."]), DIGITS_OF, ZEROS,
    st.sampled_from(["", "", "", "", " ", "e1", "\n", "."]),
).map("".join)  # fmt: skip
PLACES = st.sampled_from([1, 2, 12, 18])


def held(number: Fraction, places: int) -> bool:
    return (number * 10**places).denominator == 1 and abs(number) < 10 ** (DIGITS - places)


@given(NUMBERS, PLACES)
def test_a_text_is_its_number_or_refused(text: str, places: int) -> None:
    number = Fraction(text) if FORM.fullmatch(text) else None
    try:
        found = Fraction(decimals_of(pa.array(["0", text]), places)[1].as_py())
    except pa.ArrowInvalid:
        found = None
    assert found == (number if number is not None and held(number, places) else None)


@given(NUMBERS, st.sampled_from(["", "E0", "e+3", "E-3", "e40", "E-60", "E+999999999", "e-5000000"]), PLACES)
def test_a_number_with_an_exponent_is_exact_or_refused(text: str, exponent: str, places: int) -> None:
    if not FORM.fullmatch(text):
        return
    number = Decimal(text + exponent)
    is_near = not number or abs(number.adjusted()) <= 2 * DIGITS
    expected = Fraction(number) if is_near and held(Fraction(number), places) else None
    try:
        found = Fraction(exact_decimal(number, places))
    except ArithmeticError:
        found = None
    assert found == expected


def as_table(cell: str, _: Path) -> Any:
    return pa.record_batch({"item": ["tea"], "sold": [cell]})


def as_csv(cell: str, folder: Path) -> Any:
    path = folder / "rows.csv"
    path.write_text(f"item,sold\ntea,{cell}\n")
    return path


def as_json(cell: str, folder: Path) -> Any:
    path = folder / "rows.jsonl"
    path.write_text(f'{{"item": "tea", "sold": "{cell}"}}\n')
    return path


def as_json_number(cell: str, folder: Path) -> Any:
    path = folder / "rows.jsonl"
    path.write_text(f'{{"item": "tea", "sold": {cell}}}\n')
    return path


AGREED = ss.Agreement(ss.CountSketch(sketch_dim=64, seed=7), index="item", value="sold", missing="drop")
KEPT = AGREED.replace(missing="keep")
READERS: dict[str, tuple[ss.Agreement, Any]] = {
    "a table": (AGREED, as_table),
    "CSV": (AGREED, as_csv),
    "CSV of numbers": (KEPT, as_csv),
    "JSON": (AGREED, as_json),
    "numbers of JSON": (AGREED, as_json_number),
    "numbers of JSON alone": (KEPT, as_json_number),
}
READ = ["7." + "0" * 37, "7." + "0" * 40, "7." + "0" * 300, "7." + "0" * 5000, "7.000"]
REFUSED = [
    "1" * 27,
    "1" * 38,
    "1" * 39,
    "0." + "0" * 50 + "1",
    "1." + "0" * 60 + "1",
    "1E-60",
    "1E-2000000000",
    "1E+5000000",
]


@pytest.mark.parametrize("cell", READ + REFUSED, ids=lambda cell: f"{cell[:12]} {len(cell)}")
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_reads_numbers_exactly_or_leaves_them_out(reader: str, cell: str, tmp_path: Path) -> None:
    """Arrow alone reads another number, or ends the process, which one unit's row must not."""
    agreement, written = READERS[reader]
    sums = ss.Sketch(agreement)
    rows = written(cell, tmp_path)
    with BadLines("skip") as bad:
        if isinstance(rows, Path):
            RowReader(agreement, bad=bad).read(rows, lambda batch, _: sums.update_rows(batch))
        elif cell in READ:
            sums.update_rows(rows)
        else:
            with pytest.raises(ss.InvalidInputError, match="not a plain decimal number"):
                sums.update_rows(rows)
            return
    assert (sums.mass, bad.count) == ((7, 0) if cell in READ else (0, 1))
