"""Norms, distances, products and cosines, written from WIRE.md alone.

They are exact fractions, and decimals of 50 digits where there are roots.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

from tests.golden.exact_numbers import Expected, Sized, UndefinedError, decimal, root, root_of, sized, smaller, total
from tests.golden.grains import Grain, grain_of_norm, grain_of_product
from tests.golden.views import Message, View, tolerance, view_of

TWO_ERRORS = Fraction(196, 100)
PAIRWISE = 1 << 21  # what one matrix product may cost beside a difference of cells


def _sure_part(clean: Sized, squared_noise: Sized, whole: Sized, view: View) -> Sized:
    """Return what the cells of a hashed map show of a sum of fourth powers, as far as it may count."""
    noise = 2 * Fraction(math.sqrt(96 * view.count)) * squared_noise
    found = Fraction(2, 3) / (Fraction(1, view.hashed) - 3 * view.law.a) * (clean - noise)
    return found.clipped(Fraction(0), Fraction(1, 2) * whole)


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


def norm_of_equal(view: View, whole: Sized, norm: Sized, k2: Sized, k4: Sized) -> tuple[Sized, Fraction, Fraction]:
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


def product_of_equal(
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
        variance += law.c * fourths(sums, norm, k2, k4, view)
    spread = 4 * (k2 * norm) + n * (k4 + 2 * (k2 * k2))
    if view.before is not None:
        longer = 2 * n * (k2 * norm) + n * n * (k2 * k2) + spread
        fourth = 6 * (k2 * norm) + n * (k4 + 3 * (k2 * k2))
        spread += (view.before.a + view.before.b) * longer + view.before.c * fourth
    variance, slope, curvature = norm_of_equal(view, variance, norm, k2, k4)
    found = expected_of(view, value, variance, spread.clipped(Fraction(0)), Fraction(0))
    grows = Fraction(4)
    if view.before is not None:
        grows += (view.before.a + view.before.b) * (2 * n + 4) + 6 * view.before.c
    found = found._replace(slope=slope + grows * k2.value, curvature=curvature)
    return found._replace(grain=grain_of_norm(view, norm.value, k2.value, k4.value, step_squared))


def fourths(sums: Sized, norm: Sized, k2: Sized, k4: Sized, view: View) -> Sized:
    """Return the sum of fourth powers, as far as it may count."""
    square = norm * norm
    if view.law.c > 0:
        return _fourth(sums, norm, k2, k4, view).clipped(Fraction(0), square)
    clean = sums - 6 * (k2 * norm) - view.count * (k4 + 3 * (k2 * k2)) - 3 * view.law.a * square
    return _sure_part(clean, k2 * k2, square, view)


def squares_of(sums: Sized, norms: tuple[Sized, Sized], value: Sized, spread: Sized, noise: Sized, view: View) -> Sized:
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
    norm_x, norm_y = (plain_norm(view).clipped(Fraction(0)) for view in (first, second))
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
        variance += law.c * squares_of(sums, (norm_x, norm_y), value, spread, first.k2 * second.k2, first)
    noise = spread
    if before is not None:
        longer = n * (second.k2 * norm_x) + n * (first.k2 * norm_y) + n * n * (first.k2 * second.k2)
        noise = before.a * longer + (before.b + before.c + 1) * spread
    variance, slope, curvature = product_of_equal((first, second), variance, (norm_x, norm_y), value, spread)
    product = expected_of(first, value, variance, noise.clipped(Fraction(0)), None)
    grain = grain_of_product(
        (first, second), (norm_x.value, norm_y.value), (first.k2.value, second.k2.value),
        (first.k4.value, second.k4.value), (first.step_squared, second.step_squared),
    )  # fmt: skip
    return product._replace(slope=slope, curvature=curvature, grain=grain)


def plain_norm(view: View) -> Sized:
    return view.factor * total(cell * cell for cell in view.cells) - view.count * view.k2


def expected_of(view: View, value: Sized, projection: Sized, noise: Sized, lowest: Fraction | None) -> Expected:
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
    norms = [plain_norm(view) for view in views]
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
