"""What a report says first: groups that stand out, changes, or that noise hides everything."""

import re
from typing import Any, cast

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.estimation import Estimates
from streamsketch.estimation.groups import ordered_tree
from streamsketch.report import page_of
from streamsketch.report.choice import Chosen
from streamsketch.report.pairs import pairs_of
from streamsketch.report.standing import Groups, answer, groups_in
from tests.report.test_choice import PROJECTION, empty, kinds
from tests.report.test_page import static

NAMES = ["north", "south", "east", "west", "island"]


def chosen_by(cosines: Any, error: float) -> Chosen:
    """Return a comparison by given cosines, with one standard error for all of them."""
    values = np.array(cosines, dtype=float)
    noise = np.full_like(values, error**2) * ~np.eye(len(values), dtype=bool)
    found = Estimates(values, 0 * noise, noise, lowest=-1.0, highest=1.0)
    squares = Estimates(2 - 2 * values, 0 * noise, 4 * noise, lowest=0.0, highest=4.0)
    return Chosen("cosine", list(range(len(values))), [], {}, found, squares)


def groups_of(chosen: Chosen) -> Groups:
    return groups_in(chosen, ordered_tree(chosen.squares.value)[0])


def blocks(*sizes: int, within: float = 0.9, between: float = 0.1) -> np.ndarray:
    kinds = np.repeat(np.arange(len(sizes)), sizes)
    found: np.ndarray = np.where(np.equal.outer(kinds, kinds), within, between)
    np.fill_diagonal(found, 1.0)
    return found


@pytest.mark.parametrize(
    ("sizes", "error", "groups"),
    [
        ((2, 3), 0.02, [[0, 1], [2, 3, 4]]),
        ((2, 2, 1), 0.02, [[0, 1], [2, 3]]),  # a single stream is no group
        ((5,), 0.02, []),  # and neither are all of them
        ((2, 3), 0.5, []),
    ],
)
def test_groups_are_those_whose_intervals_lie_apart(sizes: Any, error: float, groups: Any) -> None:
    found = groups_of(chosen_by(blocks(*sizes), error))
    assert sorted(found.groups) == groups
    assert found.hidden == []
    assert found.alike is (error > 0.1 or sizes == (5,))


def test_a_stream_of_much_noise_hides_no_group_and_is_said_to_be_hidden() -> None:
    found = chosen_by(blocks(2, 2, 1), 0.02)
    found.estimates.noise_variance[4, :4] = found.estimates.noise_variance[:4, 4] = 0.5**2
    groups = groups_of(found)
    assert sorted(groups.groups) == [[0, 1], [2, 3]]
    assert groups.hidden == [4]
    assert answer(NAMES, found, groups, drawn=True).detail.endswith("Noise hides where 1 stream belongs.")


def test_one_pair_that_may_be_as_near_takes_a_group_away() -> None:
    values = blocks(2, 3)
    values[0, 2] = values[2, 0] = 0.88
    assert groups_of(chosen_by(values, 0.02)).groups == []


def test_the_largest_groups_are_named_and_not_those_within_them() -> None:
    values = blocks(4, 2)
    values[:2, 2:4] = values[2:4, :2] = 0.7
    assert sorted(groups_of(chosen_by(values, 0.01)).groups) == [[0, 1, 2, 3], [4, 5]]


def test_groups_without_differences_are_found_in_one_of_twenty_cases_at_most() -> None:
    """200 tables of 6 estimates with normal errors and one cosine: fails with probability below 1e-6."""
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(200):
        noise = np.triu(rng.normal(size=(6, 6)), 1)
        values = 0.5 + 0.02 * (noise + noise.T)
        np.fill_diagonal(values, 1.0)
        found += bool(groups_of(chosen_by(values, 0.02)).groups)
    assert found <= 26


def test_the_answer_names_groups_or_the_nearest_pair_or_the_noise() -> None:
    grouped = chosen_by(blocks(2, 3), 0.02)
    said = answer(NAMES, grouped, groups_of(grouped), drawn=True)
    assert said.short == "2 groups stand out."
    assert sorted(said.listed) == [("2 streams", "north, south"), ("3 streams", "east, west, island")]
    values = blocks(2, 3)
    values[0, 2] = values[2, 0] = 0.93
    single = chosen_by(values, 0.02)
    said = answer(NAMES, single, groups_of(single), drawn=True)
    assert said.short == "All 10 pairs have something in common, most surely north and east."
    low, high = single.estimates[0, 2].selected_interval(10)
    assert said.listed[0] == ("north and east", f"cosine 0.930 ± 0.020, in {low:.3f} … {high:.3f}")
    assert "No group stands out" in said.detail
    noisy = chosen_by(blocks(2, 3), 0.5)
    said = answer(NAMES, noisy, groups_of(noisy), drawn=True)
    assert said.short == "No difference between the streams stands out."
    assert said.detail.endswith("every cosine is in -1.00 … 1.00.")
    assert answer(NAMES, noisy, groups_of(noisy), drawn=False).short == "Nothing stands out from the noise."
    pair = chosen_by([[1.0, 0.01], [0.01, 1.0]], 0.02)
    said = answer(["north", "south"], pair, groups_of(pair), drawn=True)
    assert said.short == "north and south: cosine 0.010 ± 0.020."
    assert "cannot be distinguished from 0" in said.detail


