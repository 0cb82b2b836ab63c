"""Text that a rule calls one name has the same bits from every reader, in every engine, and for whoever asks for it."""

import functools
import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamsketch as ss
from streamsketch.agreement import Terms, TextRule
from streamsketch.agreement import text as spelling
from streamsketch.data.unicode_14 import unassigned_ranges
from streamsketch.features import Category, Features
from streamsketch.intake import Messages, RowReader
from tests.agreement.test_engines import in_beam, in_spark, in_stream, seen
from tests.cli.running import Forks
from tests.golden.kit_spellings import LOOSE, NEW, SPELLINGS
from tests.intake.logs import piped
from tests.oracles import naive_spelling

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
sketch: Any = ss.sketch
RULES = {"new": TextRule.from_dict(NEW), "loose": TextRule.from_dict(LOOSE)}
TEXTS = [one.text for one in SPELLINGS]


# --- one text ------------------------------------------------------------------------------------------------------


def is_unassigned(code: int) -> bool:
    return any(first <= code <= last for first, last in unassigned_ranges())


letters = st.characters(codec="utf-8") | st.sampled_from(
    "eé\u0301\u0323ΣσςßİK\u212b \t\xa0\u3000\u200b\ufeff\u1100\u1161\u0345\u1fb3\uff41"
)
steps = st.fixed_dictionaries(
    {
        "form": st.sampled_from([None, "NFC", "NFKC"]),
        "blanks": st.sampled_from([None, "trim", "collapse"]),
        "case": st.sampled_from([None, "fold"]),
        "invisible": st.sampled_from([None, "drop"]),
    }
).filter(lambda fields: any(fields.values()))


@given(st.lists(st.text(letters, max_size=12), min_size=1, max_size=8), steps)
def test_a_text_is_spelt_as_its_twin_says_alone_and_in_columns(texts: list[str], fields: dict[str, Any]) -> None:
    rule = TextRule(**fields)
    expected = [naive_spelling.spelt(text, **fields, unassigned=is_unassigned) for text in texts]
    assert [rule.apply(text) for text in texts] == expected
    assert rule.apply_to(pa.array(texts)).to_pylist() == expected
    assert rule.apply_to(pa.array(texts, pa.large_string())).to_pylist() == expected
    with_null = pa.array([None, *texts, *texts], pa.string())
    assert rule.apply_to(with_null).to_pylist() == [None, *expected, *expected]
    words = rule.apply_to(pa.array(texts * 2).dictionary_encode())
    assert words.to_pylist() == expected * 2
    assert len(set(words.dictionary.to_pylist())) == len(words.dictionary), "equal words are one"
    assert [rule.apply(text) for text in expected] == expected, "a spelling is its own"


@pytest.mark.parametrize("name", RULES)
def test_spellings_by_hand(name: str) -> None:
    for one in SPELLINGS:
        assert RULES[name].apply(one.text) == getattr(one, name), ascii(one.text)


@pytest.mark.parametrize("rule", ["trim", "collapse", "NFC", "fold, trim", "NFKC, fold, collapse"])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize(
    "texts",
    [
        ["tea"],
        ["two teas", ""],
        [" tea"],
        ["tea "],
        ["a  b"],
        ["a ", " b"],
        ["Tea"],
        ["te\ta"],
        ["\x7f"],
        ["", " "],
        [""],
    ],
    ids=repr,
)
def test_ascii_in_columns_is_spelt_as_alone(texts: list[str], kind: pa.DataType, rule: str) -> None:
    spelt = TextRule.parse(rule)
    for column in (pa.array(["", "jam", *texts, None, "x y", None], kind), pa.array([" ", *texts, "Z "], kind)[1:-1]):
        expected = [None if text is None else spelt.apply(text) for text in column.to_pylist()]
        assert spelt.apply_to(column).to_pylist() == expected


