"""How coarse noise widens intervals, from WIRE.md alone."""

from decimal import Decimal, localcontext
from fractions import Fraction
from statistics import NormalDist
from typing import Any, NamedTuple

from tests.golden.exact_numbers import decimal
from tests.golden.views import View


class Grain(NamedTuple):
    """What makes intervals wider where noise is coarse, see WIRE.md."""

    deviation: Decimal
    kurtosis: Decimal
    step: Decimal
    bend: Decimal
    scale: Decimal
    """By how much a change of the value changes the width."""

    def width(self, miss: Any) -> Decimal:
        """Return F for an interval that misses with this probability."""
        z = Decimal(-NormalDist().inv_cdf(float(miss) / 2))
        kurtosis = min(max(self.kurtosis, Decimal(0)), Decimal(6)) / 3
        laplace = max(-Decimal(float(miss)).ln() / Decimal(2).sqrt() - z, Decimal(0))
        linear = self.deviation * (z + laplace * max(kurtosis.sqrt(), kurtosis)) + self.step
        return linear + self.bend * linear**2


def grain_of_norm(view: View, size: Fraction, k2: Fraction, k4: Fraction, step_squared: Fraction) -> Grain | None:
    """Return the grain of a squared norm."""
    if view.law.a or view.law.b or not size + k2:
        return None
    with localcontext() as context:
        context.prec = 50
        squared, noise = decimal(size + k2), decimal(k2)
        kurtosis = decimal(k4) / noise**2 if noise else Decimal(0)
        step = 2 * (squared * decimal(step_squared)).sqrt()
        return Grain(2 * (squared * noise).sqrt(), kurtosis, step, 1 / (4 * squared), 1 / squared)


def grain_of_product(views: tuple[View, View], norms: Any, k2: Any, k4: Any, steps_squared: Any) -> Grain | None:
    """Return the grain of an inner product."""
    if views[0].law.a or views[0].law.b:
        return None
    with localcontext() as context:
        context.prec = 50
        x, y = (decimal(norm + noise) for norm, noise in zip(norms, k2, strict=True))
        noise_x, noise_y = map(decimal, k2)
        linear = x * noise_y + y * noise_x
        fourth = x**2 * decimal(k4[1]) + y**2 * decimal(k4[0])
        step = max((x * decimal(steps_squared[1])).sqrt(), (y * decimal(steps_squared[0])).sqrt())
        larger = max(x, y)
        if not larger:
            return None
        bend = 1 / larger
        return Grain(linear.sqrt(), fourth / linear**2 if linear else Decimal(0), step, bend, bend)
