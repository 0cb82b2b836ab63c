"""The estimators, written from WIRE.md alone: exact fractions, and decimals of 50 digits where there are roots.

Each returns an `Expected`: the exact results, and how far a reader that computes in doubles may be off by the rule that
WIRE.md states. `Sized` numbers carry along the size |E| of a formula, in which every difference is a sum.
"""

from decimal import Decimal, localcontext
from fractions import Fraction
from statistics import NormalDist
from typing import Any, NamedTuple

from tests.golden import laws
from tests.golden.laws import Law
from tests.golden.reader import cells_of, counts_of, weights_of

Message = dict[str, Any]
ULP = Fraction(1, 1 << 52)
TWO_ERRORS = Fraction(196, 100)
PAIRWISE = 1 << 21  # what one matrix product may cost beside a difference of cells


class UndefinedError(Exception):
    """There is no such estimate: a reader must refuse."""


class Sized(NamedTuple):
    """A number with its size."""

    value: Fraction
    size: Fraction

    def __add__(self, other: Any) -> "Sized":
        return Sized(self.value + other.value, self.size + other.size)

    def __sub__(self, other: Any) -> "Sized":
        return Sized(self.value - other.value, self.size + other.size)

    def __mul__(self, other: Any) -> "Sized":
        return Sized(self.value * other.value, self.size * other.size)

    def __rmul__(self, factor: Any) -> "Sized":
        return Sized(factor * self.value, abs(factor) * self.size)

    def clipped(self, low: Fraction, high: "Sized | None" = None) -> "Sized":
        """Return the number within bounds; clipping moves nothing apart."""
        value = max(self.value, low)
        if high is None:
            return Sized(value, self.size)
        return Sized(min(value, high.value), max(self.size, high.size))


class Expected(NamedTuple):
    """An estimate, and how far off readers may be."""

    value: Any
    projection_variance: Any
    noise_variance: Any
    lowest: Any
    highest: Any
    tolerances: tuple[Any, Any, Any]
    """Of the value and of both variances."""
    slope: Any = Fraction(0)
    """Of the variance, if the truth were another number."""
    curvature: Any = Fraction(0)
    kurtosis: Any = Fraction(0)
    """Excess kurtosis of the error."""

    def times(self, factor: int) -> "Expected":
        """Return the estimate with wider tolerances."""
        return self._replace(tolerances=tuple(factor * one for one in self.tolerances))


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


def sized(value: Fraction | int) -> Sized:
    """Return a number that is its own size."""
    return Sized(Fraction(value), abs(Fraction(value)))


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
    return View(
        fields,
        [sized(m * cell) for cell in cells_of(message)],
        factor,
        sized(m**2 * step * noise[0]),
        sized(m**4 * step**2 * noise[1]),
        count,
        law,
        before,
    )


def tolerance(view: View) -> Fraction:
    """Return what of its size a result may be off: (k + 64)·2^-52."""
    return (view.fields["sketch_dim"] + 64) * ULP


def total(terms: Any) -> Sized:
    """Return a sum."""
    found = sized(0)
    for term in terms:
        found += term
    return found


# --- squared norms and inner products ------------------------------------------------------------------------------


def squared_norm(message: Message) -> Expected:
    """Estimate ‖x‖²."""
    view = view_of(message)
    return _squared(view.cells, view.k2, view.k4, view)


def squared_distance(x: Message, y: Message) -> Expected:
    """Estimate ‖x - y‖²."""
    first, second = view_of(x), view_of(y)
    gap = [one - other for one, other in zip(first.cells, second.cells, strict=True)]
    if x["multiplier"] == y["multiplier"]:
        gap = [sized(one.value) for one in gap]  # integers are subtracted: no digit is lost
    return _squared(gap, first.k2 + second.k2, first.k4 + second.k4, first)


