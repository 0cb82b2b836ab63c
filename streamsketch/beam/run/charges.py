"""Charge a ledger before releases are drawn: once for a whole run, or once for each window of a stream."""

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import BoundedWindow, FixedWindows

from streamsketch.accounting.ledger import Ledger
from streamsketch.beam.intake.keys import METRICS
from streamsketch.beam.intake.windows import tumbling_of
from streamsketch.beam.run.known import Span
from streamsketch.beam.run.runs import Fixed, RunSecret, label_in, run_secret
from streamsketch.beam.run.steps import Step
from streamsketch.errors import InvalidInputError
from streamsketch.once.charges import LedgerCharge, check_together, draw_id
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.projections.base import Projection

_MOST_KNOWN = 4096  # answers of the ledger that a worker remembers


class Charge:
    """The data set to which a run is charged, in a ledger that workers open themselves.

    Parameters
    ----------
    ledger
        File or URL, as in `streamsketch.Ledger`. It is in the job's specification, so it must not contain a password.
    dataset
        The ledger's name for the data set.

    Raises
    ------
    InvalidInputError
        If one is given without the other.
    TypeError
        If ``ledger`` is a `Ledger`, which cannot be sent to workers.
    """

    def __init__(self, ledger: str | os.PathLike[str], dataset: str) -> None:
        self.ledger, self.dataset = os.fspath(ledger), dataset

    @classmethod
    def of(cls, ledger: str | os.PathLike[str] | None, dataset: str | None) -> "Charge | None":
        """Return the data set that is charged, or None if neither argument is given."""
        if isinstance(ledger, Ledger):
            raise TypeError("workers open the ledger themselves; pass its file or URL, not a Ledger")
        check_together(ledger, dataset)
        return None if ledger is None or dataset is None else cls(ledger, dataset)

    def of_map(self, projection: str) -> LedgerCharge:
        """Return what charges the releases of a map, which is given as JSON."""
        return LedgerCharge(Ledger(self.ledger), self.dataset, Projection.from_json(projection))


def charged_secret(
    pipeline: beam.Pipeline, charge: Charge | None, guarantee: Guarantee, projection: Projection
) -> beam.pvalue.AsSingleton | RunSecret:
    """Charge a run, and return its secret: steps that draw noise wait for the secret, so they wait for the charge."""
    run = run_secret(pipeline)
    if charge is None or isinstance(run, RunSecret):  # a stream's windows are charged one by one
        return run
    step = ChargeOnce(charge, guarantee, projection, label_in(pipeline))
    return beam.pvalue.AsSingleton(run.pvalue | "Charge" >> Fixed(step))


class ChargeOnce(Step):
    """Charge a ledger once a run."""

    def __init__(self, charge: Charge, guarantee: Guarantee, projection: Projection, label: str) -> None:
        self._charge, self._guarantee, self._label = charge, guarantee, label
        self._projection = projection.to_json()

    def process(self, run: RunSecret) -> Iterator[Any]:
        """Charge under the run's own identifier."""
        # derived from the run's secret: the same in every retry, and it reveals nothing about the noise
        once = run.derive("charge", self._label).hex()
        self._charge.of_map(self._projection)(self._guarantee, once=once, note=f"Beam: {self._label}"[:200])
        yield b"", run


class WindowCharge:
    """Charges the releases of a stream: once for each window, or once for each period in which units are bounded.

    One charge covers all keys of a window, as the guarantee does. Its id is a function of the stream's secret, its
    epoch and the window. So retries and restored jobs find the charge, and another launch makes a new one.

    Parameters
    ----------
    charge
        The data set that is charged.
    guarantee, projection
        The guarantee and the projection of the releases.
    label
        Full label of the transform.
    span
        The stretch of time that the guarantee covers.
    rows
        Whether windows are rows of a schedule: then what each is drawn from is entered in the ledger, too.
    """

    def __init__(
        self,
        charge: Charge,
        guarantee: Guarantee,
        projection: Projection,
        label: str,
        span: Span,
        *,
        rows: bool = False,
    ) -> None:
        # a unit in several stretches is in several releases, whose losses add up
        neighbours = dataclasses.replace(guarantee.neighbours, unit=span.unit)
        self._charge, self._guarantee = charge, dataclasses.replace(guarantee, neighbours=neighbours)
        self._projection, self._label, self._span = projection.to_json(), label, span
        self._rows = rows
        self._answers: dict[tuple[int, bytes | None], bool] = {}

    def covers(self, run: RunSecret, window: BoundedWindow, version: bytes | None = None) -> bool:
        """Charge a window unless it was charged before; log an event and return False if the ledger refuses.

        It also refuses a row of a schedule that was drawn before for another version of its window: the one charge for
        all rows covers each row once.

        If the ledger cannot be reached, the error goes to the runner, which tries again. Nothing is drawn before that.
        """
        start = int(window.start.micros)
        asked = start, version if self._rows else None
        if asked not in self._answers:
            if len(self._answers) >= _MOST_KNOWN:
                self._answers.clear()
            self._answers[asked] = self._charged(run, self._span.stretches.start_of(start), *asked)
        if not self._answers[asked]:
            Metrics.counter(METRICS, "refused").inc()
        return self._answers[asked]

    def _charged(self, run: RunSecret, start: int, row: int, version: bytes | None) -> bool:
        once = run.derive("charge", f"{self._label}\0{start}").hex()
        began = beam.utils.timestamp.Timestamp(micros=start).to_rfc3339()
        note = f"Beam: {self._span.stretches.size / 10**6:g} s from {began}, {self._label}"[:200]
        # without the secret the draw's id reveals nothing, neither beside other epochs
        drawn = None if version is None else (row, draw_id(bytes.fromhex(once), version))
        return self._charge.of_map(self._projection).covers(self._guarantee, (), once, note, row=drawn, window=began)


def span_of(windowing: Windowing, span: Span | None, unit: str) -> Span:
    """Return the stretch to which bounds apply: the one that a step noted, or else one window."""
    if span is not None:
        return span
    windows = windowing.windowfn
    if not isinstance(windows, FixedWindows):
        raise InvalidInputError(
            "a stream is charged for each window, but its events are not in windows of one length; apply "
            "TumblingWindows(size) to them"
        )
    return Span(unit, tumbling_of(windows))
