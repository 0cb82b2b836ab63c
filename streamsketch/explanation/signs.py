"""What published signs guarantee, how, and what they do not."""

import dataclasses
import functools
import math
from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from streamsketch.core import sentences
from streamsketch.core.documents import Json
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.estimate import Estimate, format_value
from streamsketch.explanation.base import EXPLANATIONS, BaseExplanation, key_selection_sentence, leading_digit
from streamsketch.explanation.registry import registry_entry
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.individual import IndividualGuarantee
from streamsketch.privacy.mechanism import KeySelection
from streamsketch.release.checking.noise import NoiseCheck, unread_matrix
from streamsketch.signs.angles import Expected, expected
from streamsketch.signs.flip_check import check_flips, check_individual
from streamsketch.signs.sign_changes import FlipLaw, cell_steps
from streamsketch.signs.sketch import IndividualSignSketch, Method, Signs, SignSketch

_DEGREES = (30, 60, 90)
_TIMES = (1, 3, 10)
_UNKNOWN = "unknown"
_LONG = 1e10
_MOST_STEPS = 2.0**64  # the norms of longer vectors are refused
_THEOREMS = {
    "DP-SignRP-RR": "Li and Li 2023, Algorithm 3, with a count of signs that holds on a lattice (documentation, "
    "Theory 6.2)",
    "DP-SignRP-RR-smooth": "Li and Li 2023, Theorem 4.6 (documentation, Theory 6.3)",
    "DP-SignOPORP-RR": "Li and Li 2023, Algorithm 5 (documentation, Theory 6.3)",
    "DP-SignOPORP-RR-smooth": "Li and Li 2023, Algorithm 5 (documentation, Theory 6.3)",
    "DP-Sign-logistic": "the log-odds of all signs together change by at most ε (documentation, Theory 6.4)",
}
_INDIVIDUAL_THEOREMS: dict[Method, str] = {
    "iDP-SignRP-G": "Li and Li 2023, Theorem A.1",
    "iDP-SignRP-RR": "Li and Li 2023, Theorem A.2",
    "iDP-SignOPORP": "Li and Li 2023, Appendix A",
    "iDP-SignOPORP-G": "Li and Li 2023, Theorem A.1 and Appendix A.3",
}
_CORRECTED = (
    "restricted to the calibration of this data set: as printed it is false (documentation, Theory 6.5 and Theory 8, "
    "item 16)"
)
_INDIVIDUAL_HOW: dict[Method, str] = {
    "iDP-SignRP-G": "has discrete Gaussian noise added before its sign is taken",
    "iDP-SignRP-RR": "has its sign flipped with probability 1/(exp(ε/N) + 1), where N are perturbed",
    "iDP-SignOPORP": "has its sign flipped with probability 1/(exp(ε) + 1)",
    "iDP-SignOPORP-G": "has discrete Gaussian noise for one bin added before its sign is taken",
}
_NORMS = "Angles need the vectors' norms, if public; Hamming distances rank without them."


class AtAngle(NamedTuple):
    """Expected estimates at one angle, between vectors of equal norm."""

    degrees: float
    norm: float | None
    """None if no estimate depends on it."""
    expected: Expected


