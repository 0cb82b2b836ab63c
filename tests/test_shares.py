"""Each file of tests is in one share, and shares are about as large."""

from hypothesis import given
from hypothesis import strategies as st

from tests.shares import shares_of


@given(sizes=st.lists(st.integers(1, 100), min_size=1, max_size=40), count=st.integers(1, 8))
def test_shares_are_neighbours_of_about_the_same_size(sizes: list[int], count: int) -> None:
    shares = shares_of(sizes, count)
    assert len(shares) == len(sizes)
    assert shares == sorted(shares)
    assert set(shares) <= set(range(count))
    for share in range(count):  # half of the first and of the last may belong to a neighbour
        held = sum(size for size, its in zip(sizes, shares, strict=True) if its == share)
        assert abs(held - sum(sizes) / count) <= max(sizes)
