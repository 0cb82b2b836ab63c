"""What ``make test-for`` runs for a folder: its tests, and those of whatever imports it."""

import pytest

from tests.chosen import ALWAYS, ROOT, chosen, folder_of
from tests.test_structure import ORDER


def test_each_folder_has_tests_that_are_there() -> None:
    """All in one test, as one process parses all tests for any of them."""
    for name in ORDER:
        if not name.startswith("_"):
            paths = chosen(folder_of(name))
            assert set(ALWAYS) <= set(paths), name
            assert len(paths) > len(ALWAYS), name
            assert len(set(paths)) == len(paths), name
            assert all((ROOT / path).exists() for path in paths), name


def test_tests_that_import_a_module_of_the_folder_are_chosen_once() -> None:
    assert "tests/docs/test_theory.py" not in chosen("wire")
    assert "tests/wire" in chosen("wire")
    assert "tests/local/test_exchange.py" in chosen("wire")  # which imports wire_pb2
    assert not any(path.startswith("tests/wire/") for path in chosen("wire"))


def test_what_publishes_bytes_needs_the_golden_files() -> None:
    assert "tests/golden" in chosen("wire")
    assert "tests/golden" not in chosen("report")


@pytest.mark.parametrize("place", ["report", "streamsketch/report", "streamsketch/report/page.py", "./report/"])
def test_a_file_stands_for_its_folder(place: str) -> None:
    assert folder_of(place) == "report"


@pytest.mark.parametrize("place", ["", "streamsketch", "raport-of-nothing"])
def test_no_folder_is_refused(place: str) -> None:
    with pytest.raises(SystemExit, match="pass FOLDER="):
        folder_of(place)