def test_the_lists_are_those_of_unicode() -> None:
    assert {ord(one) for one in spelling.BLANKS} == set(naive_spelling.BLANKS)
    assert {ord(one) for one in spelling.INVISIBLE} == set(naive_spelling.INVISIBLE)
    if unicodedata.unidata_version == "14.0.0":
        unassigned = {code for code in range(0x110000) if unicodedata.category(chr(code)) == "Cn"}
        assert {code for first, last in unassigned_ranges() for code in range(first, last + 1)} == unassigned
    else:  # what is assigned later was not before
        assert not any(
            unicodedata.category(chr(code)) == "Cn" and not is_unassigned(code) for code in range(0, 0x110000, 7)
        )


@functools.cache
def composing() -> set[str]:
    """Return the code points that compose with the letter before them."""
    return {
        parts[-1]
        for code in range(0x110000)
        if len(parts := unicodedata.decomposition(chr(code)).split()) == 2 and not parts[0].startswith("<")
    }


@pytest.mark.parametrize("form", [None, "NFC", "NFKC"])
@pytest.mark.parametrize("case", [None, "fold"])
def test_what_is_passed_on_unread_is_changed_by_no_rule(form: Any, case: Any) -> None:
    """Each alone, and behind every letter that something composes with."""
    rule = TextRule(form=form, blanks="trim", case=case, invisible="drop")
    passed = [
        chr(code)
        for one in spelling.PASSED_ON
        if (one.compatible or form != "NFKC") and (one.folded or case is None)
        for code in range(one.first, one.last + 1)
    ]
    joined = "".join(passed)
    assert rule.apply(joined.strip()) == joined.strip()
    hangul = {f"{code:04X}" for code in [*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)]}
    assert not {f"{ord(one):04X}" for one in passed} & (composing() | hangul)
    assert not any(unicodedata.combining(one) for one in passed)


def test_text_that_is_not_utf_8_stays_for_whoever_refuses_it() -> None:
    broken = pa.array([b"e\xcc\x81 ", b"\xff ", b"\xc3\xa9"]).cast(pa.binary()).view(pa.string())
    found = RULES["new"].apply_to(broken).cast(pa.binary()).to_pylist()
    assert found == ["é".encode(), b"\xff ", "é".encode()]
    agreement = ss.Agreement(PROJECTION, index="item")
    with pytest.raises(ss.InvalidInputError, match="UTF-8"):
        sketch(pa.table({"item": broken}), agreement)


# --- the agreement ---------------------------------------------------------------------------------------------------


def test_new_agreements_have_a_rule_and_old_ones_keep_their_bits() -> None:
    new = ss.Agreement(PROJECTION, index="item")
    old = new.replace(text=None)
    assert new.text == TextRule() == RULES["new"]
    assert json.loads(new.to_json())["text"] == NEW
    assert ss.Agreement.from_json(new.to_json()) == new
    assert "text" not in json.loads(old.to_json())
    assert ss.Agreement.from_json(old.to_json()).text is None
    assert new.fingerprint != old.fingerprint
    assert "text in NFC, collapse" in str(new)
    rows = pa.table({"item": TEXTS})
    assert np.array_equal(sketch(rows, old).state(), sketch(rows, ss.Agreement.of(PROJECTION, index="item")).state())