@dataclasses.dataclass(frozen=True)
class BaseSignExplanation(BaseExplanation):
    """What both kinds of published signs have: expected errors of angles.

    Parameters
    ----------
    guarantee, projection
        Of the release.
    flipped
        Its distribution of flips, or its method.
    """

    flipped: FlipLaw | Method

    def at_angle(self, theta: float, *, norm: float | None = None) -> Expected:
        """Return the estimates to expect from `streamsketch.signs.angle` and `cosine` at an angle.

        Parameters
        ----------
        theta
            The angle in radians.
        norm
            ‖x‖₂ of both vectors in data units, if flips depend on the cells.

        Raises
        ------
        InvalidInputError
            As in `streamsketch.signs.angle`.
        """
        return expected(theta, self.projection, self.flipped, self.guarantee, norm=norm)

    @functools.cached_property
    def angles(self) -> list[AtAngle]:
        """Expected estimates to another release made in the same way, at some angles and, if they matter, some norms.

        Empty if it would require reading a large matrix, and for releases that no mechanism makes.
        """
        if self.check.verdict == "too little" and isinstance(self.guarantee, IndividualGuarantee):
            return []
        degrees = _DEGREES if self._norms == [None] else _DEGREES[1:]
        return [AtAngle(at, norm, self.at_angle(math.radians(at), norm=norm)) for norm in self._norms for at in degrees]

    @property
    def _norms(self) -> list[float | None]:
        """Norms from which flips become rare."""
        if isinstance(self.flipped, FlipLaw) and self.flipped.shape == "constant":
            return [None]
        if self._step is None:
            return []
        fading = self._fading(self._step) * self.projection.cell_unit * math.sqrt(self.projection.sketch_dim)
        first, grid = leading_digit(fading / 3), float(self.projection.grid)
        return [times * first for times in _TIMES if 1 <= times * first / grid <= _MOST_STEPS]

    @functools.cached_property
    def _step(self) -> float | None:
        """The most that one unit moves any cell, in grid steps; None if unknown."""
        if unread_matrix(self.projection, "row maxima") is not None:
            return None
        try:
            return float(np.max(cell_steps(self.projection, self.guarantee.neighbours)))
        except InvalidInputError:  # a file's bound that does not fit the grid
            return None

    @abstractmethod
    def _fading(self, step: float) -> float:
        """Return the size of a cell, in grid steps, from which flips become rare."""

    @property
    def _published(self) -> str:
        return f"Only the sign of each of the {self.projection.sketch_dim:,} cells of the sketch is published"

    def _of_a_step(self, step: float) -> str:
        size = step * self.projection.cell_unit
        unit = self.guarantee.neighbours.unit
        return f"A step, the most that one {unit} moves a cell, is {size:.4g} in data units."

    def to_registry(self) -> Json:
        """Return an entry for a public registry of deployments; see `explain`."""
        return registry_entry(self.guarantee, [self])

    def to_dict(self) -> Json:
        """Return the explanation as JSON-serialisable objects."""
        law = self.flipped
        return self._common_fields() | {
            "individual": isinstance(self.guarantee, IndividualGuarantee),
            "flips": {"method": law} if isinstance(law, str) else {"shape": law.shape, "rate": str(law.rate)},
            "angles": [
                {
                    "degrees": at.degrees,
                    "norm": at.norm,
                    "angle": _errors_of(at.expected.angle.scaled(180 / math.pi)),
                    "cosine": None if at.expected.cosine is None else _errors_of(at.expected.cosine),
                }
                for at in self.angles
            ],
            "not_protected": self.not_protected,
        }

    def __str__(self) -> str:
        by_norm = any(at.norm is not None for at in self.angles)
        heading = ["angle", "± s.e.", "of the map", "of the flips", "cosine ± s.e."]
        rows = [_row(at) for at in self.angles]
        alike = (
            "to another release of the same kind, both of vectors of the norm:"
            if by_norm
            else "to another release of the same kind:"
        )
        return self._text(f"Angles     {alike}", [["norm", *heading] if by_norm else heading, *rows] if rows else [])


