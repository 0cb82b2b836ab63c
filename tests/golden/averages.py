"""Averages, numbers of units and their totals, written from WIRE.md alone in exact fractions."""

from fractions import Fraction
from typing import NamedTuple

from tests.golden.estimates import expected_of, fourths, norm_of_equal, plain_norm, product_of_equal, squares_of
from tests.golden.exact_numbers import Expected, Sized, UndefinedError, sized, total
from tests.golden.grains import grain_of_norm, grain_of_product
from tests.golden.interval_ends import reach_of_noise
from tests.golden.reader import counts_of, weights_of
from tests.golden.views import Message, View, view_of


class Average(NamedTuple):
    """A sketch over its number of units, for noise on the cells."""

    view: View
    """Of cells, noise and factor, times r or its powers."""
    plain: Sized
    """S', the squared norm before the count's share is taken out."""
    norm: Sized
    """N, not clipped."""
    excess: Sized
    """g · S'."""
    spread: Fraction
    """t, the squared relative error of the number."""

    @property
    def length(self) -> Sized:
        """Return q."""
        return self.norm.clipped(Fraction(0))


def _average_of(message: Message) -> Average:
    if "counts" not in message:
        raise UndefinedError
    size = message["multiplier"] / weights_of(message)["units"]
    number = size * int(counts_of(message)[0])
    variance = size**2 * Fraction(message["noise"]["k2"])
    if number <= 0 or number**2 <= 4 * variance:
        raise UndefinedError
    view, t = view_of(message), variance / number**2
    r, g = number / (number**2 + variance), t * (1 - t) / (1 + 3 * t)
    scaled = view._replace(
        cells=[r * one for one in view.cells], k2=r**2 * view.k2, k4=r**4 * view.k4,
        step_squared=r**2 * view.step_squared, most=None if view.most is None else r**2 * view.most,
    )  # fmt: skip
    plain = plain_norm(scaled)
    return Average(scaled, plain, (1 - g) * plain, g * plain, t)


def mean_norm(message: Message) -> Expected:
    """Estimate ‖x/n‖²."""
    one = _average_of(message)
    view, q, t = one.view, one.length, one.spread
    law, k = view.law, view.count
    square = q * q
    variance = (law.a + law.b) * square
    if law.c > 0 or view.hashed:
        sums = view.factor**2 * total(cell * cell * cell * cell for cell in view.cells)
        variance += law.c * fourths(sums, q, view.k2, view.k4, view)
    variance, slope, curvature = norm_of_equal(view, variance, q, view.k2, view.k4)
    noise = 4 * (1 + t) * (view.k2 * q) + k * (view.k4 + 2 * (view.k2 * view.k2))
    noise = noise.clipped(Fraction(0)) + (4 * t + 2 * t * t) * square
    found = expected_of(view, one.norm, variance, noise, Fraction(0))
    slope += 4 * view.k2.value + 6 * t * q.value
    grain = grain_of_norm(view, q.value, view.k2.value, view.k4.value, view.step_squared)
    return found._replace(slope=slope, curvature=curvature + Fraction(7, 4) * t, grain=grain)


def mean_product(x: Message, y: Message) -> Expected:
    """Estimate ⟨x/n, y/m⟩."""
    first, second = _average_of(x), _average_of(y)
    one, other = first.view, second.view
    law, k = one.law, one.count
    value = one.factor * total(a * b for a, b in zip(one.cells, other.cells, strict=True))
    q, p, both = first.length, second.length, first.spread + second.spread + first.spread * second.spread
    variance = law.a * (q * p) + law.b * (value * value)
    if law.c > 0:
        sums = one.factor**2 * total((a * a) * (b * b) for a, b in zip(one.cells, other.cells, strict=True))
        spread = other.k2 * q + one.k2 * p + k * (one.k2 * other.k2)
        squares = 1 / law.c * (sums - spread - law.a * (q * p + 2 * (value * value)))
        variance += law.c * squares.clipped(Fraction(0), q * p)
    elif one.hashed:
        sums = one.factor**2 * total((a * a) * (b * b) for a, b in zip(one.cells, other.cells, strict=True))
        spread = other.k2 * q + one.k2 * p + k * (one.k2 * other.k2)
        variance += law.c * squares_of(sums, (q, p), value, spread, one.k2 * other.k2, one)
    plain = other.k2 * q + one.k2 * p + k * (one.k2 * other.k2)
    variance, slope, curvature = product_of_equal((one, other), variance, (q, p), value, plain)
    noise = (1 + first.spread) * (other.k2 * q) + (1 + second.spread) * (one.k2 * p) + k * (one.k2 * other.k2)
    noise = noise.clipped(Fraction(0)) + both * (value * value)
    found = expected_of(one, value, variance, noise, None)
    grain = grain_of_product(
        (one, other), (q.value, p.value), (one.k2.value, other.k2.value), (one.k4.value, other.k4.value),
        (one.step_squared, other.step_squared),
    )  # fmt: skip
    return found._replace(slope=slope + 2 * both * value.value, curvature=curvature + both, grain=grain)


