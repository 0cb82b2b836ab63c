"""What streams' jobs share with the tests of their transforms."""

import pytest

from tests.beam.streams.conftest import no_noise, prism, root_key

__all__ = ["no_noise", "prism", "root_key"]


@pytest.fixture(params=["FnApiRunner", "Prism"])
def runner(request: pytest.FixtureRequest) -> list[str]:
    """Return the options of Beam's own runner, and of one with event time."""
    if request.param == "Prism":
        found: list[str] = request.getfixturevalue("prism")
        return found
    return ["--runner=FnApiRunner"]
