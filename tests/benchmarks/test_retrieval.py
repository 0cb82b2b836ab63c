"""The retrieval benchmark: it runs on a file or on the digits, and its curves are in the paper's order."""

import pytest

from benchmarks import retrieval

pytest.importorskip("sklearn")


def test_curves_are_in_the_papers_order() -> None:
    """On the digits: iDP-SignRP nearly flat and above the rest at small ε, SignOPORP-smooth above SignRP-RR."""
    names = ["DP-SignRP-RR", "DP-SignRP-RR, paper's count", "DP-SignOPORP-RR-smooth", "DP-OPORP", "iDP-SignRP-RR"]
    points = retrieval.measure(
        retrieval.read_images(None), [64], epsilons=[0.5, 3.0], queries=100, collection=1000, names=names
    )
    at = {(point.method, point.epsilon): point.precision_at_10 for point in points}
    chance = retrieval.TRUTH / 1000
    assert at["iDP-SignRP-RR", 0.5] > 0.5
    assert at["iDP-SignRP-RR", 3.0] < 1.3 * at["iDP-SignRP-RR", 0.5]
    assert all(at[name, 0.5] < 3 * chance for name in names[:4])
    assert at["DP-SignOPORP-RR-smooth", 3.0] > 1.5 * max(at[name, 3.0] for name in names[:2])
