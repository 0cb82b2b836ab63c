"""Values off the grid: whoever sketches them in Python is warned, as in the shell, and nobody else learns of it."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

import streamsketch as ss
from streamsketch.errors import TruncationWarning

WHOLE = ss.SJLT(sketch_dim=16, sparsity=2, seed=7)
NEAR = ss.L1(5, unit="buyer")


def agreed(by: ss.projections.Projection, **fields: Any) -> ss.Agreement:
    return ss.Agreement(by, index="item", value="paid", **fields)


def rows_of(values: Any) -> pd.DataFrame:
    return pd.DataFrame({"item": ["x", "y"], "paid": values, "shop": ["a", "b"], "buyer": ["u", "v"]})


def bounded(by: ss.projections.Projection, values: Any) -> Any:
    return ss.bounding.bound_units([(["a", "b"], ["x", "y"], values, ["u", "v"])], by, neighbours=NEAR)


DOORS: dict[str, Callable[[ss.projections.Projection, Any], Any]] = {
    "a batch": lambda by, values: by.sketch().update(["x", "y"], values),
    "one event": lambda by, values: by.sketch().update("x", values[0]),
    "one value for all": lambda by, values: by.sketch().update(["x", "y"], values[0]),
    "a table": lambda by, values: by.table().update(["a", "b"], ["x", "y"], values),
    "rows": lambda by, values: by.sketch().update_rows(rows_of(values), index="item", value="paid"),
    "rows by key": lambda by, values: by.table().update_rows(rows_of(values), key="shop", index="item", value="paid"),
    "an agreement": lambda by, values: ss.sketch(rows_of(values), agreed(by)),
    "an agreement by key": lambda by, values: ss.sketch(rows_of(values), agreed(by, key="shop")),
    "bounded units": bounded,
    "bounded rows": lambda by, values: ss.bound(rows_of(values), agreed(by, unit="buyer", neighbours=NEAR)),
}
LOSSY: dict[str, Any] = {"floats": [0.5, 2.0], "decimals": [Decimal("1.25"), Decimal(2)], "NumPy": np.array([1.5, 2.0])}


@pytest.mark.parametrize("door", DOORS)
def test_values_that_a_grid_truncates_are_told_to_the_operator(door: str) -> None:
    for name, values in LOSSY.items():
        with pytest.warns(TruncationWarning, match="multiples of the resolution, 1, so part of them is lost") as caught:
            DOORS[door](WHOLE, values)
        assert [one.filename for one in caught] == [__file__], name


@pytest.mark.filterwarnings("error::streamsketch.errors.TruncationWarning")
@pytest.mark.parametrize("door", DOORS)
def test_values_on_the_grid_are_not(door: str) -> None:
    for values in ([1.0, -2.0], [Decimal(1), Decimal(2)], np.array([1, 2]), [3, 4]):
        DOORS[door](WHOLE, values)
    DOORS[door](WHOLE.replace(resolution="1/8"), [0.625, -0.125])


def test_integers_off_a_coarse_grid_are_told_too() -> None:
    with pytest.warns(TruncationWarning):
        WHOLE.replace(resolution=5).sketch().update(["x", "y"], [7, 10])


def test_the_warning_names_a_finer_grid_than_the_one_there_is() -> None:
    """Also of the fine grids that are chosen for bounds in sketch space."""
    for grid, finer in {"1": "1/100", "1/8192": "1/819200", "1/3": "1/300"}.items():
        with pytest.warns(TruncationWarning, match=f"A finer resolution, such as {finer}, keeps that part"):
            WHOLE.replace(resolution=grid).sketch().update("x", Decimal("19.99"))
        WHOLE.replace(resolution=finer).sketch().update("x", Decimal("19.99"))


def test_a_float_counts_at_its_binary_value_and_an_agreement_reads_it_as_it_prints(
    recwarn: pytest.WarningsRecorder,
) -> None:
    cents = WHOLE.replace(resolution="1/100")
    ss.sketch(rows_of([0.29, 0.57]), agreed(cents))
    cents.sketch().update("x", Decimal("0.29"))
    assert not recwarn.list
    with pytest.warns(TruncationWarning):
        cents.sketch().update("x", 0.29)


@pytest.mark.filterwarnings("error::streamsketch.errors.TruncationWarning")
def test_an_operator_may_refuse_them_and_nothing_is_added() -> None:
    sketch, table = WHOLE.sketch(), WHOLE.table()
    for refused in (
        lambda: sketch.update(["x"], [0.5]),
        lambda: table.update(["a"], ["x"], [0.5]),
        lambda: table.update_rows(rows_of([1, 0.5]), key="shop", index="item", value="paid"),
    ):
        with pytest.raises(TruncationWarning):
            refused()
    assert (sketch, table) == (WHOLE.sketch(), WHOLE.table())


@pytest.mark.filterwarnings("error::streamsketch.errors.TruncationWarning")
def test_what_an_intruder_sees_of_a_pan_private_sketch_holds_no_warning() -> None:
    """Python's registry of warnings would say that there was such a value."""
    ss.release.PanPrivateSketch(WHOLE, epsilon=1.0, neighbours=ss.L1(1)).update("x", 0.5)
