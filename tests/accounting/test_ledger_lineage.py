"""Where data come from: whatever was merged, copied or saved is charged to all that its parts were charged to."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.data.data_ids import PUBLISHED
from streamsketch.errors import LedgerError

PROJECTION = ss.SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7)
TO: dict[str, Any] = {"neighbours": ss.L1(1, unit="customer")}
MANY = [1, 2, PUBLISHED - 1, PUBLISHED, PUBLISHED + 1, 3 * PUBLISHED]


@pytest.fixture
def ledger(tmp_path: Path) -> ss.Ledger:
    made = ss.Ledger(tmp_path / "ledger.sqlite")
    made.dataset("sales", unit="customer", epsilon=1.0)
    made.dataset("scratch", unit="customer", epsilon=1000.0)
    return made


def saved(state: Any, folder: Path) -> Any:
    ss.storage.save_raw(state, folder / "a.raw-sketch")
    return ss.storage.load_raw(folder / "a.raw-sketch").state


INHERITED: dict[str, Callable[[Any, Path], Any]] = {
    "itself": lambda state, _: state,
    "copy": lambda state, _: state.copy(),
    "pickle": lambda state, _: pickle.loads(pickle.dumps(state)),  # noqa: S301 - what the test itself has pickled
    "raw file": saved,
}


def test_copies_and_merges_are_charged_to_where_the_data_came_from(ledger: ss.Ledger) -> None:
    ledger.dataset("shop", unit="customer", epsilon=4.0)
    ledger.dataset("returns", unit="customer", epsilon=1.0)
    sales, returns = PROJECTION.sketch(), PROJECTION.sketch()
    sales.release(epsilon=1.0, **TO, ledger=ledger, dataset="shop")
    returns.release(epsilon=0.5, **TO, ledger=ledger, dataset="returns")
    sales.copy().release(epsilon=0.25, **TO, ledger=ledger)
    assert ledger.left("shop").epsilon == 2.75
    both = sales + returns
    both.release(epsilon=0.25, **TO, ledger=ledger, dataset="shop")
    assert (ledger.left("shop").epsilon, ledger.left("returns").epsilon) == (2.5, 0.25)
    with pytest.raises(LedgerError, match="left of 'returns'"):
        both.release(epsilon=0.5, **TO, ledger=ledger, dataset="shop")
    assert ledger.left("shop").epsilon == 2.5, "all or nothing"
    with pytest.raises(LedgerError, match="not in any data set"):
        PROJECTION.sketch().release(epsilon=0.5, **TO, ledger=ledger)


@pytest.mark.parametrize("inherit", ["itself", "raw file"])
@pytest.mark.parametrize("order", ["it into others", "others into it"])
@pytest.mark.parametrize("parts", [PUBLISHED - 1, PUBLISHED, 3 * PUBLISHED])
@pytest.mark.parametrize("make", [PROJECTION.sketch, PROJECTION.table], ids=["sketch", "table"])
def test_a_spent_part_is_found_among_any_number(
    ledger: ss.Ledger,
    tmp_path: Path,
    make: Any,
    parts: int,
    order: str,
    inherit: str,
) -> None:
    how = TO if make == PROJECTION.sketch else TO | {"keys_are_public": True}
    spent = make()
    ledger.charge("sales", ss.release.AdditiveNoise(epsilon=1.0, **TO).guarantee(PROJECTION), data_ids=spent.data_ids)
    others = [make() for _ in range(parts)]
    total, *rest = [spent, *others] if order == "others into it" else [*others, spent]
    for other in rest:
        total.merge(other)
    if make == PROJECTION.table:
        total.update(["a"], [1])
    total = INHERITED[inherit](total, tmp_path)
    with pytest.raises(LedgerError, match="left of 'sales': ε = 0"):
        total.release(epsilon=50.0, ledger=ledger, dataset="scratch", **how)
    assert ledger.left("scratch").epsilon == 1000.0


def test_each_of_many_parts_charges_its_own_data_set(ledger: ss.Ledger) -> None:
    total = PROJECTION.sketch()
    for number in range(2 * PUBLISHED):
        ledger.dataset(f"shop {number}", unit="customer", epsilon=1.0)
        part = PROJECTION.sketch()
        part.release(epsilon=0.25, ledger=ledger, dataset=f"shop {number}", **TO)
        total.merge(part)
    total.release(epsilon=0.25, ledger=ledger, dataset="scratch", **TO)
    assert {ledger.left(f"shop {number}").epsilon for number in range(2 * PUBLISHED)} == {0.5}
    assert ledger.left("scratch").epsilon == 999.75


@pytest.mark.parametrize("parts", MANY)
def test_an_entry_does_not_tell_how_many_parts_there_were(ledger: ss.Ledger, parts: int) -> None:
    total = PROJECTION.sketch()
    for _ in range(parts - 1):
        total.merge(PROJECTION.sketch())
    total.release(epsilon=1.0, ledger=ledger, dataset="scratch", **TO)
    (body,) = (entry.body for entry in ledger.entries() if entry.body["kind"] == "charge")
    assert len(body["data_ids"]) == PUBLISHED


def test_a_merge_that_goes_on_is_known_by_the_sketch_it_was_merged_into(ledger: ss.Ledger) -> None:
    total = PROJECTION.sketch()
    for _ in range(PUBLISHED):
        total.merge(PROJECTION.sketch())
    total.release(epsilon=1.0, ledger=ledger, dataset="sales", **TO)
    total.merge(PROJECTION.sketch())
    with pytest.raises(LedgerError, match="left of 'sales': ε = 0"):
        (PROJECTION.sketch() + total).release(epsilon=1.0, ledger=ledger, dataset="scratch", **TO)


@pytest.mark.parametrize("first", ["table", "key"])
@pytest.mark.parametrize("inherit", [name for name in INHERITED if name != "raw file"])
@pytest.mark.parametrize("parts", [1, 3 * PUBLISHED])
def test_a_table_and_its_keys_are_known_by_each_other(
    ledger: ss.Ledger, tmp_path: Path, first: str, inherit: str, parts: int
) -> None:
    table = PROJECTION.table(["a", "b"])
    for _ in range(parts - 1):
        table.merge(PROJECTION.table(["b"]))
    key, whole = INHERITED[inherit](table["a"], tmp_path), INHERITED[inherit](table, tmp_path)
    of_all: dict[str, Any] = TO | {"keys_are_public": True}
    signs = ss.signs.DPSignLogistic(epsilon=1.0, **TO)
    if first == "table":
        table.release(epsilon=1.0, ledger=ledger, dataset="sales", **of_all)
        later: list[Callable[..., Any]] = [key.release, PROJECTION.sketch().__add__(key).release]
        how = [TO, TO]
        with pytest.raises(LedgerError, match="left of 'sales': ε = 0"):
            signs.release(key, ledger=ledger, dataset="scratch")
    else:
        table["a"].release(epsilon=1.0, ledger=ledger, dataset="sales", **TO)
        later, how = [whole.release, whole.release], [of_all, TO | {"public_keys": ["c", "a"]}]
        table["b"].release(epsilon=1.0, ledger=ledger, dataset="scratch", **TO)  # of other people
        with pytest.raises(LedgerError, match="left of 'sales': ε = 0"):
            signs.release_table(whole, keys_are_public=True, ledger=ledger, dataset="scratch")
    for release, more in zip(later, how, strict=True):
        with pytest.raises(LedgerError, match="left of 'sales': ε = 0"):
            release(epsilon=50.0, ledger=ledger, dataset="scratch", **more)


# --- sums that are charged first ------------------------------------------------------------------------------------


def in_turn(parts: list[ss.Sketch]) -> ss.Sketch:
    total = parts[0].copy()
    for part in parts[1:]:
        total.merge(part)
    return total


def in_a_tree(parts: list[ss.Sketch]) -> ss.Sketch:
    """Return the sum of pairs, of pairs of pairs and so on."""
    while len(parts) > 1:
        parts = [in_turn(parts[place : place + 2]) for place in range(0, len(parts), 2)]
    return parts[0]


def added(parts: list[ss.Sketch]) -> ss.Sketch:
    total = PROJECTION.sketch()
    for part in parts:
        total = total + part
    return total


@pytest.mark.parametrize(
    ("parts", "merge", "inherit"),  # each number with each way to merge, and each of these with each heir
    [
        (parts, merge, [*INHERITED][(place + turn) % len(INHERITED)])
        for place, parts in enumerate((2, 15, PUBLISHED, PUBLISHED + 1, 40))
        for turn, merge in enumerate((in_turn, in_a_tree, added))
    ],
)
def test_no_part_of_a_charged_sum_is_free(
    ledger: ss.Ledger, tmp_path: Path, parts: int, merge: Callable[..., ss.Sketch], inherit: str
) -> None:
    days = [PROJECTION.sketch() for _ in range(parts)]
    INHERITED[inherit](merge(days), tmp_path).release(epsilon=1.0, ledger=ledger, dataset="sales", **TO)
    again = ss.Ledger(tmp_path / "ledger.sqlite")  # as read from its file
    for day in days:
        assert again.holders(day.data_ids) == ("sales",)
        with pytest.raises(LedgerError, match="left of 'sales': ε = 0"):
            day.release(epsilon=5.0, ledger=again, dataset="scratch", **TO)
    pair = days[0].copy()
    pair.merge(PROJECTION.sketch())
    with pytest.raises(LedgerError, match="left of 'sales': ε = 0"):
        pair.release(epsilon=5.0, ledger=again, dataset="scratch", **TO)
    PROJECTION.sketch().release(epsilon=5.0, ledger=again, dataset="scratch", **TO)


@pytest.mark.parametrize(("parts", "size"), [(16, 0), (17, 32), (32, 32), (33, 64), (64, 64), (65, 128)])
def test_the_size_of_an_entry_tells_a_number_of_parts_to_a_factor_of_two(
    ledger: ss.Ledger, parts: int, size: int
) -> None:
    in_turn([PROJECTION.sketch() for _ in range(parts)]).release(epsilon=1.0, ledger=ledger, dataset="sales", **TO)
    (body,) = (entry.body for entry in ledger.entries() if entry.body["kind"] == "charge")
    assert len(body.get("further_ids", [])) == size
    assert len(set(body.get("further_ids", []))) == size


def test_a_retry_of_a_large_sum_costs_nothing_and_more_parts_are_other_data(ledger: ss.Ledger) -> None:
    total = in_turn([PROJECTION.sketch() for _ in range(20)])
    guarantee = total.release(epsilon=0.25, **TO).guarantee
    receipts = [ledger.charge("sales", guarantee, data_ids=total.data_ids, once="job 7") for _ in range(2)]
    assert receipts[0] == receipts[1]
    assert ledger.left("sales").epsilon == 0.75
    total.merge(PROJECTION.sketch())
    with pytest.raises(LedgerError, match="for other data"):
        ledger.charge("sales", guarantee, data_ids=total.data_ids, once="job 7")


def test_ledgers_of_before_all_parts_were_entered_are_read(ledger: ss.Ledger, tmp_path: Path) -> None:
    """They know the sum, and a retry under an id of theirs costs nothing."""
    total = in_turn([PROJECTION.sketch() for _ in range(20)])
    guarantee = total.release(epsilon=0.25, **TO).guarantee
    receipt = ledger.charge("sales", guarantee, data_ids=total.data_ids.published(), once="job 7")
    again = ss.Ledger(tmp_path / "ledger.sqlite")
    assert again.charge("sales", guarantee, data_ids=total.data_ids, once="job 7") == receipt
    assert again.holders(total.data_ids) == ("sales",)
