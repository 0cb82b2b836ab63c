"""Whatever is passed to a public verb by mistake, its error says what it was and what to pass instead."""

import io
import itertools
import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import streamsketch as ss
from streamsketch.errors import StreamsketchError

MAP = ss.CountSketch(sketch_dim=64, seed=7)
ROWS = pa.table(
    {"shop": ["Wien", "Graz"] * 20, "item": ["tea", "jam"] * 20, "customer": [f"secret{i}" for i in range(40)]}
)
AGREED: ss.Agreement = ss.agree(
    ROWS, MAP, key="shop", index="item", unit="customer", epsilon=1, delta=1e-6, keys=["Wien", "Graz"]
)
PUBLISHED = AGREED.release(ROWS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return a folder with a Parquet file."""
    path = tmp_path_factory.mktemp("wrong")
    pq.write_table(ROWS, path / "rows.parquet")
    return path


# What each is, and words of the remedies that it has where rows are needed
WRONG: dict[str, tuple[Callable[[pathlib.Path], Any], str]] = {
    "text": (lambda at: str(at / "rows.parquet"), "read_csv"),
    "path": (lambda at: at / "rows.parquet", "read_table"),
    "dataset": (lambda at: ds.dataset(at / "rows.parquet"), "to_reader"),
    "scanner": (lambda at: ds.dataset(at / "rows.parquet").scanner(), "to_reader"),
    "batches": (lambda _: iter(ROWS.to_batches()), "from_batches"),
    "generator": (lambda _: (row for row in ROWS.to_pylist()), "from_pylist"),
    "columns": (lambda _: ROWS.to_pydict(), "pyarrow.table"),
    "dicts": (lambda _: ROWS.to_pylist(), "from_pylist"),
    "frame": (lambda _: ROWS.to_pandas(), ""),
    "array": (lambda _: np.zeros((3, 2)), "DataFrame"),
    "none": (lambda _: None, "pass"),
    "json": (lambda _: json.dumps({"shop": "Wien"}), "json.loads"),
    "bytes": (lambda _: b"shop,item\n", "BytesIO"),
    "integer": (lambda _: 5, "pass"),
    "file": (lambda at: io.BytesIO((at / "rows.parquet").read_bytes()), "read"),
    "text file": (lambda _: io.StringIO("shop,item\n"), "read"),
    "class": (lambda _: ss.Sketch, "pass"),
    "table class": (lambda _: pa.Table, "pass"),
    "module": (lambda _: itertools, "pass"),
    "guarantee": (lambda _: PUBLISHED.guarantee, "pass"),
}
ESTIMATES = "sketch|load|choose|compare|stream|from_bytes|pass"
VERBS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "agree, a map": (lambda it: ss.agree(ROWS, it, index="item"), "CountSketch|from_json"),
    "bound, an agreement": (lambda it: ss.bound(ROWS, it), r"Agreement\.load|agree|from_json"),
    "sketch, an agreement": (lambda it: ss.sketch(ROWS, it), r"Agreement\.load|agree|from_json"),
    "Agreement": (lambda it: ss.Agreement(it, index="item"), "CountSketch|from_json"),
    "Agreement.load": (ss.Agreement.load, "path"),
    "agreement.load": (AGREED.load, "path"),
    "load": (ss.load, "path"),
    "load, expect": (lambda it: ss.load("north.sketch", expect=it), "agree|from_json|fingerprint"),
    "Sketch": (ss.Sketch, "CountSketch|from_json"),
    "SketchTable": (ss.SketchTable, "CountSketch|from_json"),
    "Sketch.merge": (lambda it: MAP.sketch().merge(it), "merge|sketch|load_raw"),
    "SketchTable.merge": (lambda it: MAP.table().merge(it), "merge|sketch|load_raw"),
    "pairwise": (ss.pairwise, ESTIMATES),
    "pairwise of": (lambda it: ss.pairwise([MAP.sketch(), it]), ESTIMATES),
    "cosine": (lambda it: ss.cosine(it, MAP.sketch()), ESTIMATES),
    "squared_distance": (lambda it: ss.squared_distance(MAP.sketch(), it), ESTIMATES),
    "inner_product": (lambda it: ss.inner_product(it, it), ESTIMATES),
    "squared_norm": (ss.squared_norm, ESTIMATES),
    "profile_distance": (lambda it: ss.profile_distance(it, MAP.sketch()), ESTIMATES),
    "frequency": (lambda it: ss.frequency(it, "tea"), ESTIMATES),
    "top": (lambda it: ss.top(it, ["tea"]), ESTIMATES),
    "top_differences": (lambda it: ss.top_differences(it, MAP.sketch(), ["tea"]), ESTIMATES),
    "sameness": (lambda it: ss.sameness(it, MAP.sketch()), ESTIMATES),
    "changes": (ss.changes, ESTIMATES),
    "linkage": (ss.linkage, ESTIMATES),
    "explain": (ss.explain, "load|pass|release|from_bytes"),
    "compose": (lambda it: ss.compose(it, populations="overlapping"), "load|pass|release|from_dict"),
    "compose of": (lambda it: ss.compose([it], populations="overlapping"), "load|pass|release|from_dict"),
    "plan": (lambda it: ss.plan(it, epsilon=1.0, neighbours=ss.L1(1)), "StreamFacts"),
    "plan, neighbours": (
        lambda it: ss.plan(ss.planning.StreamFacts(squared_distances=[100.0]), epsilon=1.0, neighbours=it),
        "L1",
    ),
    "plan_units": (lambda it: ss.planning.plan_units(it, units=5, epsilon=1.0, delta=1e-6), "TypicalUnit"),
}
OF_ROWS: dict[str, Callable[[Any], Any]] = {
    "agree": lambda it: ss.agree(it, MAP, index="item"),
    "bound": lambda it: ss.bound(it, AGREED),
    "sketch": lambda it: ss.sketch(it, AGREED),
    "release": AGREED.release,
    "agreement.sketch": AGREED.sketch,
    "update_rows": lambda it: ss.Sketch(ss.agree(ROWS, MAP, index="item")).update_rows(it),
}
# Other types than rows are right for these verbs
RIGHT = {
    ("agree, a map", "none"),  # a size is then planned
    ("load", "text"),
    ("load", "path"),
    ("agreement.load", "text"),
    ("agreement.load", "path"),
    ("Agreement.load", "text"),
    ("Agreement.load", "path"),
    ("compose of", "guarantee"),
    ("load, expect", "text"),
    ("load, expect", "none"),
}


@pytest.mark.parametrize(("verb", "wrong"), list(itertools.product(OF_ROWS, WRONG)))
def test_rows_of_a_wrong_type_are_refused_with_the_remedy(verb: str, wrong: str, folder: pathlib.Path) -> None:
    make, remedy = WRONG[wrong]
    if wrong == "frame":
        OF_ROWS[verb](make(folder))
        return
    passed = make(folder)
    with pytest.raises(TypeError, match=remedy) as caught:
        OF_ROWS[verb](passed)
    _check(caught.value, passed)


@pytest.mark.parametrize(("verb", "wrong"), [one for one in itertools.product(VERBS, WRONG) if one not in RIGHT])
def test_a_wrong_type_is_refused_with_a_remedy(verb: str, wrong: str, folder: pathlib.Path) -> None:
    call, remedy = VERBS[verb]
    passed = WRONG[wrong][0](folder)
    with pytest.raises((TypeError, StreamsketchError), match=remedy) as caught:
        call(passed)
    if not isinstance(caught.value, StreamsketchError):
        _check(caught.value, passed)


def _check(error: BaseException, passed: object) -> None:
    """Check that an error names what was passed, or one of its elements, and none of its values."""
    text = str(error)
    assert "got " in text
    assert ": " in text
    assert "secret" not in text
    assert "object is not" not in text
    kind = "None" if passed is None else passed.__name__ if isinstance(passed, type) else type(passed).__name__
    assert kind in text or not isinstance(passed, int | bytes | ss.Guarantee | type | None)


@pytest.mark.parametrize("wrong", ["path", "dataset", "generator", "columns", "none", "file", "class", "frame"])
def test_items_of_a_wrong_type_are_refused_with_a_remedy(wrong: str, folder: pathlib.Path) -> None:
    sketch = MAP.sketch()
    before = sketch.state().copy()
    with pytest.raises(StreamsketchError, match=r"column|list"):
        sketch.update(WRONG[wrong][0](folder))
    assert (sketch.state() == before).all()
    if wrong == "frame":
        return
    for verb in (ss.frequency, ss.top):
        with pytest.raises(StreamsketchError, match=r"column|list"):
            verb(sketch, WRONG[wrong][0](folder))


def test_what_is_half_right_is_told_what_is_missing() -> None:
    with pytest.raises(TypeError, match=r"choose a stream of it by its key.*pairwise"):
        ss.cosine(PUBLISHED, PUBLISHED)
    with pytest.raises(TypeError, match="one stream; pass a list"):
        ss.pairwise(PUBLISHED["Wien"])
    with pytest.raises(TypeError, match=r"Agreement\.of"):
        ss.bound(ROWS, MAP)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="sketched already"):
        ss.bound(AGREED.sketch(ROWS), AGREED)
    with pytest.raises(TypeError, match="loaded already"):
        ss.load(PUBLISHED)


def test_an_iterable_that_fails_keeps_its_own_error() -> None:
    def failing() -> Any:
        yield MAP.sketch()
        raise TypeError("of the caller")

    with pytest.raises(TypeError, match="of the caller"):
        ss.pairwise(failing())