SINGLE = np.array([[1.0, 0.5, 0.1], [0.5, 1.0, 0.1], [0.1, 0.1, 1.0]])


@pytest.mark.parametrize(
    ("by", "values", "short"),
    [
        ("cosine", SINGLE, "1 of 3 pairs has something in common, most surely north and south."),
        ("cosine", -SINGLE, "No two streams are shown to have anything in common."),
        ("profile", 2 - 2 * SINGLE, "1 of 3 pairs has something in common, most surely north and south."),
        ("distance", 1 - SINGLE, "All 3 pairs differ beyond the noise."),
        ("distance", 3 * (1 - SINGLE), "All 3 pairs differ beyond the noise; the nearest are north and south."),
        ("distance", 0.9 * (SINGLE > 0.2), "1 of 3 pairs differs beyond the noise."),
        ("mean", 0 * SINGLE, "No two streams are shown to differ."),
    ],
)
def test_without_groups_the_answer_is_what_is_shown_of_pairs(by: Any, values: np.ndarray, short: str) -> None:
    noise = np.full_like(values, 0.1**2) * ~np.eye(3, dtype=bool)
    found = Estimates(values, 0 * noise, noise, lowest=-1.0 if by == "cosine" else 0.0, highest=4.0)
    said = answer(NAMES[:3], Chosen(by, [0, 1, 2], [], {}, found, found), Groups([], [], alike=False), drawn=True)
    assert said.short == short
    assert len(said.listed) == {"A": 3, "1": 1, "N": 0}[short[0]]


@pytest.mark.parametrize("by", ["cosine", "distance"])
def test_what_the_first_sentence_says_follows_from_the_table_below_it(by: Any) -> None:
    mixes = {"a": (9, 1, 0), "b": (4, 5, 1), "c": (1, 2, 7), "d": (3, 3, 4)}
    drawn = (static(page_of({name: shop(mix) for name, mix in mixes.items()}, title="Shops", by=by)) for _ in range(20))
    # a group that stands out, as with some noise, has another sentence
    text = next(page for page in drawn if not re.search('<p class="answer">1 group', page))
    rows = re.findall(
        r'<tr><th scope="row" class="name">(\w)</th><td class="name">(\w)</td>(?:<td>[^<]*</td>){2}'
        r"<td>(-?[\d.,]+) … (-?[\d.,]+|∞)</td>",
        text[text.index("All pairs, nearest first") :],
    )
    ends = {(first, second): (low, high) for first, second, low, high in rows}
    assert len(ends) == 6
    lows = {pair: float(low.replace(",", "")) for pair, (low, _) in ends.items()}
    above = [pair for pair, low in lows.items() if low > 0]
    short = re.search('<p class="answer">(.*?)</p>', text)
    assert short is not None
    verb = "have something in common" if by == "cosine" else "differ"
    assert short[1].startswith(f"{'All' if len(above) == 6 else f'{len(above)} of'} 6 pairs {verb}")
    unclear = sum(low <= 0 <= float(ends[pair][1].replace(",", "")) for pair, low in lows.items())
    assert f"cannot be distinguished from 0 ({unclear} of 6 pairs)" in text
    # wherever a pair's interval is, it is the same one
    listed = re.findall(r"<strong>(\w) and (\w)</strong>: [^<]* in (\S+) … (\S+)</li>", text)
    assert listed
    for first, second, *shown in listed:
        assert tuple(shown) == (ends.get((first, second)) or ends[second, first])
    tips = re.findall(r'class="tip">(\w) – (\w): [^<]* interval (\S+) … ([^<;]+)', text)
    assert len(tips) == 12
    for first, second, *shown in tips:
        assert tuple(shown) == (ends.get((first, second)) or ends[second, first])


def shop(mix: tuple[int, ...]) -> ss.PrivateSketch:
    """Return a release of a stream with three kinds of items, of which 200 are a kind."""
    sketch = ss.CountSketch(sketch_dim=256, seed=5).sketch()
    for kind, share in enumerate(mix):
        sketch.update([f"{kind} {item}" for item in range(200)], np.full(200, share))
    return sketch.release(epsilon=1.0, neighbours=ss.L1(2, unit="sale"))


