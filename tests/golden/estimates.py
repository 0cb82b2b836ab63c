"""The estimators, written from WIRE.md alone: exact fractions, and decimals of 50 digits where there are roots.

Each returns an `Expected`: the exact results, and how far a reader that computes in doubles may be off by the rule that
WIRE.md states. `Sized` numbers carry along the size |E| of a formula, in which every difference is a sum.
"""

import math
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
    grain: Any = None
    """Of coarse noise, a `Grain`."""
    reach: Any = None
    """How far noise of a known law moves the value, a function of the probability to be farther: width and slack."""
    alone: bool = False
    """Whether that noise is the whole error."""
    of_signs: Any = None
    """Of signs, a function of z: the ends of the interval and their tolerance."""

    def times(self, factor: int) -> "Expected":
        """Return the estimate with wider tolerances."""
        return self._replace(tolerances=tuple(factor * one for one in self.tolerances))


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


def root(value: Fraction) -> Fraction:
    """Return the square root to 50 digits."""
    with localcontext() as context:
        context.prec = 60
        return Fraction(decimal(value).sqrt())


def root_of(number: Sized) -> Sized:
    """Return the square root with its size: what is off by a share is off by half of it."""
    found = root(max(number.value, Fraction(0)))
    return Sized(found, number.size / found if found else Fraction(0))


def smaller(one: Sized, other: Sized) -> Sized:
    """Return the smaller of two numbers, which may be either if they are close."""
    return Sized(min(one.value, other.value), max(one.size, other.size))


def _hashed(fields: Message, law: Law) -> int:
    s = laws.few_entries(fields)
    return s if law.c < 0 and 12 * s * law.a <= 1 else 0


def _sure_part(clean: Sized, squared_noise: Sized, whole: Sized, view: View) -> Sized:
    """Return what the cells of a hashed map show of a sum of fourth powers, as far as it may count."""
    noise = 2 * Fraction(math.sqrt(96 * view.count)) * squared_noise
    found = Fraction(2, 3) / (Fraction(1, view.hashed) - 3 * view.law.a) * (clean - noise)
    return found.clipped(Fraction(0), Fraction(1, 2) * whole)


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
    return squared(view.cells, view.k2, view.k4, view, view.step_squared)


def squared_distance(x: Message, y: Message) -> Expected:
    """Estimate ‖x - y‖²."""
    first, second = view_of(x)._replace(most=None), view_of(y)
    gap = [one - other for one, other in zip(first.cells, second.cells, strict=True)]
    if x["multiplier"] == y["multiplier"]:
        gap = [sized(one.value) for one in gap]  # integers are subtracted: no digit is lost
    step_squared = max(first.step_squared, second.step_squared)
    return squared(gap, first.k2 + second.k2, first.k4 + second.k4, first, step_squared)


def _alike(view: View, norm: Sized, k2: Sized, k4: Sized) -> tuple[Sized, Sized]:
    """Return how alike units are at least, A, and the noise's variance T."""
    noise = (4 * (k2 * norm) + view.count * (k4 + 2 * (k2 * k2))).clipped(Fraction(0))
    if not view.most:
        return sized(0), noise
    sure = norm - 2 * root_of(noise)
    return (1 / view.most * sure).clipped(Fraction(0), sized(1)), noise


def _norm_of_equal(view: View, whole: Sized, norm: Sized, k2: Sized, k4: Sized) -> tuple[Sized, Fraction, Fraction]:
    """Return the projection's variance of a squared norm, and its slope and curvature."""
    law = view.law
    both = law.a + law.b
    if view.most is None or law.c > 0:
        return whole, 2 * both * norm.value, both
    alike, _ = _alike(view, norm, k2, k4)
    apart = sized(1) - alike
    left = (4 * law.a * (apart * apart) + sized(view.rounding)) * (norm * norm)
    if left.value >= whole.value:
        return smaller(left, whole), 2 * both * norm.value, both
    twice = 1 - 2 * alike.value
    slope = 2 * (4 * law.a * apart.value * twice + view.rounding) * norm.value
    return smaller(left, whole), slope, 4 * law.a * twice**2 + view.rounding


def _product_of_equal(
    views: tuple[View, View], whole: Sized, norms: tuple[Sized, Sized], value: Sized, spread: Sized
) -> tuple[Sized, Fraction, Fraction]:
    """Return the projection's variance of an inner product, and its slope and curvature."""
    law = views[0].law
    if any(view.most is None for view in views) or law.c > 0 or value.value <= 0:
        return whole, 2 * law.b * value.value, law.b
    parts = [_alike(view, norm, view.k2, view.k4) for view, norm in zip(views, norms, strict=True)]
    shares = [(2 * ((sized(1) - alike) * (sized(1) - alike))).clipped(Fraction(0), sized(1)) for alike, _ in parts]
    share = Fraction(1, 2) * (shares[0] + shares[1])
    upper = [norm + 2 * root_of(noise) for norm, (_, noise) in zip(norms, parts, strict=True)]
    scale = root(upper[0].value * upper[1].value)
    sure = (value - 2 * root_of(spread)).clipped(Fraction(0))
    sizes = sum(own.size / own.value for own in upper if own.value) / 2
    cosine = min(sure.value / scale, Fraction(1)) if scale else Fraction(0)
    away = 2 * root(law.a)
    near = Sized(cosine, sure.size / scale + sizes * cosine if scale else Fraction(0))
    near = (near - away * (sized(1) - near * near)).clipped(Fraction(0))
    rounding = max(view.rounding for view in views)
    square = value * value
    left = law.a * ((norms[0] * norms[1]) * (sized(1) - (sized(1) - share) * (near * near) * (near * near)))
    left += law.a * (share * square) + rounding * square
    if left.value >= whole.value:
        return smaller(left, whole), 2 * law.b * value.value, law.b
    curvature = law.a * share.value + rounding
    return smaller(left, whole), 2 * curvature * value.value, curvature