def _squared(cells: list[Sized], k2: Sized, k4: Sized, view: View) -> Expected:
    n, law = view.count, view.law
    value = view.factor * total(cell * cell for cell in cells) - n * k2
    norm = value.clipped(Fraction(0))
    square = norm * norm
    variance = (law.a + law.b) * square
    if law.c > 0:
        sums = view.factor**2 * total(cell * cell * cell * cell for cell in cells)
        variance += law.c * _fourth(sums, norm, k2, k4, view).clipped(Fraction(0), square)
    spread = 4 * (k2 * norm) + n * (k4 + 2 * (k2 * k2))
    if view.before is not None:
        longer = 2 * n * (k2 * norm) + n * n * (k2 * k2) + spread
        fourth = 6 * (k2 * norm) + n * (k4 + 3 * (k2 * k2))
        spread += (view.before.a + view.before.b) * longer + view.before.c * fourth
    found = _expected(view, value, variance, spread.clipped(Fraction(0)), Fraction(0))
    grows, curvature = Fraction(4), law.a + law.b
    if view.before is not None:
        grows += (view.before.a + view.before.b) * (2 * n + 4) + 6 * view.before.c
    return found._replace(slope=2 * curvature * norm.value + grows * k2.value, curvature=curvature)


def _fourth(sums: Sized, norm: Sized, k2: Sized, k4: Sized, view: View) -> Sized:
    """Estimate ‖z‖₄⁴ from the sum of the cells' fourth powers."""
    a, c, n = view.law.a, view.law.c, view.count
    added = 6 * (k2 * norm) + n * (k4 + 3 * (k2 * k2))
    if view.before is None:
        return 1 / c * (sums - added - 3 * a * (norm * norm))
    longer = norm * norm + 2 * n * (k2 * norm) + n * n * (k2 * k2) + 4 * (k2 * norm) + n * (k4 + 2 * (k2 * k2))
    return 1 / c * (sums - 3 * a * longer) - added


def inner_product(x: Message, y: Message) -> Expected:
    """Estimate ⟨x, y⟩."""
    first, second = view_of(x), view_of(y)
    law, n, before = first.law, first.count, first.before
    value = first.factor * total(one * other for one, other in zip(first.cells, second.cells, strict=True))
    norm_x, norm_y = (_plain_norm(view).clipped(Fraction(0)) for view in (first, second))
    products = norm_x * norm_y
    spread = second.k2 * norm_x + first.k2 * norm_y + n * (first.k2 * second.k2)
    variance = law.a * products + law.b * (value * value)
    if law.c > 0:
        pairs = zip(first.cells, second.cells, strict=True)
        sums = first.factor**2 * total((one * one) * (other * other) for one, other in pairs)
        if before is None:
            found = 1 / law.c * (sums - spread - law.a * (products + 2 * (value * value)))
        else:
            longer = (norm_x + n * first.k2) * (norm_y + n * second.k2) + 2 * (value * value + spread)
            found = 1 / law.c * (sums - law.a * longer) - spread
        variance += law.c * found.clipped(Fraction(0), products)
    noise = spread
    if before is not None:
        longer = n * (second.k2 * norm_x) + n * (first.k2 * norm_y) + n * n * (first.k2 * second.k2)
        noise = before.a * longer + (before.b + before.c + 1) * spread
    product = _expected(first, value, variance, noise.clipped(Fraction(0)), None)
    return product._replace(slope=2 * law.b * value.value, curvature=law.b)


def _plain_norm(view: View) -> Sized:
    return view.factor * total(cell * cell for cell in view.cells) - view.count * view.k2


def _expected(view: View, value: Sized, projection: Sized, noise: Sized, lowest: Fraction | None) -> Expected:
    near = tolerance(view)
    parts = value, projection, noise
    return Expected(*(one.value for one in parts), lowest, None, tuple(near * one.size for one in parts))


def pairwise(messages: list[Message]) -> list[list[Expected]]:
    """Estimate all squared distances, with the tolerance of a matrix product."""
    zero = Expected(Fraction(0), Fraction(0), Fraction(0), Fraction(0), None, (Fraction(0),) * 3)
    return [[zero if x is y else squared_distance(x, y).times(PAIRWISE) for y in messages] for x in messages]


