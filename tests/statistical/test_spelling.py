"""Releases at ε = 1 of 3,000 people show how parties spell, and parties that spell alike are not accused.

An alarm has the probability 0.001 in a call, and an interval misses with one of 0.05. With the noise and data of every
run but a salted one, thirty-five clean pairs have neither.
"""

import unicodedata
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.agreement import TextRule
from streamsketch.estimation import SpellingReport
from tests.noise import SALT, fixed_noise, salted_rng

pytestmark = pytest.mark.rejects(1e-4)


FIRST = [
    "Café",
    "Crème",
    "Müsli",
    "Jalapeño",
    "Señor",
    "Größe",
    "Ångström",
    "Smørrebrød",
    "Tofu",
    "Brot",
    "Kase",
    "Oliven",
]
SECOND = ["noir 250 g", "für Kinder", "extra fin", "dolce", "hot-pot", "mild 1 kg", "rojo", "blanc", "Nr 7", "bio"]
NAMES = [f"{one} {other}" for one in FIRST for other in SECOND]
PEOPLE, ITEMS = 3000, 6
sketch: Any = ss.sketch
WAYS: dict[str, Callable[[str], str]] = {
    "accents as marks of their own (NFD)": lambda text: unicodedata.normalize("NFD", text),
    "upper case": str.upper,
    "lower case": str.lower,
    "a blank at the end": lambda text: text + " ",
    "no-break spaces": lambda text: text.replace(" ", "\xa0"),
    "two blanks for each": lambda text: text.replace(" ", "  "),
    "full width": lambda text: "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in text).replace(
        " ", "\u3000"
    ),
    "a zero-width space at the end": lambda text: text + "\u200b",
    "no accents": lambda text: "".join(
        one for one in unicodedata.normalize("NFD", text) if not unicodedata.combining(one)
    ),
    "UTF-8 that was read as Windows-1252": lambda text: text.encode().decode("cp1252", errors="ignore"),
}
PROJECTION = ss.CountSketch(sketch_dim=1024, seed=5)


def agreed(text: TextRule | None) -> ss.Agreement:
    schema = pa.schema({"who": pa.string(), "item": pa.string()})
    fields: dict[str, Any] = {"index": "item", "unit": "who", "missing": "drop", "epsilon": 1, "delta": 1e-6}
    return ss.agree(schema, PROJECTION, **fields, text=text)


def released(agreement: ss.Agreement, seed: int, change: Callable[[str], str] = str) -> ss.PrivateSketch:
    random = salted_rng(seed)
    weights = 1 / np.arange(1, len(NAMES) + 1) ** 0.8
    order = salted_rng(7).permutation(len(NAMES))
    chosen = random.choice(order, (PEOPLE, ITEMS), p=weights / weights.sum())
    names = np.array([change(name) for name in NAMES], dtype=object)
    who = np.repeat([f"c{n}" for n in range(PEOPLE)], ITEMS)
    release: ss.PrivateSketch = agreement.release(
        pa.table({"who": who, "item": pa.array(names[chosen.ravel()].tolist())})
    )
    return release


def asked(agreement: ss.Agreement, seed: int, change: Callable[[str], str] = str) -> SpellingReport:
    with fixed_noise(str(seed)):
        releases = {"north": released(agreement, 2 * seed), "south": released(agreement, 2 * seed + 1, change)}
    return ss.spelling(releases, NAMES, agreement=agreement)


@pytest.mark.rejects(0.05)  # other people's items may be fewer of those that differ
@pytest.mark.parametrize("way", WAYS)
def test_a_planted_disagreement_is_named_with_the_party_that_has_it(way: str) -> None:
    found = asked(agreed(None), 1 + list(WAYS).index(way), WAYS[way])
    assert found.otherwise
    assert (found.otherwise[0].second, found.otherwise[0].way) == ("south", way)
    assert found.otherwise[0].folded > found.otherwise[0].cosine
    assert found.explained["north"].share > found.explained["south"].share
    assert way in str(found)
    assert "north: the dictionary explains" in str(found)


@pytest.mark.parametrize(("rule", "calls", "most"), [(None, 25, 12), (TextRule(), 10, 7)])
def test_parties_that_spell_alike_are_not_accused(rule: TextRule | None, calls: int, most: int) -> None:
    """With a salt, at most 2 calls may have an alarm, and of 50 or 20 intervals 12 or 7 may miss: more have 1e-5."""
    agreement, accused, missed = agreed(rule), 0, 0
    for seed in range(100, 100 + calls):
        found = asked(agreement, seed)
        accused += bool(found.otherwise)
        missed += sum(not share.low <= 1 <= share.high for share in found.explained.values())
    assert accused <= (2 if SALT else 0)
    assert missed <= (most if SALT else 0)


def test_what_the_agreement_calls_the_same_is_no_disagreement() -> None:
    for way in ("accents as marks of their own (NFD)", "a blank at the end", "no-break spaces", "two blanks for each"):
        assert not asked(agreed(TextRule()), 31, WAYS[way]).otherwise
    found = asked(agreed(TextRule()), 32, WAYS["upper case"])
    assert found.otherwise[0].way == "upper case"


def test_swapped_columns_are_seen() -> None:
    agreement = ss.Agreement(PROJECTION, index=["item", "shop"], text=None)
    pairs = pa.table({"item": NAMES[:60], "shop": [f"shop {n % 3}" for n in range(60)]})
    rows = pa.concat_tables([pairs] * 30)
    swapped = pa.table({"item": rows["shop"], "shop": rows["item"]})
    found = ss.spelling({"ours": sketch(rows, agreement), "theirs": sketch(swapped, agreement)}, pairs)
    assert found.otherwise[0].way == "columns swapped"


def test_one_stream_is_explained_and_nothing_is_compared() -> None:
    table = {"north": sketch(pa.table({"item": NAMES * 9}), ss.Agreement(PROJECTION, index="item"))}
    found = ss.spelling({"2026": table}, NAMES)
    assert list(found.explained) == ["2026 north"]
    assert found.otherwise == ()
    wrong: Any
    for wrong in ([], {}):
        with pytest.raises((TypeError, ss.InvalidInputError), match="releases"):
            ss.spelling(wrong, NAMES)
