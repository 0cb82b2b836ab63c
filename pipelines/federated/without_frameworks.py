"""The examples of federated learning without a framework: the log losses that docs/how-to/federated-learning.md states.

    python -m pipelines.federated.without_frameworks

Private updates draw noise anew in each run, so their log loss is the median of 25 runs. Nothing else is random.
"""

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipelines.data.make_sites import SITES, sites, write_sites
from pipelines.federated import hospitals
from pipelines.federated.updates import patients_of, public_loss, updates_of
from streamsketch.local import MeanAggregator

RUNS = 25
ROUNDS = 4
ADMITTED = ("north", "south", "harbour")
"""Whom the rule admits: see `hospitals.admission`."""


def averaged(folder: Path, names: Sequence[str], rounds: int = 10) -> float:
    """Return the log loss on public patients of the admitted, of a model whose weights these hospitals average."""
    rows = [hospitals.examples(hospitals.rows_of(folder, name)) for name in names]
    weights = np.zeros(hospitals.PARAMETERS)
    for _ in range(rounds):
        weights = np.mean([hospitals.trained(weights, *own) for own in rows], axis=0)
    public = sites(4000, seed=1)
    return hospitals.log_loss(
        weights, *hospitals.examples(public.filter(np.isin(public["site"].to_pylist(), ADMITTED)))
    )


def updated(folder: Path, practices: int, epsilon: float, *, private: bool) -> float:
    """Return the log loss of a model that so many practices update, by their reports or by the updates themselves."""
    updates = updates_of(epsilon)
    rows = [hospitals.examples(patients_of(folder, place, practices)) for place in range(practices)]
    weights = np.zeros(hospitals.PARAMETERS)
    for _ in range(ROUNDS):
        own = [hospitals.trained(weights, *each) - weights for each in rows]
        if private:
            server = MeanAggregator(updates.mechanism)
            for update in own:
                server.add(updates.report(update))
            weights = weights + updates.clip * server.mean()
        else:
            weights = weights + np.mean(own, axis=0)
    return public_loss(weights)


def main() -> None:
    """Print the log losses of the page."""
    with tempfile.TemporaryDirectory(prefix="federated-") as name:
        folder = Path(name)
        write_sites(folder)
        print(f"all hospitals: {averaged(folder, list(SITES)):.4f}")
        print(f"the admitted ones: {averaged(folder, ADMITTED):.4f}")
        for practices, epsilon in ((100, 2.0), (8, 8.0)):
            losses = [updated(folder, practices, epsilon, private=True) for _ in range(RUNS)]
            plain = updated(folder, practices, epsilon, private=False)
            low, median, high = statistics.quantiles(losses, n=4)
            print(f"{practices} practices, ε = {epsilon:g} a round: {median:.3f}")
            print(f"  half of the runs are between {low:.3f} and {high:.3f}")
            print(f"  without clipping and noise: {plain:.3f}")


if __name__ == "__main__":
    main()