@dataclasses.dataclass(frozen=True)
class SignExplanation(BaseSignExplanation):
    """What a `SignSketch` guarantees: who is protected, how, how often signs are wrong, and what is not protected.

    It depends on what the release states, not on its signs, so releases made in the same way have equal explanations.

    Parameters
    ----------
    guarantee, projection, flipped
        Of the release; ``flipped`` is its `FlipLaw`.

    Examples
    --------
    >>> from streamsketch import OneCoordinate
    >>> from streamsketch.projections import OPORP
    >>> from streamsketch.signs import DPSignOPORPRR
    >>> x = OPORP(dim=784, sketch_dim=256, seed=1).sketch()
    >>> explanation = DPSignOPORPRR(epsilon=2, neighbours=OneCoordinate(1, unit="pixel")).release(x).explain()
    >>> explanation.check.reason
    'DP-SignOPORP-RR flips with 1/(exp(2) + 1) for the stated ε = 2, as stated here'
    >>> [(at.degrees, round(math.degrees(at.expected.angle.standard_error), 1)) for at in explanation.angles]
    [(30, 8.9), (60, 9.5), (90, 9.7)]
    """

    guarantee: Guarantee
    flipped: FlipLaw

    enough = "The flips are enough"

    @property
    def mechanism(self) -> list[str]:
        """The mechanism, in sentences."""
        chance = {
            "constant": "with the same probability for all",
            "levels": "less often the more steps its cell is from zero",
            "linear": "less often the farther its cell is from zero",
        }[self.flipped.shape]
        flips = f"{self._published}, flipped by exact random bits {chance}: {self.guarantee.mechanism}."
        return [flips, *key_selection_sentence(self.guarantee)]

    @property
    def theorems(self) -> list[str]:
        """The theorems that prove the guarantee."""
        mechanism = self.guarantee.mechanism
        theorems = [_THEOREMS[step.method] for step in mechanism.flips if step.method in _THEOREMS]
        return theorems if mechanism.keys is None else [*theorems, KeySelection.theorem]

    @functools.cached_property
    def check(self) -> NoiseCheck:
        """Whether the stated flips are enough for the guarantee."""
        return check_flips(self.guarantee, self.projection, self.flipped)

    def flip_chance(self, cell: float) -> float | None:
        """Return the probability that a cell's published sign is wrong.

        Parameters
        ----------
        cell
            Its size in grid steps, > 0.

        Returns
        -------
        float or None
            None if the probability depends on steps that only a large matrix would give.
        """
        if self._step is None and self.flipped.shape == "levels":
            return None
        (chance,) = self.flipped.chance(np.array([cell]), self._step or 1.0)
        return float(chance)

    @property
    def amount(self) -> list[str]:
        """How often signs are wrong, in sentences."""
        zero = "The sign of a cell of zero is a fair coin flip."
        if self.flipped.shape == "constant":
            return [f"a sign is wrong with probability {self._percent(1.0)} %.", zero]
        if self._step is None and self.flipped.shape == "levels":
            return [zero, _NORMS]
        fading = self._fading(self._step or 1.0)
        at = [
            f"{self._percent(size)} % if its cell is ± {size * self.projection.cell_unit:.4g}"
            for size in (fading, 3 * fading)
        ]
        step = [self._of_a_step(self._step)] if self.flipped.shape == "levels" and self._step else []
        return [f"a sign is wrong with probability {' and '.join(at)}, in data units.", *step, zero, _NORMS]

    @property
    def not_protected(self) -> list[str]:
        """What the guarantee does not cover."""
        members = [sentences.WHO_TAKES_PART] if self.guarantee.mechanism.keys is None else []
        return [*self._beyond("vectors"), *members, sentences.EXACT_SKETCH]

    def _fading(self, step: float) -> float:
        rate = float(self.flipped.rate)
        return 1 / rate if self.flipped.shape == "linear" else step * max(1, round(1 / rate))  # whole steps

    def _percent(self, cell: float) -> str:
        return f"{100 * (self.flip_chance(cell) or 0.0):.3g}"