# --- cosines --------------------------------------------------------------------------------------------------------


def cosine(x: Message, y: Message) -> Expected:
    """Estimate ⟨x, y⟩ / (‖x‖‖y‖), for noise on the cells."""
    views = view_of(x), view_of(y)
    law, k = views[0].law, views[0].count
    product = inner_product(x, y).value
    norms = [_plain_norm(view) for view in views]
    shares, norm_parts = [], []
    for view, norm in zip(views, norms, strict=True):
        k2, k4 = view.k2.value, view.k4.value
        if norm.value <= 0 or norm.value**2 <= 4 * k * (k4 + 2 * k2**2):
            raise UndefinedError
        shares.append(k2 / norm.value)
        norm_parts.append((4 * k2 * norm.value + k * k4 + 2 * k * k2**2) / norm.value**2)
    condition = max(norm.size / norm.value for norm in norms)
    with localcontext() as context:
        context.prec = 50
        value = decimal(product) / decimal(norms[0].value * norms[1].value).sqrt()
        v = max(min(value, Decimal(1)), Decimal(-1))
        own = decimal(sum(shares) + k * shares[0] * shares[1])
        across, along = decimal(sum(norm_parts) / 4), decimal(2 * sum(shares))
        growth, alpha, z = across - along, law.a + max(law.c, Fraction(0)) / 2, decimal(TWO_ERRORS)
        noise = max(own + _farthest(abs(v), own, growth) ** 2 * growth, Decimal(0))
        projection = _cosine_variance(abs(v), alpha)
        near = decimal(tolerance(views[0]) * condition**2)
        at_first = 16 * near, 16 * near * (own + across + along)
        first, off = projection + noise, sum(at_first)
        f = max(abs(v) - z * first.sqrt(), Decimal(0))
        projection = max(projection, decimal(alpha) * (1 - f * f) ** 2)
        if growth < 0:
            noise = max(own + f * f * growth, Decimal(0))
        moved = (
            2 * (abs(growth) + 2 * decimal(alpha)) * z * (min(off / first.sqrt(), off.sqrt()) if first else off.sqrt())
        )
        bounds = (4 * near, *(one + moved for one in at_first))
        return Expected(value, projection, noise, Decimal(-1), Decimal(1), bounds)


def _farthest(v: Decimal, level: Decimal, growth: Decimal) -> Decimal:
    if growth <= 0:
        return v
    z = decimal(TWO_ERRORS)
    rest = 1 - z * z * growth
    return min(Decimal(1), (v + z * (level * rest + growth * v * v).sqrt()) / rest) if rest > 0 else Decimal(1)


def _cosine_variance(v: Decimal, a: Fraction) -> Decimal:
    if a > Fraction(1, 8):
        return ((1 + v) / Decimal("1.9")) ** 2
    z = decimal(TWO_ERRORS)
    r = z * decimal(a).sqrt()
    least = 2 * (v - r) / (1 + max(1 - 4 * r * (v - r), Decimal(0)).sqrt())
    return max(((v - least) / z) ** 2, decimal(a) * (1 - v * v) ** 2)


def normalised_inner_product(x: Message, y: Message, norm_x: Fraction, norm_y: Fraction) -> Expected:
    """Estimate ⟨x, y⟩ for public norms."""
    angle, scale = cosine(x, y), decimal(norm_x * norm_y)
    near = (2 * scale * angle.tolerances[0], *(2 * scale**2 * one for one in angle.tolerances[1:]))
    variances = angle.projection_variance * scale**2, angle.noise_variance * scale**2
    return Expected(angle.value * scale, *variances, -scale, scale, near)


# --- averages -------------------------------------------------------------------------------------------------------


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
    scaled = view._replace(cells=[r * one for one in view.cells], k2=r**2 * view.k2, k4=r**4 * view.k4)
    plain = _plain_norm(scaled)
    return Average(scaled, plain, (1 - g) * plain, g * plain, t)