def squared(cells: list[Sized], k2: Sized, k4: Sized, view: View, step_squared: Fraction) -> Expected:
    n, law = view.count, view.law
    value = view.factor * total(cell * cell for cell in cells) - n * k2
    norm = value.clipped(Fraction(0))
    square = norm * norm
    variance = (law.a + law.b) * square
    if law.c > 0 or view.hashed:
        sums = view.factor**2 * total(cell * cell * cell * cell for cell in cells)
        variance += law.c * _fourths(sums, norm, k2, k4, view)
    spread = 4 * (k2 * norm) + n * (k4 + 2 * (k2 * k2))
    if view.before is not None:
        longer = 2 * n * (k2 * norm) + n * n * (k2 * k2) + spread
        fourth = 6 * (k2 * norm) + n * (k4 + 3 * (k2 * k2))
        spread += (view.before.a + view.before.b) * longer + view.before.c * fourth
    variance, slope, curvature = _norm_of_equal(view, variance, norm, k2, k4)
    found = _expected(view, value, variance, spread.clipped(Fraction(0)), Fraction(0))
    grows = Fraction(4)
    if view.before is not None:
        grows += (view.before.a + view.before.b) * (2 * n + 4) + 6 * view.before.c
    found = found._replace(slope=slope + grows * k2.value, curvature=curvature)
    return found._replace(grain=grain_of_norm(view, norm.value, k2.value, k4.value, step_squared))


def _fourths(sums: Sized, norm: Sized, k2: Sized, k4: Sized, view: View) -> Sized:
    """Return the sum of fourth powers, as far as it may count."""
    square = norm * norm
    if view.law.c > 0:
        return _fourth(sums, norm, k2, k4, view).clipped(Fraction(0), square)
    clean = sums - 6 * (k2 * norm) - view.count * (k4 + 3 * (k2 * k2)) - 3 * view.law.a * square
    return _sure_part(clean, k2 * k2, square, view)


def _squares(sums: Sized, norms: tuple[Sized, Sized], value: Sized, spread: Sized, noise: Sized, view: View) -> Sized:
    """Return Σx²y² for a hashed map, as far as it may count."""
    whole = norms[0] * norms[1]
    clean = sums - spread - view.law.a * (whole + 2 * (value * value))
    return _sure_part(clean, noise, whole, view)


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
    elif first.hashed:
        pairs = zip(first.cells, second.cells, strict=True)
        sums = first.factor**2 * total((one * one) * (other * other) for one, other in pairs)
        variance += law.c * _squares(sums, (norm_x, norm_y), value, spread, first.k2 * second.k2, first)
    noise = spread
    if before is not None:
        longer = n * (second.k2 * norm_x) + n * (first.k2 * norm_y) + n * n * (first.k2 * second.k2)
        noise = before.a * longer + (before.b + before.c + 1) * spread
    variance, slope, curvature = _product_of_equal((first, second), variance, (norm_x, norm_y), value, spread)
    product = _expected(first, value, variance, noise.clipped(Fraction(0)), None)
    grain = grain_of_product(
        (first, second), (norm_x.value, norm_y.value), (first.k2.value, second.k2.value),
        (first.k4.value, second.k4.value), (first.step_squared, second.step_squared),
    )  # fmt: skip
    return product._replace(slope=slope, curvature=curvature, grain=grain)


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
        grain = grain_of_product(
            views, [norm.value for norm in norms], [view.k2.value for view in views],
            [view.k4.value for view in views], [view.step_squared for view in views],
        )  # fmt: skip
        if grain is not None:
            across, length = max(1 - f * f, Decimal("1e-6")), decimal(norms[0].value * norms[1].value).sqrt()
            share = across.sqrt() / length
            parts = grain.deviation * share, grain.kurtosis, grain.step * share, grain.bend * length / across
            grain = Grain(*parts, Decimal(10) ** 6)
        return Expected(value, projection, noise, Decimal(-1), Decimal(1), bounds, grain=grain)


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
    found = Expected(angle.value * scale, *variances, -scale, scale, near)
    if angle.grain is None:
        return found
    deviation, kurtosis, step, bend, steep = angle.grain
    return found._replace(grain=Grain(deviation * scale, kurtosis, step * scale, bend / scale, steep))


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
    scaled = view._replace(
        cells=[r * one for one in view.cells], k2=r**2 * view.k2, k4=r**4 * view.k4,
        step_squared=r**2 * view.step_squared, most=None if view.most is None else r**2 * view.most,
    )  # fmt: skip
    plain = _plain_norm(scaled)
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
        variance += law.c * _fourths(sums, q, view.k2, view.k4, view)
    variance, slope, curvature = _norm_of_equal(view, variance, q, view.k2, view.k4)
    noise = 4 * (1 + t) * (view.k2 * q) + k * (view.k4 + 2 * (view.k2 * view.k2))
    noise = noise.clipped(Fraction(0)) + (4 * t + 2 * t * t) * square
    found = _expected(view, one.norm, variance, noise, Fraction(0))
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
        variance += law.c * _squares(sums, (q, p), value, spread, one.k2 * other.k2, one)
    plain = other.k2 * q + one.k2 * p + k * (one.k2 * other.k2)
    variance, slope, curvature = _product_of_equal((one, other), variance, (q, p), value, plain)
    noise = (1 + first.spread) * (other.k2 * q) + (1 + second.spread) * (one.k2 * p) + k * (one.k2 * other.k2)
    noise = noise.clipped(Fraction(0)) + both * (value * value)
    found = _expected(one, value, variance, noise, None)
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
        variance += law.c * _fourths(sums, q, k2, k4, view)
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
    found = _expected(view_of(message), value, sized(0), noise, Fraction(0))
    fourth = k4 * sum(factor**4 for factor in factors)
    found = found._replace(kurtosis=fourth / noise.value**2 if k2 else Fraction(0))
    return found._replace(
        reach=reach_of_noise([message], [abs(one / message["multiplier"]) for one in factors]), alone=True
    )


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