@dataclasses.dataclass(frozen=True)
class IndividualSignExplanation(BaseSignExplanation):
    """What an `IndividualSignSketch` guarantees, which is less than differential privacy, and what it does not.

    Parameters
    ----------
    guarantee, projection, flipped
        Of the release; ``flipped`` is its method.

    Examples
    --------
    >>> from streamsketch import OneCoordinate
    >>> from streamsketch.projections import Rademacher
    >>> from streamsketch.signs import IDPSignRPRR
    >>> x = Rademacher(dim=784, sketch_dim=256, seed=1).sketch()
    >>> explanation = IDPSignRPRR(epsilon=1, neighbours=OneCoordinate(1, unit="pixel")).release(x).explain()
    >>> print(explanation.not_protected[0])
    Which signs were perturbed: this choice depends on the data, is not hidden, and may reveal them.
    """

    guarantee: IndividualGuarantee
    flipped: Method

    @property
    def meaning(self) -> str:
        """What ε and δ mean, and that this is not differential privacy."""
        return (
            f"this is not differential privacy. Given which signs were perturbed, "
            f"{super().meaning}; but that choice depends on the data and may reveal them. It does not compose: its ε "
            f"does not add up with that of another release, and streamsketch.compose refuses it"
        )

    @property
    def mechanism(self) -> list[str]:
        """The mechanism, in sentences."""
        cell = f"A cell that one {self.guarantee.neighbours.unit} could bring to zero or across it"
        perturbed = f"{cell} {_INDIVIDUAL_HOW[self.flipped]}: {self.guarantee.mechanism}."
        return [f"{self._published}, most of them unchanged.", perturbed]

    @property
    def theorems(self) -> list[str]:
        """The theorems that prove the guarantee."""
        return [f"{_INDIVIDUAL_THEOREMS[self.flipped]}, {_CORRECTED}"]

    @functools.cached_property
    def check(self) -> NoiseCheck:
        """That nothing can be checked, or that no data could give such a release."""
        return check_individual(self.guarantee, self.projection, self.flipped)

    @property
    def amount(self) -> list[str]:
        """Which signs may be wrong, in sentences."""
        wrong = "only signs of cells within one step of zero may be wrong; their number depends on the data."
        step = [] if self._step is None else [self._of_a_step(self._step)]
        return [wrong, *step, _NORMS]

    @property
    def not_protected(self) -> list[str]:
        """What the guarantee does not cover."""
        unit = self.guarantee.neighbours.unit
        beyond, _, alike, _ = self._beyond("vectors")
        return [
            "Which signs were perturbed: this choice depends on the data, is not hidden, and may reveal them.",
            beyond,
            f"A person with more than one {unit}: there is no guarantee for two of them.",
            alike,
            "Another release of the same data, here or elsewhere: there is no guarantee for both together.",
            sentences.WHO_TAKES_PART,
            sentences.EXACT_SKETCH,
        ]

    def _fading(self, step: float) -> float:
        return step


def _row(at: AtAngle) -> list[str]:
    angle, cosine = at.expected.angle.scaled(180 / math.pi), at.expected.cosine
    return [
        *([] if at.norm is None else [f"{at.norm:,.0f}" if 1 <= at.norm < _LONG else f"{at.norm:.3g}"]),
        f"{at.degrees:g}°",
        *(f"{format_value(error, angle.standard_error)}°" for error in angle.errors),
        _UNKNOWN if cosine is None else str(dataclasses.replace(cosine, value=math.cos(math.radians(at.degrees)))),
    ]


def _errors_of(estimate: Estimate) -> dict[str, float]:
    return {
        "standard_error": estimate.standard_error,
        "projection_variance": estimate.projection_variance,
        "noise_variance": estimate.noise_variance,
    }


def explain_signs(release: Signs) -> SignExplanation | IndividualSignExplanation:
    """Return what published signs guarantee.

    Raises
    ------
    TypeError
        If it is neither a `SignSketch` nor an `IndividualSignSketch`.
    """
    if isinstance(release, SignSketch):
        return SignExplanation(release.guarantee, release.projection, release.law)
    if isinstance(release, IndividualSignSketch):
        return IndividualSignExplanation(release.guarantee, release.projection, release.method)
    raise TypeError(f"only published signs can be explained here, got a {type(release).__name__}")


EXPLANATIONS.enter(SignSketch.magic, explain_signs)
EXPLANATIONS.enter(IndividualSignSketch.magic, explain_signs)
