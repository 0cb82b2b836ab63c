"""Every generated file is what its source makes of it."""

import pytest

from tests.generated.kinds import KINDS, differing

LONG = {"words", "page", "sums", "wire", "kit"}  # reports, explanations, a compiler, and all that the kit states


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.tools] if kind in LONG else []) for kind in KINDS]
)
def test_generated_files_are_current(kind: str) -> None:
    other = [path.name for path in differing(kind)]
    assert not other, f"{', '.join(other)} are not current: run `make generated`"
