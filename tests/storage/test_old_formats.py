"""Files of earlier versions, as commit 8f7a64b wrote them: read as they are, and rewritten by the first write."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.privacy import Mechanism
from streamsketch.privacy.bounds import Bounds
from streamsketch.storage import load_raw, old_formats, release_raw, save_raw
from streamsketch.storage.first_bytes import is_raw
from streamsketch.storage.raw_files import append_raw, read_header, transaction
from streamsketch.storage.sketches import RawSketch

FOLDER = Path(__file__).parent / "version2"
PROJECTION = ss.SJLT(dim=1000, sketch_dim=16, sparsity=4, seed=3, resolution="1/2")
NEIGHBOURS = ss.L1(5, unit="customer", max_keys=2)
AGREEMENT = ss.Agreement(
    PROJECTION, index="item", key="shop", value="n", unit="customer", neighbours=NEIGHBOURS, text=None
)


def one(indices: list[int], values: list[int]) -> ss.Sketch:
    sketch = PROJECTION.sketch()
    sketch.update(indices, values)
    return sketch


def many() -> ss.SketchTable:
    table = sales(["a", "ü"])
    table.merge(sales(["b", "a"]))
    return table


def sales(shops: list[str]) -> ss.SketchTable:
    rows = {"shop": shops, "item": range(len(shops)), "n": [1.5] * len(shops), "customer": ["x"] * len(shops)}
    table = ss.bound(pa.table({name: pa.array(values) for name, values in rows.items()}), AGREEMENT)
    assert isinstance(table, ss.SketchTable)
    return table


EXPECTED: dict[str, Any] = {
    "first": (one([1, 2], [3, -4]), 0),  # before agreements and bounds were kept
    "one": (one([1, 2, 3], [3, -4, 5]), 3),  # released, then appended to
    "many": (many(), 4),
}


@pytest.fixture(params=EXPECTED)
def name(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    shutil.copy(FOLDER / f"{request.param}.raw-sketch", tmp_path / "a.raw-sketch")
    return str(request.param)


def check(raw: RawSketch, name: str) -> None:
    state, events = EXPECTED[name]
    assert (raw.state, raw.events) == (state, events)
    if name == "one":
        (past,) = raw.releases
        assert past.guarantee.neighbours == ss.L1("5/2", unit="sale")
        assert past.guarantee.mechanism == Mechanism.stated("discrete Laplace, scale 40"), "it was known by its text"
    if name == "many":
        assert raw.agreement == AGREEMENT
        assert raw.state.bounds == Bounds(ss.L1(10, unit="customer", max_keys=4), "scale")


def test_a_file_is_read_as_it_is(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.raw-sketch"
    before, header = path.read_bytes(), read_header(path)
    raw = load_raw(path)
    check(raw, name)
    assert is_raw(path)
    assert (header.events, header.ids) == (raw.events, raw.state.data_ids)
    assert header.keys == (3 if name == "many" else None)
    assert path.read_bytes() == before


def test_the_first_write_rewrites_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.raw-sketch"
    before = load_raw(path)
    path.chmod(0o644)
    append_raw(RawSketch(read_header(path).empty()), path)
    assert path.read_bytes().startswith(b"SQLite")
    assert path.stat().st_mode & 0o777 == 0o600
    raw = load_raw(path)
    check(raw, name)
    assert raw.state.data_ids == before.state.data_ids
    assert raw.releases == before.releases
    assert raw.state.largest == before.state.largest
    assert is_raw(path)
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_a_rewrite_that_is_interrupted_leaves_the_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.raw-sketch"
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("streamsketch.storage.raw_files.write_sketch", fail)
        with pytest.raises(OSError, match="No space"), transaction(path):
            pass
    assert path.read_bytes() == before
    check(load_raw(path), name)
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_releases_of_it_count(tmp_path: Path) -> None:
    for copy in ("a", "b"):
        shutil.copy(FOLDER / "one.raw-sketch", tmp_path / f"{copy}.raw-sketch")
    with pytest.raises(ss.InvalidInputError, match=r"a\.raw-sketch was released before: ε = 0\.5"):
        release_raw(tmp_path / "a.raw-sketch", epsilon=1.0, neighbours=ss.L1(1))
    release_raw(tmp_path / "a.raw-sketch", epsilon=1.0, neighbours=ss.L1(1), again=True)
    assert [past.guarantee.mechanism.is_record for past in load_raw(tmp_path / "a.raw-sketch").releases] == [
        False,
        True,
    ]
    with pytest.raises(
        ss.InvalidInputError, match=r"which a\.raw-sketch holds too, were released before: ε = 0\.5.*ε = 1"
    ):
        release_raw(tmp_path / "b.raw-sketch", epsilon=1.0, neighbours=ss.L1(1))
    save_raw(one([1], [1]), tmp_path / "b.raw-sketch")
    assert len(load_raw(tmp_path / "b.raw-sketch").releases) == 1


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", EXPECTED)
def test_any_changed_byte_and_any_cut_is_noticed(name: str, every: int) -> None:
    data = (FOLDER / f"{name}.raw-sketch").read_bytes()
    for place in range(0, len(data), 17 * every):
        changed = bytearray(data)
        changed[place] ^= 0x10
        with pytest.raises(ss.errors.WireFormatError):
            old_formats.read_old_sketch(bytes(changed))
    size = int.from_bytes(data[len(old_formats.OLD_RAW) + 1 :][:4], "little")
    length = int.from_bytes(data[len(old_formats.OLD_RAW) + 5 :][:8], "little")
    first = len(old_formats.OLD_RAW) + 13 + size + 16 + length + 16
    for end in range(0, len(data), every):
        if first <= end < first + 64 + 32 and not any(data[first : min(end, -(-first // 64) * 64)]):
            continue  # an append that was not finished
        with pytest.raises(ss.errors.WireFormatError):
            old_formats.read_old_sketch(data[:end])


def test_an_append_that_was_not_finished_does_not_count() -> None:
    data = bytearray((FOLDER / "one.raw-sketch").read_bytes())
    mark = data.index(b"APPENDED")
    data[mark : mark + 32] = bytes(32)
    for end in (len(data), len(data) - 100, mark + 40, mark):
        assert old_formats.read_old_sketch(bytes(data[:end])).state == one([1, 2], [3, -4])


def test_what_does_not_belong_together_is_refused() -> None:
    sketch, table = ((FOLDER / f"{name}.raw-sketch").read_bytes() for name in ("first", "many"))
    with pytest.raises(ss.errors.WireFormatError, match="joined"):
        old_formats.read_old_sketch(sketch * 2)
    with pytest.raises(ss.errors.WireFormatError, match="first line"):
        old_formats.read_old_sketch(b"x" + table)