def mean_norm(message: Message) -> Expected:
    """Estimate ‖x/n‖²."""
    one = _average_of(message)
    view, q, t = one.view, one.length, one.spread
    law, k = view.law, view.count
    square = q * q
    variance = (law.a + law.b) * square
    if law.c > 0:
        sums = view.factor**2 * total(cell * cell * cell * cell for cell in view.cells)
        variance += law.c * _fourth(sums, q, view.k2, view.k4, view).clipped(Fraction(0), square)
    noise = 4 * (1 + t) * (view.k2 * q) + k * (view.k4 + 2 * (view.k2 * view.k2))
    noise = noise.clipped(Fraction(0)) + (4 * t + 2 * t * t) * square
    found = _expected(view, one.norm, variance, noise, Fraction(0))
    slope = 2 * (law.a + law.b) * q.value + 4 * view.k2.value + 6 * t * q.value
    return found._replace(slope=slope, curvature=law.a + law.b + Fraction(7, 4) * t)


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
    noise = (1 + first.spread) * (other.k2 * q) + (1 + second.spread) * (one.k2 * p) + k * (one.k2 * other.k2)
    noise = noise.clipped(Fraction(0)) + both * (value * value)
    found = _expected(one, value, variance, noise, None)
    return found._replace(slope=2 * (law.b + both) * value.value, curvature=law.b + both)


def mean_distance(x: Message, y: Message) -> Expected:
    """Estimate ‖x/n - y/m‖²."""
    first, second = _average_of(x), _average_of(y)
    view, law, k = first.view, first.view.law, first.view.count
    gap = [one - other for one, other in zip(view.cells, second.view.cells, strict=True)]
    k2, k4 = view.k2 + second.view.k2, view.k4 + second.view.k4
    value = view.factor * total(cell * cell for cell in gap) - k * k2 - first.excess - second.excess
    q, squares = value.clipped(Fraction(0)), value.clipped(Fraction(0)) * value.clipped(Fraction(0))
    cross = first.norm + second.norm - value
    product = Fraction(1, 4) * (cross * cross)
    product = product.clipped(Fraction(0), first.length * second.length)
    longer = q + first.spread * first.length + second.spread * second.length
    variance = (law.a + law.b) * (longer * longer)
    if law.c > 0:
        sums = view.factor**2 * total(cell * cell * cell * cell for cell in gap)
        variance += law.c * _fourth(sums, q, k2, k4, view).clipped(Fraction(0), squares)
    noise = (4 * (k2 * longer) + k * (k4 + 2 * (k2 * k2))).clipped(Fraction(0))
    noise += 4 * first.spread * second.spread * product
    slope = 2 * (law.a + law.b) * longer.value + 4 * k2.value
    for one, other in ((first, second), (second, first)):
        square = one.length * one.length
        along = Fraction(1, 2) * (value + one.norm - other.norm)
        clean = along * along - one.spread * square - other.spread * product - k2 * one.length
        noise += 2 * one.spread**2 * square + 4 * one.spread * clean.clipped(Fraction(0), q * one.length)
        slope += 4 * one.spread * along.value
    found = _expected(view, value, variance, noise, Fraction(0))
    return found._replace(slope=slope, curvature=law.a + law.b + first.spread + second.spread)


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
    found = _expected(view_of(message), value, sized(0), noise, Fraction(0))
    fourth = k4 * sum(factor**4 for factor in factors)
    return found._replace(kurtosis=fourth / noise.value**2 if k2 else Fraction(0))


# --- standard errors and intervals ------------------------------------------------------------------------------------


def decimal(number: Any) -> Decimal:
    """Return a fraction to the digits of the context."""
    if isinstance(number, Decimal | float):
        return Decimal(number)
    return Decimal(number.numerator) / Decimal(number.denominator)