def reach_of_noise(messages: list[Message], factors: list[Fraction], squared: Fraction = Fraction(1)) -> Any:
    """Return how far the noises of releases, times each of some factors and a root, reach; None if that is unknown."""
    from tests.golden import kit_releases, sameness  # noqa: PLC0415 - which import this module

    parts = [
        part | {"multiplier": part["multiplier"] * factor}
        for message in messages
        for factor in factors
        for part in kit_releases.as_parts(message)
    ]
    try:
        noise = sameness.noise_of(parts, math.sqrt(squared))
    except sameness.UnknownError:
        return None

    def reach(miss: float) -> tuple[Decimal, Decimal]:
        half = noise.weights.size // 2
        beyond = 0.0
        place = half  # the least number of steps that noise is beyond with a probability of at most miss
        while place > 0 and beyond + 2 * noise.weights[half - place] <= miss:
            beyond += 2 * noise.weights[half - place]
            place -= 1
        edge = min(abs(beyond - miss), abs(beyond + 2 * noise.weights[half - place] - miss))
        step = Decimal(noise.step)
        slack = step * Decimal("1e-9") * max(place, 1)
        if noise.lattice is None or edge < 1e-7 * miss:  # on a grid of its own, or by a step either way
            spread = math.sqrt(float(noise.weights @ noise.points**2))
            slack = max(Decimal(spread) / 15, step)
        return step * max(Decimal(place), Decimal("0.5")), slack

    return reach


def widened(ends: Ends, estimate: Expected, miss: float) -> Ends:
    """Return an interval that is as wide as coarse noise needs."""
    variance = decimal(estimate.projection_variance) + decimal(estimate.noise_variance)
    if (estimate.grain is None and estimate.reach is None) or not variance:
        return ends
    with localcontext() as context:
        context.prec = 50
        near = decimal(estimate.tolerances[0])
        if estimate.reach is not None:
            width, slack = estimate.reach(miss)
        else:
            width = estimate.grain.width(miss)
            slack = width * (Decimal(2) ** -28 + near * estimate.grain.scale)
        lowest, highest = (
            sign * Decimal("Infinity") if end is None else decimal(end)
            for sign, end in ((-1, estimate.lowest), (1, estimate.highest))
        )
        inside = min(max(decimal(estimate.value), lowest), highest)
        low, high = max(inside - width, lowest), min(inside + width, highest)
        slack += near + Decimal(2) ** -44 * (abs(inside) + width)
        if estimate.alone:
            return Ends(low, high, slack)
        return Ends(min(low, ends.low), max(high, ends.high), max(slack, ends.within))


def interval(estimate: Expected, confidence: float, method: str) -> Ends:
    """Return all t with (value - t)² ≤ g²·S(t), and their tolerance."""
    with localcontext() as context:
        context.prec = 50
        if method == "normal":
            reach = reach_of(Decimal(NormalDist().inv_cdf((1 + confidence) / 2)), estimate)
        else:
            reach = 1 / (1 - Decimal(confidence)).sqrt()
    if estimate.of_signs is not None:
        return Ends(*map(Decimal, estimate.of_signs(float(reach))))
    ends = interval_at(estimate, reach)
    return widened(ends, estimate, 1 - confidence) if method == "normal" else ends


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
        p = value = min(max(value, lowest), highest)
        a, b, c = 1 - reach**2 * r, reach**2 * slope / 2, -(reach**2) * variance
        below, above = _roots(a, b, c, exact=variance == 0)
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
