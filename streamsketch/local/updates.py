"""ModelUpdates: what clients of federated learning report of a model's update, clipped and randomised."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamsketch.accounting import Ledger, charge_for
from streamsketch.core import Floats, check_text, short
from streamsketch.errors import InvalidInputError
from streamsketch.local.mechanism import Mechanism
from streamsketch.local.report import Report
from streamsketch.privacy import L2, BitSource, Guarantee
from streamsketch.privacy import Mechanism as Means

_ROUNDING = "the rounding of floats in a report shows nothing of its update"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelUpdates:
    """How clients report updates of a model: cut to a length, then randomised by a local mechanism.

    A client trains, subtracts the model it was sent from what it has, and reports the difference. The server averages
    estimates of these differences. `streamsketch.integrations.flower.UpdateMod` and
    `streamsketch.integrations.nvflare.ReportUpdates` do so in two frameworks.

    Every report is ε-LDP for the **whole update of one client in one round**, and so for all data that the client has:
    whatever that update is replaced by, each set of reports stays as likely, up to a factor e^ε. Who takes part is not
    hidden. A client that reports in several rounds has several releases, which add up: pass a `Ledger`, which refuses
    the report that would exceed a budget.

    Parameters
    ----------
    mechanism
        The mechanism of the reports, with ``ball=True``; its ``dim`` is the number of the model's parameters.
    clip
        Updates that are longer (ℓ2) are shortened to this length, in the units of the parameters. Public.
    unit
        The name of what is protected, such as ``"phone"`` or ``"hospital"``.

    Raises
    ------
    TypeError, InvalidInputError
        For another mechanism, or a value out of range.

    Examples
    --------
    >>> from streamsketch.local import ProjUnit
    >>> mechanism = ProjUnit(dim=6, sketch_dim=4, epsilon=4.0, ball=True, seed=7)
    >>> updates = ModelUpdates(mechanism=mechanism, clip=0.5, unit="phone")
    >>> report = updates.report([np.ones((2, 2)), np.zeros(2)])
    >>> [part.shape for part in updates.estimate(report, like=[np.ones((2, 2)), np.zeros(2)])]
    [(2, 2), (2,)]
    >>> updates.guarantee.epsilon, updates.guarantee.neighbours
    (4.0, L2(1, unit='phone'))
    """

    mechanism: Mechanism
    clip: float
    unit: str = "client"

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Mechanism):
            raise TypeError(f"mechanism must be a Mechanism of streamsketch.local, got {short(self.mechanism)}")
        if not self.mechanism.ball:
            raise InvalidInputError("the mechanism must have ball=True, because updates have lengths from 0 to clip")
        valid = isinstance(self.clip, int | float | np.floating) and not isinstance(self.clip, bool)
        if not (valid and 0 < self.clip < math.inf):
            raise InvalidInputError(f"clip must be a positive number, got {short(self.clip)}")
        object.__setattr__(self, "clip", float(self.clip))
        check_text("the privacy unit", self.unit)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of one report. Two updates of one client differ by at most 2 · clip, so any two are hidden."""
        layout = self.mechanism.layout
        conditions = [_ROUNDING] if layout.dtype.startswith("float") else []
        return Guarantee(
            self.mechanism.epsilon,
            getattr(self.mechanism, "delta", 0.0),
            L2(2 * self.clip, unit=self.unit),
            Means.stated(f"a local report ({self.mechanism.kind}) of an update cut to length {self.clip:g}"),
            conditions,
            "enforced",
        )

    def report(
        self, update: Any, *, ledger: Ledger | None = None, dataset: str | None = None, bits: BitSource | None = None
    ) -> Report:
        """Return the report of one update.

        An update that holds anything that is not finite is reported as zero: whether it did is also private.

        Parameters
        ----------
        update
            Numbers, an array or a list of arrays that are laid end to end: dim in all.
        ledger, dataset
            Where the report is charged before it is drawn, and to which data set, as in `Ledger.charge`.
        bits
            Source of the secret bits, as in `Mechanism.randomize`.

        Raises
        ------
        InvalidInputError
            If the update has another number of parameters.
        LedgerError
            If the budget does not suffice; nothing is drawn then.
        """
        vector = _cut(_flat(update, self.mechanism.dim), self.clip)
        charge_for(ledger, dataset, self.guarantee, None)
        return self.mechanism.randomize(vector, bits=bits)

    def estimate(self, report: Report, *, like: Sequence[NDArray[Any]] | None = None) -> list[Floats]:
        """Return an estimate of the update behind a report, to be averaged with many others.

        Unbiased up to `Mechanism.limiting_squared_error`. The expected squared error of a mean of n is
        ``clip**2 * mechanism.expected_squared_error(n)``.

        Parameters
        ----------
        report
            Of one client.
        like
            Arrays of the shapes to return; by default one of shape (dim,).

        Returns
        -------
        list of ndarray
            float64.

        Raises
        ------
        InvalidInputError
            If the report is of another mechanism, has a length that no honest one has, or the shapes do not fit.
        """
        server = self.mechanism.aggregator()
        server.add(report)
        vector = self.clip * server.mean()
        shapes = [(self.mechanism.dim,)] if like is None else [np.shape(array) for array in like]
        sizes = [math.prod(shape) for shape in shapes]
        _check_size(sum(sizes), self.mechanism.dim)
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _flat(update: Any, dim: int) -> Floats:
    """Return the numbers of an update, end to end: float64, (dim,)."""
    parts = update if isinstance(update, list | tuple) else [update]
    vector = np.concatenate([np.asarray(part, dtype=np.float64).ravel() for part in parts] or [np.empty(0)])
    _check_size(vector.size, dim)
    return vector


def _cut(vector: Floats, clip: float) -> Floats:
    """Return the vector in units of ``clip``, of length at most 1; zero if it is not finite."""
    with np.errstate(over="ignore", under="ignore"):  # no warning may say what the vector was, and no branch
        clean = np.where(np.isfinite(vector).all(), vector, 0.0)
        largest = np.abs(clean).max()
        direction = clean / np.where(largest > 0, largest, 1.0)  # whose square does not overflow
        length = np.maximum(np.linalg.norm(direction), 1.0)  # less only where all is 0
        cut: Floats = direction * np.minimum(1 / length, largest / clip)
    return cut


def _check_size(size: int, dim: int) -> None:
    if size != dim:
        raise InvalidInputError(
            f"the model has {size} parameters, but the mechanism has dim={dim}; make a mechanism with dim={size}"
        )
