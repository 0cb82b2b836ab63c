"""What estimators need of a release, from WIRE.md alone: exact cells, noises and the map's law."""

import math
from fractions import Fraction
from typing import Any, NamedTuple

from tests.golden import laws
from tests.golden.exact_numbers import ULP, Sized, UndefinedError, root, sized
from tests.golden.laws import Law
from tests.golden.reader import cells_of, counts_of, weights_of

Message = dict[str, Any]


class View(NamedTuple):
    """What estimators need of a release, in data units."""

    fields: Message
    cells: list[Sized]
    """Without the common factor scale · resolution."""
    factor: Fraction
    """(scale · resolution)²."""
    k2: Sized
    k4: Sized
    count: int
    """n, how many noises there are."""
    law: Law
    before: Law | None
    """Of what comes behind the noise, where the noise is before the map."""
    step_squared: Fraction
    """The square of the distance of two values of the noise, in data units."""
    hashed: int
    """s, of a hashed map whose cells show the sum of fourth powers; else 0."""
    most: Fraction | None = None
    """Of a sum of units of one length, its squared norm if all are alike."""
    rounding: Fraction = Fraction(0)
    """What rounding such units adds to the variance of a squared norm, over its square."""


def view_of(message: Message) -> View:
    """Return the view of a PrivateSketch."""
    if message.get("history", {}).get("row"):
        raise UndefinedError
    fields, m, place = message["projection"], message["multiplier"], message["noise"]["place"]
    factor = laws.scale_squared(fields) * fields["resolution"] ** 2
    law = laws.law_of(fields)
    if place == "":
        step, count, before = factor, fields["sketch_dim"], None
    elif place == "input":
        step, count, before = fields["resolution"] ** 2, fields["dim"], law
    else:
        count, before = laws.padded(fields), laws.sparse_law(fields)
        step = fields["resolution"] ** 2 / count
    noise = [Fraction(message["noise"][name]) for name in ("k2", "k4")]
    largest = max(abs(part["multiplier"]) for part in message.get("parts") or [message])
    return View(
        fields,
        [sized(m * cell) for cell in cells_of(message)],
        factor,
        sized(m**2 * step * noise[0]),
        sized(m**4 * step**2 * noise[1]),
        count,
        law,
        before,
        largest**2 * step,
        _hashed(fields, law) if place == "" else 0,
        *_units_of_one_length(message, factor),
    )


def _units_of_one_length(message: Message, factor: Fraction) -> tuple[Fraction | None, Fraction]:
    stated = message["parts"] or [message]
    if message.get("clip") != "equal" or "counts" not in message:
        return None, Fraction(0)
    neighbours = [part["guarantee"]["neighbours"] for part in stated]
    if any("history" in part for part in stated) or any(one != neighbours[0] or one["max_keys"] for one in neighbours):
        return None, Fraction(0)
    squared = math.floor(neighbours[0]["bound"] ** 2 / factor)
    if not 1 <= squared < 1 << 62:
        return None, Fraction(0)
    weight, steps = weights_of(message)["units"], math.isqrt(squared)
    error = root(Fraction(message["noise"]["k2"])) / weight
    number = max(Fraction(int(counts_of(message)[0]), weight), Fraction(0)) + 2 * error
    return number**2 * steps**2 * factor, Fraction(4 * message["projection"]["sketch_dim"], steps**2)


def _hashed(fields: Message, law: Law) -> int:
    s = laws.few_entries(fields)
    return s if law.c < 0 and 12 * s * law.a <= 1 else 0


def tolerance(view: View) -> Fraction:
    """Return what of its size a result may be off: (k + 64)·2^-52."""
    return (view.fields["sketch_dim"] + 64) * ULP
