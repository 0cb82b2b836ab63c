"""A check that cells are Laplace noise and nothing else."""

from streamsketch.core.numbers import Ints


def assert_noise_alone(cells: Ints, variance: float) -> None:
    """Check the mean square of at least 64 cells: right noise is outside once in 10^13 runs (one cell of 36 scales)."""
    assert cells.size >= 64
    assert 0.1 < (cells.astype(float) ** 2).mean() / variance < 10
