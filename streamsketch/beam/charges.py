"""Releases of a run, charged to a ledger once, before the first of them is drawn."""

import os
from collections.abc import Iterator
from typing import Any

import apache_beam as beam

from streamsketch.beam.runs import RunSecret, label_in, run_secret
from streamsketch.errors import InvalidInputError
from streamsketch.parties import Ledger
from streamsketch.privacy import Guarantee
from streamsketch.projections import Projection


class Charge:
    """What a run is charged to: a data set of a ledger that workers open for themselves.

    Parameters
    ----------
    ledger
        As in `streamsketch.Ledger`, without a password: it is in the job's specification.
    dataset
        What the ledger calls the data set.

    Raises
    ------
    InvalidInputError
        For one of them without the other.
    TypeError
        For a `Ledger`, which workers cannot take along.
    """

    def __init__(self, ledger: str | os.PathLike[str], dataset: str) -> None:
        self.ledger, self.dataset = os.fspath(ledger), dataset

    @classmethod
    def of(cls, ledger: str | os.PathLike[str] | None, dataset: str | None) -> "Charge | None":
        """Return what is charged, if anything."""
        if isinstance(ledger, Ledger):
            raise TypeError("name the ledger, by its file or its URL: workers open it for themselves")
        if ledger is not None and dataset is not None:
            return cls(ledger, dataset)
        if ledger is not None or dataset is not None:
            raise InvalidInputError("ledger and dataset go together: where the budget is kept, and whose it is")
        return None


def charged_secret(
    pipeline: beam.Pipeline, charge: Charge | None, guarantee: Guarantee, projection: Projection
) -> beam.pvalue.AsSingleton | RunSecret:
    """Return the secret of a run, which steps that draw wait for, once it is charged."""
    run = run_secret(pipeline)
    if charge is None:
        return run
    if isinstance(run, RunSecret):
        raise InvalidInputError(
            "a stream releases without end, and is not charged here: give its ledger's data set a budget for each "
            "period, bound units across windows, and charge a period's guarantee by Ledger.charge(once=…)"
        )
    step = beam.ParDo(_Charge(charge, guarantee, projection, label_in(pipeline))).with_output_types(RunSecret)
    charged = run.pvalue | "Charge" >> step | "Fix that it is charged" >> beam.Reshuffle()
    return beam.pvalue.AsSingleton(charged)


class _Charge(beam.DoFn):
    def __init__(self, charge: Charge, guarantee: Guarantee, projection: Projection, label: str) -> None:
        self._charge, self._guarantee, self._label = charge, guarantee, label
        self._projection = projection.to_json()

    def process(self, run: RunSecret) -> Iterator[Any]:
        # a function of the run's secret: the same in every retry, and it tells nothing of the noise
        once = run.derive("charge", self._label).hex()
        projection = Projection.from_json(self._projection)
        Ledger(self._charge.ledger).charge(
            self._charge.dataset, self._guarantee, projection=projection, note=f"Beam: {self._label}"[:200], once=once
        )
        yield run
