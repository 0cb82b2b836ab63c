"""What tests of keys and values share."""

import traceback
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import strategies as st

from streamsketch.data.canonical import HASHED_DIM
from streamsketch.data.keys import indices_of

SEED = 77
LARGEST = 2**63 - 1
PRIVATE_NAME = "Rosalind"
PRIVATE_NUMBER = 987654321

grids = st.sampled_from(
    [Fraction(1), Fraction(1, 100), Fraction(1, 8), Fraction(3), Fraction(10**18), Fraction(1, 10**18)]
)
resolutions = grids | st.builds(Fraction, st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1))
floats = st.floats(allow_nan=False, allow_infinity=False)


def hashed(column: Any) -> list[int]:
    return indices_of([column], HASHED_DIM, SEED).tolist()


def shown(error: pytest.ExceptionInfo[BaseException]) -> str:
    """Return all that a user would see of an exception and of those chained to it."""
    return "".join(traceback.format_exception(error.value))
