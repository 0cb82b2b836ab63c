"""What holds for all tests of thousands of estimates."""

import pytest


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not ask of thousands of releases whether their noise is what they state: tests/release/checking asks that."""
    monkeypatch.setattr("streamsketch.estimation.blocks.warn_of_mismatches", lambda _: None)
