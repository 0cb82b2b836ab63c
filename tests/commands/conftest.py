"""One process for all the commands that tests give wrongly."""

from collections.abc import Iterator

import pytest

from tests.commands.running import Forks


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks() as running:
        yield running
