"""The report says whether streams spell alike: by a dictionary, and without one where a stream is unlike all others."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.report import Dictionary, page_of
from tests.cli.running import Forks
from tests.report.test_page import HOSTILE, Page, static

NAMES = [f"{colour} {thing}" for colour in ("green", "black", "white") for thing in ("tea", "rice", "bread")]
LOUD = [name.upper() for name in NAMES]
AGREEMENT = ss.Agreement(ss.CountSketch(sketch_dim=512, seed=7), index="item", text=None)
DICTIONARY = Dictionary(NAMES, None, AGREEMENT)
ASKS = "Do they spell alike?"


def release(names: list[str], rows: int = 500) -> ss.PrivateSketch:
    sketch: Any = ss.sketch(pa.table({"item": names * rows}), AGREEMENT)
    released: ss.PrivateSketch = sketch.release(epsilon=5, neighbours=ss.L1(1, unit="row"))
    return released


def said(page: str) -> str:
    return " ".join("".join(Page(static(page)).text).split())


@pytest.mark.parametrize("by", [None, "distance", "cosine"])
def test_a_stream_unlike_all_others_is_asked_about_and_a_dictionary_answers(by: Any) -> None:
    found = {"north": release(NAMES), "south": release(LOUD), "west": release(NAMES)}
    for kept in (("north", "south"), ("north", "south", "west")):
        streams = {name: found[name] for name in kept}
        plain = said(page_of(streams, title="t", by=by))
        unlike = "south" if len(kept) == 3 else "north, south"
        assert f"{ASKS} With 95 % confidence, no cosine of {unlike} with another stream" in plain
        answered = said(page_of(streams, title="t", by=by, dictionary=DICTIONARY))
        assert "south seems to have upper case, and north has not" in answered
        assert ASKS not in answered


def test_streams_that_spell_alike_raise_no_alarm() -> None:
    streams = {"north": release(NAMES), "south": release(NAMES), "west": release(NAMES[:5])}
    assert ASKS not in said(page_of(streams, title="t"))
    assert "No two streams look like the same names" in said(page_of(streams, title="t", dictionary=DICTIONARY))


@pytest.mark.parametrize("rows", [0, 1])
def test_streams_of_noise_are_not_asked_about(rows: int) -> None:
    streams = {"north": release(NAMES), "south": release(NAMES), "empty": release(NAMES[:1] * rows, 1)}
    assert ASKS not in said(page_of(streams, title="t"))
    assert ASKS not in said(page_of({"one": streams["north"], "empty": streams["empty"]}, title="t"))


def test_windows_of_one_stream_are_not_asked_about() -> None:
    streams = {"2026-01": release(NAMES), "2026-02": release(LOUD)}
    assert ASKS not in said(page_of(streams, title="t"))


def test_hostile_names_are_text_here_too() -> None:
    streams = {name: release(LOUD if place else NAMES) for place, name in enumerate(HOSTILE[:3])}
    page = static(page_of(streams, title="t", dictionary=DICTIONARY))
    assert "<script>alert" not in page
    assert "seems to have upper case" in page


def test_the_command_takes_a_dictionary(tmp_path: Path, forks: Forks) -> None:
    AGREEMENT.save(tmp_path / "a.json")
    (tmp_path / "names.txt").write_text("\n".join(NAMES))
    release(NAMES).save(tmp_path / "north.sketch")
    release(LOUD).save(tmp_path / "south.sketch")
    how = ["report", "north.sketch", "south.sketch", "--set", "dictionary=names.txt"]
    facts = json.loads(forks.succeeded(*how, "--agreement", "a.json", "-o", "p.html", "--json", cwd=tmp_path))
    assert [(one["second"], one["way"]) for one in facts["spelling"]] == [("south", "upper case")]
    assert "south seems to have upper case" in (tmp_path / "p.html").read_text()
    refused = forks.refused(*how, "--agreement", "a.json", "--set", "category=kind", "-o", "q.html", cwd=tmp_path)
    assert "give --why" in refused