def test_a_pair_of_windows_has_one_interval_in_changes_and_in_the_table() -> None:
    windows = {f"north 2024-W{week:02}": shop((week, 2, 1)) for week in range(1, 5)}
    text = static(page_of(windows, title="Weeks", by="distance"))
    every = {
        frozenset(found[:2]): found[2]
        for found in re.findall(
            r'class="name">north (2024-W\d\d)</th><td class="name">north (2024-W\d\d)</td>'
            r"<td>[^<]*</td><td>[^<]*</td><td>([^<]*)</td>",
            text[text.index("All pairs, nearest first") :],
        )
    }
    changes = text[text.index("The numbers of the changes") : text.index("<h2>All")]
    steps = re.findall(r'<td class="name">(2024-W\d\d)</td><td>[^<]*</td><td>[^<]*</td><td>([^<]*)</td>', changes)
    assert len(steps) == 3
    for window, interval in steps:
        before = f"2024-W{int(window[-2:]) - 1:02}"
        assert interval == every[frozenset((before, window))]
    assert text.count("all at once") >= 3


def test_pairs_without_anything_in_common_are_rarely_said_to_be_similar() -> None:
    """200 tables of 15 cosines of 0 with normal errors: one is said to be similar in 1 of 40 at most."""
    rng = np.random.default_rng(4)
    said = 0
    for _ in range(200):
        noise = np.triu(rng.normal(size=(6, 6)), 1)
        values = 0.1 * (noise + noise.T) + np.eye(6)
        said += (
            answer([*NAMES, "isle"], chosen_by(values, 0.1), Groups([], [], alike=False), drawn=True).short[0] != "N"
        )
    assert said <= 15


def test_the_answer_on_windows_is_which_changed() -> None:
    names = [f"north 2024-W{week:02}" for week in (1, 2, 3, 4, 5)]
    found = chosen_by(blocks(2, 3), 0.02)
    said = answer(names, found, groups_of(found), drawn=True, alarms=["north 2024-W03"])
    assert said.short == "1 change stands out: north 2024-W03."
    assert ("3 streams", "north 2024-W03 … 2024-W05") in said.listed
    assert ("2 streams", "north 2024-W01, north 2024-W02") in said.listed
    assert answer(names, found, groups_of(found), drawn=True, alarms=[]).short.startswith("No change stands out.")


def test_the_result_comes_first_and_the_guarantee_below() -> None:
    text = page_of(kinds(12), title="Shops")
    places = [text.index(part) for part in ("<h1>Shops", 'class="answer"', "<h2>All cosines", 'id="guarantee"')]
    assert places == sorted(places)
    assert "Errors to expect" not in text, "of squared distances, on a page of cosines"
    assert re.search(r"made by streamsketch [\d.]+\w*, \d+ \w+ \d{4}", text)
    assert text.index("resolution") > places[-1], "no JSON before the result"


def test_streams_of_noise_alone_are_not_ranked() -> None:
    text = static(page_of({name: empty() for name in "dcba"}, title="t"))
    assert "Nothing stands out from the noise." in text
    assert "<h2>Nearest neighbours" not in text
    assert "<h2>Map" not in text
    assert "nearest first" not in text
    assert re.findall(r'<th scope="col"><span>(.)</span>', text) == ["d", "c", "b", "a"]


def weekly(name: str, unit: str) -> dict[str, ss.PrivateSketch]:
    options: dict[str, Any] = {"epsilon": 1.0, "neighbours": ss.L1(1, unit=unit)}
    return {f"{name} 2024-W{week:02}": PROJECTION.sketch().release(**options) for week in range(1, 5)}


def test_the_guarantee_of_windows_says_what_somebody_in_all_of_them_spends() -> None:
    found = weekly("north", "customer in one window of 604800 s")
    text = page_of(found, title="t").replace("\u00a0", " ")
    assert (
        "ε = 1, δ = 0 for what one customer does in one window, and ε = 4, δ = 0 for a customer who is in all 4" in text
    )
    assert "is in two of the streams" not in text
    text = page_of(found | weekly("south", "customer in one window of 604800 s"), title="t").replace("\u00a0", " ")
    assert "ε = 4, δ = 0 for a customer who is in all 4 windows of one key" in text
    assert "ε = 8, δ = 0 for one who is in all windows of all 2 keys" in text


def test_many_pairs_are_rounded_far_below_their_errors_and_their_ends_stay() -> None:
    rng = np.random.default_rng(4)
    n = 120
    noise = np.triu(rng.normal(size=(n, n)), 1)
    found = Estimates(1e6 + 300 * (noise + noise.T), np.zeros((n, n)), np.full((n, n), 9e4), lowest=0.0)
    pairs = pairs_of(found)
    assert np.abs(pairs.value - found.value).max() <= 300 / 2**12
    small = pairs_of(Estimates(noise + noise.T, 0 * noise, 0 * noise + 1.0, lowest=0.0))
    assert (small.low[small.unclear] == 0.0).all()
    assert small.unclear.any()
    few = pairs_of(cast("Any", chosen_by(blocks(2, 3), 0.02).estimates))
    assert (few.value == blocks(2, 3)).all()
