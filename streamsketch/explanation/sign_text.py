"""Explanations of published signs, as text of 80 columns and as JSON-serialisable objects."""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from streamsketch.estimation import Estimate, rounded
from streamsketch.explanation.text import fields_of, text_of
from streamsketch.privacy import IndividualGuarantee

if TYPE_CHECKING:
    from streamsketch.explanation.signs import AtAngle, SignsExplained

_UNKNOWN = "unknown"
_LONG = 1e10


def signs_as_text(told: "SignsExplained") -> str:
    """Return the explanation as text."""
    by_norm = any(at.norm is not None for at in told.angles)
    heading = ["angle", "± s.e.", "of the map", "of the flips", "cosine ± s.e."]
    rows = [_row(at) for at in told.angles]
    alike = (
        "to another release of the same kind, both of vectors of the norm:"
        if by_norm
        else "to another release of the same kind:"
    )
    return text_of(told, f"Angles     {alike}", [["norm", *heading] if by_norm else heading, *rows] if rows else [])


def _row(at: "AtAngle") -> list[str]:
    angle, cosine = at.expected.angle.scaled(180 / math.pi), at.expected.cosine
    errors = (angle.standard_error, angle.projection_variance**0.5, angle.noise_variance**0.5)
    return [
        *([] if at.norm is None else [f"{at.norm:,.0f}" if 1 <= at.norm < _LONG else f"{at.norm:.3g}"]),
        f"{at.degrees:g}°",
        *(f"{rounded(error, angle.standard_error)}°" for error in errors),
        _UNKNOWN if cosine is None else str(dataclasses.replace(cosine, value=math.cos(math.radians(at.degrees)))),
    ]


def signs_as_dict(told: "SignsExplained") -> dict[str, Any]:
    """Return the explanation as JSON-serialisable objects."""
    law = told.flipped
    return fields_of(told) | {
        "individual": isinstance(told.guarantee, IndividualGuarantee),
        "flips": {"method": law} if isinstance(law, str) else {"shape": law.shape, "rate": str(law.rate)},
        "angles": [
            {
                "degrees": at.degrees,
                "norm": at.norm,
                "angle": _fields(at.expected.angle.scaled(180 / math.pi)),
                "cosine": None if at.expected.cosine is None else _fields(at.expected.cosine),
            }
            for at in told.angles
        ],
        "not_protected": told.not_protected,
    }


def _fields(estimate: Estimate) -> dict[str, float]:
    return {
        "standard_error": estimate.standard_error,
        "projection_variance": estimate.projection_variance,
        "noise_variance": estimate.noise_variance,
    }
