"""States of all engines that earlier versions left are read, and go on to the bytes that those would have published."""

import contextlib
import dataclasses
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.once.reasons import continued
from streamsketch.streams.state import read_state, write_state
from tests.golden.states import ENGINES, PATH, STATE, content_of, files_of, left, went_on, write_files

CASES: list[dict[str, Any]] = json.loads(PATH.read_text(encoding="utf-8"))
OF_FILES = [case for case in CASES if STATE in case["files"]]

each = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['engine']} {case['version']}")
each_file = pytest.mark.parametrize("case", OF_FILES, ids=lambda case: f"{case['engine']} {case['version']}")


def test_every_engine_has_a_golden_state() -> None:
    assert {case["engine"] for case in CASES} == ENGINES.keys()


@each
def test_a_golden_state_goes_on_to_the_golden_releases(case: dict[str, Any], tmp_path: Path) -> None:
    """Including what was drawn and waits, and what is claimed already."""
    write_files(case["files"], tmp_path)
    found = went_on(case["engine"], tmp_path)
    assert {name: content_of(text) for name, text in found.items()} == {
        name: content_of(text) for name, text in case["out"].items()
    }
    assert not (tmp_path / "alarms").exists()


@each_file
def test_another_state_has_other_noise(case: dict[str, Any], tmp_path: Path) -> None:
    """So the golden bytes are those of the golden state, and not of rows alone."""
    left(case["engine"], tmp_path)
    found = went_on(case["engine"], tmp_path)
    assert found.keys() == case["out"].keys()
    assert not any(found[name] == case["out"][name] for name in found)


@each_file
def test_a_state_of_another_version_is_answered_by_one_sentence(case: dict[str, Any], tmp_path: Path) -> None:
    for change in (of_another_format, with_other_keys, of_a_file_that_is_no_database):
        write_files(case["files"], tmp_path)
        change(tmp_path / STATE)
        before = files_of(tmp_path)
        with pytest.raises(ss.InvalidInputError) as error:
            went_on(case["engine"], tmp_path)
        assert error.value.reason == "state_version", change
        said = continued(error.value, STATE)
        assert "\n" not in said
        assert "version" in said
        assert "the same command continues" not in said
        assert files_of(tmp_path) == before


def of_another_format(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {version + 1}")


def with_other_keys(path: Path) -> None:
    saved = read_state(path)
    write_state(dataclasses.replace(saved, header=saved.header | {"keys": saved.header["keys"] + 1}), path)


def of_a_file_that_is_no_database(path: Path) -> None:
    path.write_bytes(b"a state of the first version")
