"""Raw files in one folder: a release of one counts for its copies, for merges with it and for its parts."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.storage import load_raw, raw_files, release_raw, save_raw
from streamsketch.storage.raw_files import append_raw, read_header
from streamsketch.storage.sketches import RawSketch

PROJECTION = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
NEAR = ss.L1(1, unit="sale")
PRIVACY: dict[str, Any] = {"epsilon": 1.0, "neighbours": NEAR}


def release(path: Path, **more: Any) -> Any:
    return release_raw(path, **(PRIVACY | more))


def merged(folder: Path, name: str, *parts: str) -> None:
    total, *others = [load_raw(folder / f"{part}.raw-sketch") for part in parts]
    for other in others:
        total.state.merge(other.state)  # type: ignore[arg-type]
    save_raw(RawSketch(total.state), folder / f"{name}.raw-sketch")


def copied(folder: Path, name: str, part: str) -> None:
    shutil.copy(folder / f"{part}.raw-sketch", folder / f"{name}.raw-sketch")


def linked(folder: Path, name: str, part: str) -> None:
    (folder / "elsewhere").mkdir()
    shutil.copy(folder / f"{part}.raw-sketch", folder / "elsewhere" / "x.raw-sketch")
    (folder / f"{name}.raw-sketch").symlink_to(folder / "elsewhere" / "x.raw-sketch")


def renamed(folder: Path, name: str, part: str) -> None:
    shutil.copy(folder / f"{part}.raw-sketch", folder / f"{name}.old")
    shutil.copy(folder / "c.raw-sketch", folder / f"{name}.raw-sketch")
    (folder / f"{name}.raw-sketch").unlink()
    (folder / f"{name}.raw-sketch").symlink_to(folder / f"{name}.old")


def updated(folder: Path, name: str, part: str) -> None:
    copied(folder, name, part)
    path = folder / f"{name}.raw-sketch"
    more = read_header(path).empty()
    more.update(["late"])  # type: ignore[call-arg] # a sketch of one stream
    append_raw(RawSketch(more, 1), path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in "abc":
        sketch = PROJECTION.sketch()
        sketch.update([name] * 3)
        save_raw(sketch, tmp_path / f"{name}.raw-sketch")
    merged(tmp_path, "ab", "a", "b")
    return tmp_path


SHARING: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "its copy": (lambda folder: copied(folder, "x", "a"), "a", "x"),
    "what it is a copy of": (lambda folder: copied(folder, "x", "a"), "x", "a"),
    "a copy that was added to": (lambda folder: updated(folder, "x", "a"), "a", "x"),
    "what was copied and added to": (lambda folder: updated(folder, "x", "a"), "x", "a"),
    "its merge": (lambda _: None, "a", "ab"),
    "its part": (lambda _: None, "ab", "b"),
    "a merge of its merge": (lambda folder: merged(folder, "x", "c", "ab"), "a", "x"),
    "a merge of what it was added to": (lambda folder: merged(folder, "x", "c", "ab"), "b", "x"),
    "another merge with its part": (lambda folder: merged(folder, "x", "b", "c"), "ab", "x"),
    "a link to a copy": (lambda folder: linked(folder, "x", "a"), "a", "x"),
    "what a link's file is a copy of": (lambda folder: linked(folder, "x", "a"), "x", "a"),
    "a copy of another name": (lambda folder: renamed(folder, "x", "a"), "a", "x"),
}


@pytest.mark.parametrize("name", SHARING)
def test_data_released_from_one_file_are_not_released_from_another(name: str, folder: Path) -> None:
    make, first, second = SHARING[name]
    make(folder)
    release(folder / f"{first}.raw-sketch")
    before = (folder / f"{second}.raw-sketch").read_bytes()
    said = rf"data in .*{second}\.raw-sketch, which {first}\.raw-sketch holds too, were released before: ε = 1, "
    with pytest.raises(ss.InvalidInputError, match=said):
        release(folder / f"{second}.raw-sketch")
    assert (folder / f"{second}.raw-sketch").read_bytes() == before
    release(folder / f"{second}.raw-sketch", again=True)
    release(
        folder / "c.raw-sketch",
        again=name in {"a merge of its merge", "a merge of what it was added to", "another merge with its part"},
    )


def test_tables_are_compared_as_well(tmp_path: Path) -> None:
    table = PROJECTION.table()
    table.update(["x", "y"], [1, 2])
    for name in ("a", "b"):
        save_raw(table, tmp_path / f"{name}.raw-sketch")
    release(tmp_path / "a.raw-sketch", public_keys=["x"])
    with pytest.raises(ss.InvalidInputError, match=r"which a\.raw-sketch holds too, were released before"):
        release(tmp_path / "b.raw-sketch", public_keys=["y"])


def test_every_file_is_named_and_every_release_once(folder: Path) -> None:
    copied(folder, "x", "a")
    release(folder / "a.raw-sketch")
    release(folder / "x.raw-sketch", epsilon=0.5, again=True)
    copied(folder, "y", "x")
    with pytest.raises(ss.InvalidInputError) as caught:
        release(folder / "y.raw-sketch")
    text = str(caught.value)
    assert "y.raw-sketch, which a.raw-sketch and x.raw-sketch hold too, were released before: " in text
    assert (text.count("ε = 1,"), text.count("ε = 0.5,")) == (1, 1)


def test_releases_of_other_parts_of_a_sum_do_not_count(folder: Path) -> None:
    for part in "ab":
        release(folder / f"{part}.raw-sketch")
    (folder / "ab.raw-sketch").unlink()
    parts = [load_raw(folder / f"{part}.raw-sketch") for part in "ab"]
    parts[0].state.merge(parts[1].state)  # type: ignore[arg-type]
    save_raw(RawSketch(parts[0].state, releases=parts[0].releases + parts[1].releases), folder / "ab.raw-sketch")
    assert len(load_raw(folder / "ab.raw-sketch").releases) == 2
    with pytest.raises(ss.InvalidInputError) as caught:
        release(folder / "a.raw-sketch")
    assert "a.raw-sketch was released before: " in str(caught.value)
    assert str(caught.value).count("ε = 1,") == 1


def test_a_release_of_a_sum_counts_for_its_parts_even_if_a_file_lost_the_others(folder: Path) -> None:
    release(folder / "ab.raw-sketch")
    copied(folder, "x", "ab")
    save_raw(load_raw(folder / "b.raw-sketch"), folder / "ab.raw-sketch")  # which keeps its record
    with pytest.raises(ss.InvalidInputError, match=r"data in .*a\.raw-sketch, which x\.raw-sketch holds too"):
        release(folder / "a.raw-sketch")


def test_a_release_of_unknown_or_many_parts_counts_for_all_data_of_the_file(folder: Path) -> None:
    for number in range(20):
        save_raw(PROJECTION.sketch(), folder / f"{number}.raw-sketch")
    merged(folder, "many", "a", *map(str, range(20)))
    release(folder / "many.raw-sketch")
    (past,) = load_raw(folder / "many.raw-sketch").releases
    assert past.parts is None
    with pytest.raises(ss.InvalidInputError, match=r"which many\.raw-sketch holds too"):
        release(folder / "a.raw-sketch")


def test_a_record_does_not_show_the_ids_of_data(folder: Path) -> None:
    release(folder / "a.raw-sketch")
    (past,) = load_raw(folder / "a.raw-sketch").releases
    assert past.parts == load_raw(folder / "a.raw-sketch").state.data_ids.parts
    assert repr(past) == f"PastRelease({past.guarantee!r}, {past.release_id!r})"


def test_what_is_no_raw_file_or_is_damaged_is_passed_over(folder: Path) -> None:
    copied(folder, "x", "a")
    release(folder / "a.raw-sketch")
    whole = (folder / "a.raw-sketch").read_bytes()
    (folder / "a.raw-sketch").write_bytes(whole[:100] + b"x" + whole[101:])
    (folder / "short").write_bytes(whole[:30])
    (folder / "empty").touch()
    (folder / "broken").symlink_to("nowhere")
    (folder / "folder").mkdir()
    release(folder / "x.raw-sketch")


def test_other_data_and_other_folders_are_not_compared(folder: Path, tmp_path: Path) -> None:
    """Which is what a ledger is for."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(folder / "a.raw-sketch", elsewhere)
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("sales", unit="sale", epsilon=1.0)
    release(folder / "c.raw-sketch")
    release(folder / "ab.raw-sketch", ledger=ledger, dataset="sales")
    assert load_raw(elsewhere / "a.raw-sketch").releases == ()
    with pytest.raises(ss.errors.LedgerError, match="left of 'sales'"):
        release(elsewhere / "a.raw-sketch", ledger=ledger)
    release(elsewhere / "a.raw-sketch")


def test_of_other_files_in_the_folder_only_the_start_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_raw(PROJECTION.sketch(), tmp_path / "a.raw-sketch")
    (tmp_path / "data.csv").write_text("item\nmilk\n" * 1000)
    monkeypatch.setattr(raw_files, "read_bounded", None)
    assert release(tmp_path / "a.raw-sketch").guarantee.epsilon == 1