def test_a_rule_needs_text_and_a_step() -> None:
    columns: Any
    wrong: Any
    for columns in ({"index": {"week": "integer"}}, {"index": {"day": "date"}, "unit": {"who": "integer"}}):
        assert ss.Agreement(PROJECTION, **columns, text=TextRule(case="fold")).text is None
    assert ss.Agreement(PROJECTION, index={"week": "integer"}, unit="who").text == TextRule()
    assert ss.Agreement.of(PROJECTION, index="item").text is None
    for wrong in ({"form": "NFD"}, {"blanks": "no"}, {"case": "lower"}, {"form": None, "blanks": None}):
        with pytest.raises(ss.InvalidInputError, match="rule for text"):
            TextRule(**wrong)
    for text in ("", "NFC, NFKC", "upper", "NFC,"):
        with pytest.raises(ss.InvalidInputError, match="a rule for text has the steps"):
            TextRule.parse(text)
    assert ss.Agreement(PROJECTION, index="item", text="NFC").text == TextRule(blanks=None)
    with pytest.raises(TypeError, match="steps such as"):
        ss.Agreement(PROJECTION, index="item", text=["NFC"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "stated",
    [
        {},
        [],
        "NFC",
        {"unicode": "14.0"},
        {"form": "NFC"},
        NEW | {"unicode": "15.1"},
        NEW | {"case": None},
        NEW | {"x": 1},
    ],
)
def test_json_states_a_rule_in_one_way(stated: Any) -> None:
    fields = ss.Agreement(PROJECTION, index="item").to_dict()
    with pytest.raises(ss.InvalidInputError):
        ss.Agreement.from_json(json.dumps(fields | {"text": stated}))
    whole = ss.Agreement(PROJECTION, index={"week": "integer"}).to_dict()
    with pytest.raises(ss.InvalidInputError, match="no column of text"):
        ss.Agreement.from_json(json.dumps(whole | {"text": NEW}))


def test_the_command_states_a_rule(tmp_path: Path, forks: Forks) -> None:
    said: list[str] = []

    def made(*options: str) -> ss.Agreement:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        said.append(forks.succeeded("agree", "--index", "item:text", "-o", str(path), *options, cwd=tmp_path))
        return ss.Agreement.load(path)

    assert made().text == TextRule()
    assert "NFC, collapse" in said[0]
    assert made("--set", "text=NFKC,trim,fold,drop").text == TextRule.parse("NFKC, trim, fold, drop")
    assert made("--set", "text=as-is").text is None
    refused = forks.refused(
        "agree", "--index", "item:text", "-o", str(tmp_path / "x.json"), "--set", "text=lower", cwd=tmp_path
    )
    assert "a rule for text has the steps NFC or NFKC" in refused


# --- readers and engines ---------------------------------------------------------------------------------------------


def csv(table: pa.Table, folder: Path) -> Any:
    pa_csv.write_csv(table, folder / "rows.csv")
    return "rows.csv"


def json_lines(table: pa.Table, folder: Path) -> Any:
    lines = (json.dumps(row, ensure_ascii=place % 2 == 0) for place, row in enumerate(table.to_pylist()))
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")
    return "rows.jsonl"


def parquet(table: pa.Table, folder: Path) -> Any:
    pq.write_table(table, folder / "rows.parquet", row_group_size=7)
    return "rows.parquet"


READERS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "CSV": csv,
    "JSON lines": json_lines,
    "Parquet": parquet,
    "Arrow": lambda table, _: table,
    "Arrow dictionary": lambda table, _: table.set_column(
        0, "item", table["item"].combine_chunks().dictionary_encode()
    ),
    "Arrow views": lambda table, _: table.set_column(0, "item", table["item"].cast(pa.string_view())),
    "pandas": lambda table, _: table.to_pandas(),
    "pandas objects": lambda table, _: pd.DataFrame({"item": np.array(table["item"].to_pylist(), dtype=object)}),
    "pandas categories": lambda table, _: table.to_pandas().astype("category"),
    "polars": lambda table, _: pl.from_arrow(table),
    "polars categories": lambda table, _: pl.DataFrame(pl.from_arrow(table)).cast(pl.Categorical),
    "polars, lazy": lambda table, _: pl.DataFrame(pl.from_arrow(table)).lazy(),
    "DuckDB": lambda table, _: duckdb.from_arrow(table),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_gives_the_bits_of_the_spelling(reader: str, rule: str, tmp_path: Path, forks: Forks) -> None:
    agreement = ss.Agreement(PROJECTION, index="item", missing="drop", text=RULES[rule])
    plain = agreement.replace(text=None)
    texts = [text for text in TEXTS if "\x00" not in text]  # which DuckDB and CSV have no place for
    spelt = [getattr(one, rule) for one in SPELLINGS if one.text in texts]
    expected = sketch(pa.table({"item": spelt}), plain).state()
    rows = READERS[reader](pa.table({"item": texts}), tmp_path)
    if isinstance(rows, str):
        agreement.save(tmp_path / "a.json")
        out = tmp_path / "o.raw-sketch"
        forks.succeeded("sketch", str(tmp_path / rows), "--agreement", str(tmp_path / "a.json"), "-o", str(out))
        found: Any = ss.storage.load_raw(out).state
    else:
        found = sketch(rows, agreement)
    assert np.array_equal(found.state(), expected)
    assert not np.array_equal(expected, sketch(pa.table({"item": texts}), plain).state())


def test_messages_give_the_bits_of_the_spelling() -> None:
    agreement = ss.Agreement(PROJECTION, index="item", missing="drop")
    lines = [
        json.dumps({"topic": "t", "partition": 0, "offset": place, "payload": json.dumps({"item": text})}) + "\n"
        for place, text in enumerate(TEXTS)
    ]
    sums = ss.Sketch(agreement)
    with piped("".join(lines).encode()) as descriptor:
        messages = Messages(descriptor, RowReader(agreement))
        for piece in messages.pieces():
            messages.read(piece, lambda batch, _: sums.update_rows(batch))
    spelt = pa.table({"item": [one.new for one in SPELLINGS]})
    assert np.array_equal(sums.state(), sketch(spelt, agreement.replace(text=None)).state())


def mixed(text: str, way: int) -> str:
    """Return another spelling of a name."""
    return [text, unicodedata.normalize("NFD", text), f" {text}\t", text.replace(" ", "\xa0")][way % 4]


KEYS, ITEMS = ["Café Nord", "Süd"], ["Crème brûlée", "Jalapeño Gouda", "tea"]
PEOPLE = [f"Zoë Müller {n}" for n in range(40)]
CLEAN = {
    "customer": [PEOPLE[n % 40] for n in range(240)],
    "shop": [KEYS[n % 2] for n in range(240)],
    "item": [ITEMS[n % 3] for n in range(240)],
    "at": [f"2026-11-22T13:0{n % 3}:{10 + n % 50}Z" for n in range(240)],
}
SALES = pa.table(CLEAN)
SPELT = pa.table(
    {name: [mixed(text, n + n // 7) for n, text in enumerate(CLEAN[name])] for name in ("customer", "shop", "item")}
    | {"at": CLEAN["at"]}
)


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("engine", ["one process", "Beam", "Spark", "stream"])
def test_engines_clip_and_count_people_by_their_spelling(engine: str, tmp_path: Path) -> None:
    """Each person has six rows in four spellings, and may add six: four people would add to the counts."""
    windows = ss.Windows(time="at", every="10 min", first="2026-11-22T13:00Z", last="2026-11-22T13:00Z")
    agreement = ss.Agreement(
        PROJECTION, index="item", key="shop", unit="customer", missing="drop", counting=ss.privacy.Counting(10, 2),
        neighbours=ss.L1(6, unit="customer"), terms=Terms(epsilon=2), keys=[mixed(key, 1) for key in KEYS],
        windows=windows if engine == "stream" else None,
    )  # fmt: skip
    assert list(agreement.keys or ()) == sorted(KEYS)

    def released(rows: pa.Table, of: ss.Agreement, folder: Path) -> Any:
        folder.mkdir()
        run = {"one process": lambda *_: of.release(rows), "Beam": in_beam, "Spark": in_spark, "stream": in_stream}[
            engine
        ]
        found = run(of, rows, folder)
        (table,) = found.values() if engine == "stream" else (found,)
        return {key: cells for key, (cells, _) in seen(table).items()}

    expected = released(SALES, agreement.replace(text=None, keys=KEYS), tmp_path / "clean")
    assert released(SPELT, agreement, tmp_path / "spelt") == expected
    assert set(expected) == set(KEYS)


def test_units_are_never_folded_and_never_lose_invisible_characters() -> None:
    agreement = ss.Agreement(
        PROJECTION, index="item", unit="customer", neighbours=ss.L1(1, unit="customer"), text=RULES["loose"]
    )
    units = ["aB3", "Ab3", "ab\u200b3", "\uff41b3", "ab3", " ab3", "ab3\xa0"]
    table = pa.table({"customer": units, "item": ["tea"] * len(units)})
    summary = ss.bounding.BoundingSummary()
    bound: Any = ss.bound(table, agreement, summary=summary)
    assert bound.mass == 5  # one row of each of aB3, Ab3, ab\u200b3, a full-width ab3, and ab3
    both = ss.Agreement(PROJECTION, index="customer", unit="customer", neighbours=ss.L1(1), text=RULES["loose"])
    assert both.rule_of(both.index[0]) == TextRule(form="NFC", blanks="collapse")
    assert TextRule(form=None, blanks=None, case="fold").of_units is None


@pytest.mark.parametrize("missing", ["drop", "refuse", "keep"])
def test_text_of_blanks_alone_is_missing(missing: Any) -> None:
    agreement = ss.Agreement(PROJECTION, index="item", missing=missing, text=TextRule())
    rows = pa.table({"item": ["tea", " \xa0\u3000", ""]})
    if missing == "refuse":
        with pytest.raises(ss.InvalidInputError, match="null or blank in row 2"):
            sketch(rows, agreement)
    else:
        assert sketch(rows, agreement).mass == (1 if missing == "drop" else 3)


def test_whoever_asks_for_an_item_may_spell_it_as_they_like() -> None:
    agreement = ss.Agreement(PROJECTION, index=["item", "shop"], text=TextRule(case="fold"))
    sums = sketch(pa.table({"item": ["Café"] * 5, "shop": ["Nord"] * 5}), agreement)
    for item, shop in (("café", "nord"), ("CAFE\u0301 ", "\xa0NORD"), ("Café", "Nord")):
        assert ss.frequency(sums, (item, shop)).value == 5
    assert ss.frequency(sums, ("cafe", "nord")).value != 5


def test_windows_that_are_keys_keep_their_names() -> None:
    windows = ss.Windows(time="at", every="1 min", first="2026-11-22T13:00Z", last="2026-11-22T13:01Z", are="keys")
    agreement = ss.Agreement(
        PROJECTION, index="item", key="shop", unit="customer", neighbours=ss.L1(9, unit="customer", max_keys=2),
        windows=windows, keys=["CAFE\u0301 Nord"], terms=Terms(epsilon=1), text=TextRule(case="fold"),
        missing="drop",
    )  # fmt: skip
    published: Any = agreement.published_keys
    names = list(published)
    assert names == ["café nord 2026-11-22T13:00Z", "café nord 2026-11-22T13:01Z"]
    assert agreement.keys_of(["Café  NORD 2026-11-22T13:00Z"]) == names[:1]
    assert set(agreement.sketch(SPELT)) == set(names)


def test_categories_of_features_are_spelt_and_listed_values_stay() -> None:
    features = Features({"sex": Category(["Männlich", "weiblich"]), "town": Category(hashed=16)}, seed=7)
    agreement = ss.Agreement(features=features, text=TextRule(case="fold"))
    clean = pa.table({"sex": ["Männlich", "weiblich", None], "town": ["köln", "bonn", "bonn"]})
    rows = pa.table({"sex": ["MA\u0308NNLICH ", "Weiblich", None], "town": ["KO\u0308LN", " Bonn", "bonn"]})
    expected = sketch(clean, agreement.replace(text=None)).state()
    assert np.array_equal(sketch(rows, agreement).state(), expected)
    words = pa.table({name: rows[name].combine_chunks().dictionary_encode() for name in rows.column_names})
    assert np.array_equal(sketch(words, agreement).state(), expected)
    twice = Features({"sex": Category(["f", "F"])}, seed=7)
    ss.Agreement(features=twice)
    with pytest.raises(ss.InvalidInputError, match="lists 'f' and 'F', which are one name"):
        ss.Agreement(features=twice, text=TextRule(case="fold"))
    assert ss.Agreement(features=Features({"age": ss.features.Number(0, 9)}, seed=7)).text is None


def test_a_column_that_is_in_its_spelling_is_not_copied() -> None:
    texts = ["green tea", "Crème", "中文", "한국어", "ячмень"]
    for column in (pa.array(texts), pa.array(texts).dictionary_encode()):
        assert RULES["new"].apply_to(column) is column
    shuffled = [mixed(text, place // 5 + place // 7) for place, text in enumerate(texts * 300)]
    assert RULES["new"].apply_to(pa.array(shuffled)).to_pylist() == texts * 300
