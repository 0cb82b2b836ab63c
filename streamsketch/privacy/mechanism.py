"""How a release was made, as a record: the text that people read is derived from it, and nothing reads the text."""

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Literal, TypeAlias

from streamsketch.core import sentences
from streamsketch.core.documents import Json
from streamsketch.core.numbers import exact_fraction, short
from streamsketch.core.text import MAX_TEXT, check_text
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.layout import CELLS, Layout
from streamsketch.privacy.noise import NOISES, Noise, NoiseMoments
from streamsketch.privacy.sign_flips import FlipLaw

NoisePlace: TypeAlias = Literal["output", "input", "hadamard"]
"""Noise on the cells of A x̃; on the coordinates of x̃; or between the Hadamard and the sparse matrix of an FJLT."""

MAX_SHARES = 1 << 12
MAX_STEPS = 16
"""More have no text of `MAX_TEXT` characters."""

_MAX_LAYERS = 2
_PLACES: dict[NoisePlace, str] = {"output": "", "input": sentences.ON_INPUT, "hadamard": sentences.AFTER_HADAMARD}


@dataclasses.dataclass(frozen=True)
class Shares:
    """Noise was added in shares, one by each of several parties, none of whom knows the noise.

    Parameters
    ----------
    parties
        How many shares are in the cells.
    honest
        How many of them make the noise that is stated. The guarantee holds against the other parties, who know their
        own shares, as long as this many parties follow the protocol and keep their shares secret.
    """

    parties: int
    honest: int

    def __post_init__(self) -> None:
        if type(self.parties) is not int or type(self.honest) is not int:
            raise InvalidInputError(f"shares are counted by int, got {self.parties!r:.40} and {self.honest!r:.40}")
        if not 1 <= self.honest <= self.parties <= MAX_SHARES:
            raise InvalidInputError(
                f"noise is shared by 1 to {MAX_SHARES} parties, of whom 1 to all are assumed honest, got "
                f"{self.parties} parties and {self.honest} honest ones"
            )

    def __str__(self) -> str:
        honest = sentences.HONEST_SHARES.format(honest=self.honest) if self.honest < self.parties else ""
        return f"{sentences.SHARES.format(parties=self.parties)}{honest}"


@dataclasses.dataclass(frozen=True)
class AddedNoise:
    """Noise was added.

    Parameters
    ----------
    noise
        The distribution, exactly.
    layers
        How many independent noises are in each cell: 2 where noise was inside from the start and more was added on
        release (pan-privacy).
    place
        Where it was added.
    shares
        For noise that several parties added in shares, how many: ``noise`` is then what the honest ones add up to.
    layout
        What is published of each key. Noise of the same draw is on what is counted beside the cells. Where rows are
        published, the noise is that of one row, and the guarantee is for all rows together.
    """

    noise: Noise
    layers: int = 1
    place: NoisePlace = "output"
    shares: Shares | None = None
    layout: Layout = CELLS

    def __post_init__(self) -> None:
        if type(self.layers) is not int or not 1 <= self.layers <= _MAX_LAYERS:
            raise InvalidInputError(f"noise has 1 to {_MAX_LAYERS} layers, got {self.layers!r:.40}")
        if self.place not in _PLACES:
            raise InvalidInputError(f"noise is added at one of {', '.join(_PLACES)}, got {self.place!r:.40}")
        if self.shares is not None and (self.layers, self.place) != (1, "output"):
            raise InvalidInputError("noise in shares is one noise on the cells")
        if self.layout.is_counted and (self.layers, self.place) != (1, "output"):
            raise InvalidInputError("units are counted beside cells with one noise on each")
        if self.layout.by_rows and (self.layers, self.place, self.shares) != (1, "output", None):
            raise InvalidInputError("rows have one noise on each cell, of one party")

    @property
    def draws(self) -> Fraction:
        """How many times ``noise`` is in each cell: its layers, or all shares over the honest ones."""
        return Fraction(self.layers) if self.shares is None else Fraction(self.shares.parties, self.shares.honest)

    @property
    def cumulants(self) -> NoiseMoments:
        """Cumulants of all that is in a cell."""
        return self.noise.cumulants.times(self.draws)

    def to_dict(self) -> Json:
        """Return the step as what JSON can hold."""
        shares = None if self.shares is None else dataclasses.asdict(self.shares)
        amount = str(self.noise.amount)
        fields: Json = {
            "noise": self.noise.name,
            "amount": amount,
            "layers": self.layers,
            "place": self.place,
            "shares": shares,
        }
        return fields | self.layout.to_dict()

    def __str__(self) -> str:
        layers = sentences.TWO_LAYERS if self.layers > 1 else ""
        return f"{self.noise}{layers}{_PLACES[self.place]}{self.shares or ''}{self.layout.words}"


