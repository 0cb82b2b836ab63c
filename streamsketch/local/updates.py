"""ModelUpdates: what clients of federated learning report of a model's update, clipped and randomised."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from streamsketch.accounting.ledger import Ledger, charge_for
from streamsketch.core.numbers import Floats, Numbers, short
from streamsketch.core.text import check_text
from streamsketch.errors import InvalidInputError
from streamsketch.local.aggregation import MeanAggregator
from streamsketch.local.mechanism import Mechanism
from streamsketch.local.report import Report
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.l2 import L2
from streamsketch.privacy.mechanism import Mechanism as Means
from streamsketch.privacy.samplers import BitSource

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
        The mechanism of the reports, with ``ball=True``; its ``dim`` is the number of the model's parameters: of the
        numbers in its floating arrays. Integer and boolean arrays, such as a count of batches, are not reported.
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
        self, update: object, *, ledger: Ledger | None = None, dataset: str | None = None, bits: BitSource | None = None
    ) -> Report:
        """Return the report of one update.

        An update that holds anything that is not finite is reported as zero: whether it did is also private.

        Integer and boolean arrays are left out. They are counters and indices, and one that grew by 40 would take the
        whole clip from weights that moved by 0.3. All floating arrays share the clip, so running means and variances of
        normalisation take a part of it, too: leave them out where they move farther than the weights.

        Parameters
        ----------
        update
            Floating numbers, an array or a list of arrays that are laid end to end: dim in all.
        ledger, dataset
            Where the report is charged before it is drawn, and to which data set, as in `Ledger.charge`.
        bits
            Source of the secret bits, as in `Mechanism.randomize`.

        Raises
        ------
        InvalidInputError
            If the update has another number of parameters, or holds complex numbers or anything else but numbers.
        LedgerError
            If the budget does not suffice; nothing is drawn then.
        """
        vector = _cut(_flat(update, self.mechanism.dim), self.clip)
        charge_for(ledger, dataset, self.guarantee, None)
        return self.mechanism.randomize(vector, bits=bits)

    def estimate(self, report: Report, *, like: Sequence[Numbers] | None = None) -> list[Floats]:
        """Return an estimate of the update behind a report, to be averaged with many others.

        Unbiased up to `Mechanism.limiting_squared_error`. The expected squared error of a mean of n is
        ``clip**2 * mechanism.expected_squared_error(n)``.

        Parameters
        ----------
        report
            Of one client.
        like
            Arrays of the shapes and types to return; by default one of shape (dim,).

        Returns
        -------
        list of ndarray
            float64; zeros of their type for integer and boolean arrays, which stay as the server has them.

        Raises
        ------
        InvalidInputError
            If the report is of another mechanism, has a length that no honest one has, or the shapes do not fit.
        """
        server = MeanAggregator(self.mechanism)
        server.add(report)
        vector = self.clip * server.mean()
        arrays = [vector] if like is None else [np.asarray(array) for array in like]
        held = [is_reported(array.dtype, f"array {place}") for place, array in enumerate(arrays, 1)]
        sizes = [array.size if is_held else 0 for array, is_held in zip(arrays, held, strict=True)]
        _check_size(sizes, self.mechanism.dim)
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        return [
            part.reshape(array.shape) if is_held else np.zeros_like(array)
            for part, array, is_held in zip(parts, arrays, held, strict=True)
        ]


def is_reported(kind: "np.dtype[Any]", name: str) -> bool:
    """Return whether arrays of a type are parameters, which reports are of: floating ones, not integers and booleans.

    Parameters
    ----------
    kind
        The type of an array of a model.
    name
        What the array is called in an error.

    Raises
    ------
    InvalidInputError
        For complex numbers, and what is not a number.

    Examples
    --------
    >>> is_reported(np.dtype(np.float16), "weight"), is_reported(np.dtype(np.int64), "num_batches_tracked")
    (True, False)
    """
    if kind.kind not in "fiub":
        raise InvalidInputError(
            f"{name} of the update holds {kind}, but reports are of real numbers: leave it out, or report real and "
            "imaginary parts as two arrays"
        )
    return kind.kind == "f"


def _flat(update: object, dim: int) -> Floats:
    """Return the floating numbers of an update, end to end: float64, (dim,)."""
    parts = update if isinstance(update, list | tuple) else [update]
    arrays = [np.asarray(part) for part in parts]
    held = [
        array for place, array in enumerate(arrays, 1) if is_reported(array.dtype, f"array {place}") or not array.size
    ]
    with np.errstate(all="ignore"):  # what is beyond float64 becomes infinite, and no warning may say so
        vector = np.concatenate([array.ravel().astype(np.float64) for array in held] or [np.empty(0)])
    _check_size([vector.size], dim, [array.size for array in arrays])
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


def _check_size(sizes: Sequence[int], dim: int, of_all: Sequence[int] = ()) -> None:
    size, others = sum(sizes), sum(of_all) - sum(sizes)
    if size != dim:
        left_out = f" and {others} integers or booleans, which are not reported" if others > 0 else ""
        raise InvalidInputError(
            f"the model has {size} parameters{left_out}, but the mechanism has dim={dim}; make a mechanism with "
            f"dim={size}" + (", or give the parameters as floats" if others > 0 else "")
        )