def standard_error(estimate: Expected) -> tuple[Decimal, Decimal]:
    """Return the standard error and its tolerance."""
    with localcontext() as context:
        context.prec = 50
        variance = decimal(estimate.projection_variance) + decimal(estimate.noise_variance)
        near = decimal(estimate.tolerances[1]) + decimal(estimate.tolerances[2])
        error = variance.sqrt()
        return error, 2 * decimal(ULP) * error + (min(near / error, near.sqrt()) if error else near.sqrt())


class Ends(NamedTuple):
    """An interval, its ends infinite where there are none."""

    low: Decimal
    high: Decimal
    within: Decimal
    """How far off readers may be; infinite where they may take either branch."""


def interval(estimate: Expected, confidence: float, method: str) -> Ends:
    """Return all t with (value - t)² ≤ g²·S(t), and their tolerance."""
    with localcontext() as context:
        context.prec = 50
        if method == "normal":
            reach = reach_of(Decimal(NormalDist().inv_cdf((1 + confidence) / 2)), estimate)
        else:
            reach = 1 / (1 - Decimal(confidence)).sqrt()
    return interval_at(estimate, reach)


def reach_of(z: Decimal, estimate: Expected) -> Decimal:
    """Return g of a normal quantile."""
    return z + (z**3 - 3 * z) * min(decimal(estimate.kurtosis), Decimal(6)) / 24


def interval_at(estimate: Expected, reach: Decimal, digits: int = 44) -> Ends:
    """Return the interval for g, and its tolerance with 2^-``digits``."""
    with localcontext() as context:
        context.prec = 50
        rounding = Decimal(2) ** -digits
        lowest, highest = (
            sign * Decimal("Infinity") if end is None else decimal(end)
            for sign, end in ((-1, estimate.lowest), (1, estimate.highest))
        )
        value, slope, r = map(decimal, (estimate.value, estimate.slope, estimate.curvature))
        variance = decimal(estimate.projection_variance) + decimal(estimate.noise_variance)
        p = min(max(value, lowest), highest)
        d = value - p
        a, b, c = 1 - reach**2 * r, d + reach**2 * slope / 2, d**2 - reach**2 * variance
        below, above = _roots(a, b, c, exact=variance == 0 and d == 0)
        near = decimal(estimate.tolerances[0])
        of_variance = decimal(estimate.tolerances[1]) + decimal(estimate.tolerances[2])
        within = near if abs(a) > Decimal(2) ** -40 else Decimal("Infinity")
        under = max(b * b - a * c, Decimal(0))
        for f in (below, above):
            if not f.is_finite():
                continue
            off = value - p - f
            spread = (2 * abs(off) + reach**2 * (abs(slope) + 4 * abs(r * f))) * near
            spread += reach**2 * of_variance
            spread += rounding * (off**2 + reach**2 * (variance + abs(slope * f) + abs(r) * f * f))
            ways = [spread / under.sqrt()] if under > 0 else []
            ways += [3 * (spread / a).sqrt()] if a > 0 else []
            within = max(within, near + rounding * (abs(value) + abs(p + f)) + min(ways, default=Decimal(0)))
        return Ends(*(min(max(p + end, lowest), highest) for end in (below, above)), within)


def _roots(a: Decimal, b: Decimal, c: Decimal, *, exact: bool) -> tuple[Decimal, Decimal]:
    """Return the ends of a·f² - 2b·f + c ≤ 0, of the piece that WIRE.md names."""
    nothing, endless, under = Decimal(0), Decimal("Infinity"), b * b - a * c
    if exact or (a > 0 and under < 0):
        return nothing, nothing
    if a > 0:
        return (b - under.sqrt()) / a, (b + under.sqrt()) / a
    if under < 0 or (b <= 0 and under == 0):
        return -endless, endless
    larger, smaller = ((b - s * under.sqrt()) / a if a else c / (2 * b) for s in (1, -1))
    return (larger, endless) if b > 0 or c > 0 else (-endless, smaller)