@dataclasses.dataclass(frozen=True)
class FlippedSigns:
    """Signs were published, some of them flipped.

    Parameters
    ----------
    method
        The name of the mechanism, as ``"DP-Sign-logistic"``.
    law
        With which probability each sign is the wrong one.
    norm_bound
        The least norm that every vector is asserted to have, where the mechanism rests on that; else None.
    """

    method: str
    law: FlipLaw
    norm_bound: Fraction | None = None

    def __post_init__(self) -> None:
        check_text("the name of a mechanism", self.method)
        if self.norm_bound is not None and self.norm_bound <= 0:
            raise InvalidInputError(f"a bound on norms must be positive, got {self.norm_bound}")

    def to_dict(self) -> Json:
        """Return the step as what JSON can hold."""
        norm_bound = None if self.norm_bound is None else str(self.norm_bound)
        law = {"shape": self.law.shape, "rate": str(self.law.rate)}
        return {"flips": self.method, "law": law, "norm_bound": norm_bound}

    def __str__(self) -> str:
        norms = "" if self.norm_bound is None else sentences.NORM_BOUND.format(bound=self.norm_bound)
        return f"{self.method}{norms}, {self.law}"


@dataclasses.dataclass(frozen=True)
class KeySelection:
    """The keys to publish were chosen privately, by noise on the number of units of each.

    Parameters
    ----------
    budget
        The share of the guarantee that this spent.
    """

    budget: Budget

    theorem: ClassVar[str] = (
        "Korolova et al. 2009 for the keys, with Dwork and Roth 2014, Theorem 3.16 (documentation, Theory 4.2)"
    )

    def to_dict(self) -> Json:
        """Return the step as what JSON can hold."""
        return {"keys": self.budget.to_dict()}

    def __str__(self) -> str:
        return sentences.KEY_THRESHOLD.format(epsilon=repr(self.budget.epsilon), delta=repr(self.budget.delta))


@dataclasses.dataclass(frozen=True)
class StatedInText:
    """A mechanism known by its text alone, as of releases older than records: nothing can be checked."""

    text: str

    def __post_init__(self) -> None:
        check_text("the mechanism", self.text)

    def to_dict(self) -> Json:
        """Return the step as what JSON can hold."""
        return {"text": self.text}

    def __str__(self) -> str:
        return self.text


Step: TypeAlias = AddedNoise | FlippedSigns | KeySelection | StatedInText