def mean_distance(x: Message, y: Message) -> Expected:
    """Estimate ‖x/n - y/m‖²."""
    first, second = _average_of(x), _average_of(y)
    view, law, k = first.view, first.view.law, first.view.count
    gap = [one - other for one, other in zip(view.cells, second.view.cells, strict=True)]
    k2, k4 = view.k2 + second.view.k2, view.k4 + second.view.k4
    value = view.factor * total(cell * cell for cell in gap) - k * k2 - first.excess - second.excess
    q = value.clipped(Fraction(0))
    cross = first.norm + second.norm - value
    product = Fraction(1, 4) * (cross * cross)
    product = product.clipped(Fraction(0), first.length * second.length)
    longer = q + first.spread * first.length + second.spread * second.length
    variance = (law.a + law.b) * (longer * longer)
    if law.c > 0 or view.hashed:
        sums = view.factor**2 * total(cell * cell * cell * cell for cell in gap)
        variance += law.c * fourths(sums, q, k2, k4, view)
    noise = (4 * (k2 * longer) + k * (k4 + 2 * (k2 * k2))).clipped(Fraction(0))
    noise += 4 * first.spread * second.spread * product
    slope = 2 * (law.a + law.b) * longer.value + 4 * k2.value
    for one, other in ((first, second), (second, first)):
        square = one.length * one.length
        along = Fraction(1, 2) * (value + one.norm - other.norm)
        clean = along * along - one.spread * square - other.spread * product - k2 * one.length
        noise += 2 * one.spread**2 * square + 4 * one.spread * clean.clipped(Fraction(0), q * one.length)
        slope += 4 * one.spread * along.value
    found = expected_of(view, value, variance, noise, Fraction(0))
    step_squared = max(view.step_squared, second.view.step_squared)
    grain = grain_of_norm(view, q.value, k2.value, k4.value, step_squared)
    return found._replace(slope=slope, curvature=law.a + law.b + first.spread + second.spread, grain=grain)


# --- units and totals -----------------------------------------------------------------------------------------------


def units(message: Message) -> Expected:
    """Estimate how many units there are."""
    if "counts" not in message:
        raise UndefinedError
    return _counted(message, [Fraction(1, weights_of(message)["units"])])


def total_of_units(message: Message) -> Expected:
    """Estimate the total of what is left of all units."""
    if "counts" not in message or not weights_of(message)["slack"]:
        raise UndefinedError
    weights, resolution = weights_of(message), message["projection"]["resolution"]
    bound = message["guarantee"]["neighbours"]["bound"] // resolution
    return _counted(message, [resolution * bound / weights["units"], -resolution / weights["slack"]])


def _counted(message: Message, factors: list[Fraction]) -> Expected:
    k2, k4 = (Fraction(message["noise"][name]) for name in ("k2", "k4"))
    factors = [message["multiplier"] * factor for factor in factors]
    numbers = [sized(number) for number in counts_of(message)]
    value = total(factor * number for factor, number in zip(factors, numbers, strict=False))
    noise = total(factor**2 * sized(k2) for factor in factors)
    found = expected_of(view_of(message), value, sized(0), noise, Fraction(0))
    fourth = k4 * sum(factor**4 for factor in factors)
    found = found._replace(kurtosis=fourth / noise.value**2 if k2 else Fraction(0))
    return found._replace(
        reach=reach_of_noise([message], [abs(one / message["multiplier"]) for one in factors]), alone=True
    )