@dataclasses.dataclass(frozen=True)
class Mechanism:
    """The mechanism of a guarantee, as a list of steps.

    Parameters
    ----------
    steps
        At least one step. There are several for noise with a private choice of keys, and for composed releases.

    Raises
    ------
    InvalidInputError
        If there are no steps, more than 16, or more than 200 characters of text.

    Examples
    --------
    >>> from streamsketch.privacy.laplace import DiscreteLaplace
    >>> noise = Mechanism((AddedNoise(DiscreteLaplace(Fraction(4))),))
    >>> keys = Mechanism((KeySelection(Budget(0.25, 1e-9)),))
    >>> print(Mechanism.together([noise, keys]))
    discrete Laplace, scale 4; Laplace threshold for the keys, ε = 0.25, δ = 1e-09
    """

    steps: Sequence[Step]

    def __post_init__(self) -> None:
        steps = _texts_joined(self.steps)
        if not 0 < len(steps) <= MAX_STEPS:
            raise InvalidInputError(f"a mechanism has 1 to {MAX_STEPS} steps, got {len(steps)}")
        object.__setattr__(self, "steps", steps)
        check_text("the mechanism", str(self))

    @classmethod
    def stated(cls, text: str) -> "Mechanism":
        """Return a mechanism that is known only by its text."""
        return cls((StatedInText(text),))

    @classmethod
    def of_noise(
        cls, noise: Noise, *, layers: int = 1, place: NoisePlace = "output", layout: Layout = CELLS
    ) -> "Mechanism":
        """Return the mechanism that adds a noise. The parameters are those of `AddedNoise`."""
        return cls((AddedNoise(noise, layers, place, layout=layout),))

    @classmethod
    def from_list(cls, steps: object) -> "Mechanism":
        """Return the mechanism that `to_list` wrote; raise `InvalidInputError` for anything else."""
        if not isinstance(steps, list):
            raise InvalidInputError(f"the steps of a mechanism are a list, got {short(steps)}")
        mechanism = cls([_step_of(step) for step in steps])
        if mechanism.to_list() != steps:
            raise InvalidInputError(
                f"the steps of the mechanism must be {short(mechanism.to_list())}, got {short(steps)}"
            )
        return mechanism

    def to_list(self) -> list[dict[str, Any]]:
        """Return the steps as a list that JSON can hold."""
        return [step.to_dict() for step in self.steps]

    @staticmethod
    def together(mechanisms: Iterable["Mechanism"]) -> "Mechanism":
        """Return the mechanism of several releases, each once; ``"several mechanisms"`` if the text is too long."""
        steps = [step for mechanism in dict.fromkeys(mechanisms) for step in mechanism.steps]
        if len(_text_of(steps)) > MAX_TEXT:
            return Mechanism.stated(sentences.SEVERAL_MECHANISMS)
        return Mechanism(steps)

    @property
    def is_record(self) -> bool:
        """Whether at least one step is a record, not only text."""
        return any(not isinstance(step, StatedInText) for step in self.steps)

    @property
    def noises(self) -> list[AddedNoise]:
        """The noises added."""
        return [step for step in self.steps if isinstance(step, AddedNoise)]

    @property
    def flips(self) -> list[FlippedSigns]:
        """The signs flipped."""
        return [step for step in self.steps if isinstance(step, FlippedSigns)]

    @property
    def keys(self) -> Budget | None:
        """The budget that the first choice of keys spent; None if the keys were not chosen privately."""
        return next((step.budget for step in self.steps if isinstance(step, KeySelection)), None)

    @functools.cached_property
    def the_noise(self) -> AddedNoise | None:
        """The noise of a single release, with or without a choice of keys; None for other mechanisms."""
        (first, *others) = self.steps
        return first if isinstance(first, AddedNoise) and _are_keys(others) else None

    @property
    def the_flips(self) -> FlippedSigns | None:
        """The flips of a single release, with or without a choice of keys; None for other mechanisms."""
        (first, *others) = self.steps
        return first if isinstance(first, FlippedSigns) and _are_keys(others) else None

    @property
    def layout(self) -> Layout:
        """What a single release publishes of each key; for several mechanisms, and those of signs, `CELLS`."""
        return CELLS if self.the_noise is None else self.the_noise.layout

    @property
    def is_pan_private(self) -> bool:
        """Whether the sketch held noise from the start."""
        return any(step.layers > 1 for step in self.noises)

    @property
    def without_places(self) -> "Mechanism":
        """The same mechanism without the places of noise."""
        return Mechanism(
            [dataclasses.replace(step, place="output") if isinstance(step, AddedNoise) else step for step in self.steps]
        )

    def __str__(self) -> str:
        return _text_of(self.steps)


def _step_of(fields: Any) -> Step:
    """Return the step that its ``to_dict`` returned."""
    try:
        match fields:
            case {"noise": str(name), "amount": amount, "layers": layers, "place": place, "shares": shares}:
                noise = NOISES[name].of_amount(exact_fraction(amount, "the amount of noise"))
                stated = None if shares is None else Shares(**shares)
                return AddedNoise(noise, layers, place, stated, Layout.from_dict(fields))
            case {"flips": method, "law": {"shape": shape, "rate": rate}, "norm_bound": bound}:
                law = FlipLaw(shape, exact_fraction(rate, "the rate of a flip law"))
                return FlippedSigns(method, law, None if bound is None else exact_fraction(bound, "the bound on norms"))
            case {"keys": {"epsilon": epsilon, "delta": delta}}:
                return KeySelection(Budget(epsilon, delta))
            case {"text": str(text)}:
                return StatedInText(text)
    except (KeyError, TypeError):
        pass
    raise InvalidInputError(f"a step of a mechanism is noise, flips, a choice of keys or text, got {short(fields)}")


def _text_of(steps: Sequence[Step]) -> str:
    return "; ".join(map(str, steps))


def _are_keys(steps: Sequence[Step]) -> bool:
    return all(isinstance(step, KeySelection) for step in steps) and len(steps) <= 1


def _texts_joined(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Return the steps with adjacent texts joined: their texts are read as one."""
    joined: list[Step] = []
    for step in steps:
        before = joined[-1] if joined else None
        if isinstance(step, StatedInText) and isinstance(before, StatedInText):
            joined[-1] = StatedInText(_text_of([before, step]))
        else:
            joined.append(step)
    return tuple(joined)
