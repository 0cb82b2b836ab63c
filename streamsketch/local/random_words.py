"""Random words, public ones from seeds and secret ones from the system, and signs, rows and Gaussians of them.

A report's seed, mixed with a salt for its use, starts a stream. Word i of the stream is SplitMix64's finaliser of
start + (i + 1) · γ (Steele, Lea and Flood 2014), so any word can be computed without the previous ones.

Each word gives one Gaussian by the inverse of the distribution function. Without rejection the position in the stream
is fixed, and a public word gives the same number on every machine. The quantile is that of Wichura (1988, AS 241),
accurate to 1e-15. It and the logarithm in its tails use IEEE sums, products, quotients and square roots, in a fixed
order.
"""

import numpy as np

from streamsketch.core.jit import kernel
from streamsketch.core.numbers import Floats, Ints
from streamsketch.kernels.hashing import Words, field_elements
from streamsketch.kernels.matrices import aligned_zeros
from streamsketch.kernels.permutation import mix
from streamsketch.privacy.exact_coins import Bytes
from streamsketch.privacy.samplers import BitSource
from streamsketch.projections.hadamard import transform_cells

LARGEST_NORMAL = 9.3
"""A bound on the absolute value of a Gaussian from one word."""

LEAST_UNIFORM = 2.0**-53
"""The least value of `uniforms`; the largest is 1 minus it."""

_1, _12, _52 = np.uint64(1), np.uint64(12), np.uint64(52)
_FRACTION, _ONE_HALF = np.uint64((1 << 52) - 1), np.uint64(1022 << 52)  # bits of a double: its fraction; those of 1/2
_BLOCK = 256
_SUMS = 64
_HALF_STEP = 2.0**-64
_CENTRAL = 0.425  # the central approximation is for |p - 1/2| up to this
_ROOT_HALF = 0.7071067811865476
_LN_2 = 0.6931471805599453
_ODD = tuple(1.0 / odd for odd in range(21, 0, -2))
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_24, _40, _63 = np.uint64(24), np.uint64(40), np.uint64(63)


@kernel
def standard_normals(words: Words, out: Floats) -> None:
    """Write a Gaussian z for each word: its sign is the lowest bit, and Φ(-|z|) is (the 63 others + 1/2) / 2^64.

    |z| is at most 9.2. Every word takes the same work: all three approximations are evaluated, and one is kept.
    """
    mantissas = np.empty(min(_BLOCK, words.size))
    for first in range(0, words.size, _BLOCK):
        drawn, target = words[first : first + _BLOCK], out[first : first + _BLOCK]
        for i in range(drawn.size):
            target[i] = (np.float64(np.int64(drawn[i] >> _1)) + 0.5) * _HALF_STEP
        _magnitudes(target, mantissas)
        for i in range(drawn.size):
            target[i] = target[i] if drawn[i] & _1 == 0 else -target[i]


@kernel
def quantiles(probabilities: Floats, out: Floats) -> None:
    """Write Φ⁻¹ of numbers from 2^-1000 to 1 - 2^-53, with the same work for each."""
    mantissas = np.empty(min(_BLOCK, out.size))
    for first in range(0, out.size, _BLOCK):
        source, target = probabilities[first : first + _BLOCK], out[first : first + _BLOCK]
        for i in range(source.size):
            target[i] = min(source[i], 1.0 - source[i])
        _magnitudes(target, mantissas)
        for i in range(source.size):
            target[i] = -target[i] if source[i] < 0.5 else target[i]


@kernel
def _magnitudes(cells: Floats, mantissas: Floats) -> None:
    """Replace each p ≤ 1/2 in ``cells`` by -Φ⁻¹(p); ``mantissas`` is scratch of at least the same size."""
    words, scaled = cells.view(np.uint64), mantissas.view(np.uint64)
    for i in range(cells.size):
        scaled[i] = (words[i] & _FRACTION) | _ONE_HALF
    for i in range(cells.size):  # selections, not branches: vector code, whose time does not depend on its input
        p = cells[i]
        exponent = np.float64(np.int64(words[i] >> _52)) - 1022.0
        mantissa = mantissas[i]
        low = mantissa < _ROOT_HALF
        mantissa = mantissa * 2.0 if low else mantissa
        exponent = exponent - 1.0 if low else exponent
        r = np.sqrt(_minus_log(mantissa, exponent))
        middle, far = _middle(r - 1.6), _far(r - 5.0)
        tail = middle if r <= 5.0 else far
        central = _central(0.5 - p)
        cells[i] = central if 0.5 - p <= _CENTRAL else tail


@kernel
def _central(q: float) -> float:
    r = 0.180625 - q * q
    upper = 2.5090809287301226727e3
    upper = upper * r + 3.3430575583588128105e4
    upper = upper * r + 6.7265770927008700853e4
    upper = upper * r + 4.5921953931549871457e4
    upper = upper * r + 1.3731693765509461125e4
    upper = upper * r + 1.9715909503065514427e3
    upper = upper * r + 1.3314166789178437745e2
    upper = upper * r + 3.3871328727963666080e0
    lower = 5.2264952788528545610e3
    lower = lower * r + 2.8729085735721942674e4
    lower = lower * r + 3.9307895800092710610e4
    lower = lower * r + 2.1213794301586595867e4
    lower = lower * r + 5.3941960214247511077e3
    lower = lower * r + 6.8718700749205790830e2
    lower = lower * r + 4.2313330701600911252e1
    lower = lower * r + 1.0
    # not /, whose check for zero would prevent vector code
    quotient: float = np.divide(q * upper, lower)
    return quotient


@kernel
def _middle(r: float) -> float:
    upper = 7.74545014278341407640e-4
    upper = upper * r + 2.27238449892691845833e-2
    upper = upper * r + 2.41780725177450611770e-1
    upper = upper * r + 1.27045825245236838258e0
    upper = upper * r + 3.64784832476320460504e0
    upper = upper * r + 5.76949722146069140550e0
    upper = upper * r + 4.63033784615654529590e0
    upper = upper * r + 1.42343711074968357734e0
    lower = 1.05075007164441684324e-9
    lower = lower * r + 5.47593808499534494600e-4
    lower = lower * r + 1.51986665636164571966e-2
    lower = lower * r + 1.48103976427480074590e-1
    lower = lower * r + 6.89767334985100004550e-1
    lower = lower * r + 1.67638483018380384940e0
    lower = lower * r + 2.05319162663775882187e0
    lower = lower * r + 1.0
    quotient: float = np.divide(upper, lower)
    return quotient


@kernel
def _far(r: float) -> float:
    upper = 2.01033439929228813265e-7
    upper = upper * r + 2.71155556874348757815e-5
    upper = upper * r + 1.24266094738807843860e-3
    upper = upper * r + 2.65321895265761232930e-2
    upper = upper * r + 2.96560571828504891230e-1
    upper = upper * r + 1.78482653991729133580e0
    upper = upper * r + 5.46378491116411436990e0
    upper = upper * r + 6.65790464350110377720e0
    lower = 2.04426310338993978564e-15
    lower = lower * r + 1.42151175831644588870e-7
    lower = lower * r + 1.84631831751005468180e-5
    lower = lower * r + 7.86869131145613259100e-4
    lower = lower * r + 1.48753612908506148525e-2
    lower = lower * r + 1.36929880922735805310e-1
    lower = lower * r + 5.99832206555887937690e-1
    lower = lower * r + 1.0
    quotient: float = np.divide(upper, lower)
    return quotient


@kernel
def _minus_log(mantissa: float, exponent: float) -> float:
    """Return -ln(m·2^e) for m in [√½, √2), without the C library, whose last bit differs between machines."""
    s = np.divide(mantissa - 1.0, mantissa + 1.0)  # |s| < 0.172: eleven terms err by less than 1e-17
    square = s * s
    total = 0.0
    for term in _ODD:
        total = total * square + term
    logarithm: float = exponent * _LN_2 + 2.0 * s * total
    return -logarithm


def uniforms(words: Words) -> Floats:
    """Return (the upper 52 bits of each word + 1/2) / 2^52, in (0, 1): float64."""
    return np.asarray(((words >> _12).astype(np.float64) + 0.5) * 2.0**-52)


def secret_words(bits: BitSource, count: int) -> Words:
    """Return ``count`` uniform words from a secret source: uint64, (count,)."""
    data = bits.read(8 * count)
    while len(data) < 8 * count:
        data += bits.read(8 * count - len(data))
    return np.frombuffer(data, dtype="<u8", count=count).astype(np.uint64)  # a writeable copy


def dot_rows(left: Floats, right: Floats) -> Floats:
    """Return the inner products of the rows of two matrices: float64, (n,). Single-threaded, unlike BLAS."""
    return np.asarray(np.einsum("ij,ij->i", left, right))


@kernel
def squared_lengths(rows: Floats) -> Floats:
    """Return the squared length of each row: float64, (n,), up to rounding; 64 sums, which are vector code."""
    out, whole = np.empty(rows.shape[0]), rows.shape[1] // _SUMS * _SUMS
    for i in range(rows.shape[0]):
        row, sums = rows[i], np.zeros(_SUMS)
        for first in range(0, whole, _SUMS):
            for lane in range(_SUMS):
                sums[lane] += row[first + lane] * row[first + lane]
        total = 0.0
        for lane in range(_SUMS):
            total += sums[lane]
        for j in range(whole, rows.shape[1]):
            total += row[j] * row[j]
        out[i] = total
    return out


@kernel
def round_to_steps(values: Floats, step: float, limit: float, steps: Ints) -> bool:
    """Write ``values / step`` rounded to nearest, ties to even; return whether none exceeds ``limit``, nor is NaN.

    ``step`` is a power of two, so the quotient is exact. ``limit`` is below 2^63; steps beyond it are arbitrary.
    """
    beyond = 0
    for i in range(values.size):
        rounded = np.rint(np.divide(values[i], step))
        beyond |= 0 if abs(rounded) <= limit else 1
        steps[i] = np.int64(rounded)
    return beyond == 0


def salt(seed: int, label: str) -> np.uint64:
    """Return the salt for one use of reports' seeds: the field element of (seed, label)."""
    return np.uint64(field_elements(seed, label, 1)[0])


@kernel
def stream_of(seed: np.uint64, salted: np.uint64) -> np.uint64:
    """Return the start of a seed's stream."""
    return mix(seed ^ mix(salted))


@kernel
def word(start: np.uint64, index: int) -> np.uint64:
    """Return word ``index`` of a stream."""
    return mix(start + (np.uint64(index) + _1) * _GAMMA)


@kernel
def gaussian_vector(seed: np.uint64, salted: np.uint64, words: Words, out: Floats) -> None:
    """Write the standard Gaussians of a seed; ``words`` is scratch of the same size.

    Words are mixed once more with a key of their stream. All streams are parts of one cycle of 2^64 words, so without
    this, vectors would overlap, and caps would be covered less evenly than `compressed.shares` assumes.
    """
    start = stream_of(seed, salted)
    key = mix(start)
    for i in range(out.size):
        words[i] = mix(word(start, i) ^ key)
    standard_normals(words, out)


@kernel
def gaussian_vectors(seeds: Words, salted: np.uint64, size: int) -> Floats:
    """Return `gaussian_vector` of each seed: float64, (n, size)."""
    out, words = np.empty((seeds.size, size)), np.empty(size, dtype=np.uint64)
    for i in range(seeds.size):
        gaussian_vector(seeds[i], salted, words, out[i])
    return out


@kernel
def sample_rows(start: np.uint64, size: int, taken: Bytes, rows: Ints) -> None:
    """Write distinct rows of [0, size), every set of them equally likely up to 2^-16, in O(rows) (Floyd's algorithm).

    ``taken`` has ``size`` zeros before and after the call. size ≤ 2^24, so the products stay below 2^64.
    """
    first = size - rows.size
    for i in range(rows.size):
        last = first + i
        row = np.int64(((word(start, i) >> _24) * (np.uint64(last) + _1)) >> _40)
        if taken[row]:
            row = np.int64(last)
        taken[row] = 1
        rows[i] = row
    for i in range(rows.size):
        taken[rows[i]] = 0


@kernel
def rows_of(starts: Words, size: int, count: int) -> Ints:
    """Return ``count`` distinct rows of [0, size) for each stream: int64, (n, count); see `sample_rows`."""
    rows = np.empty((starts.size, count), dtype=np.int64)
    taken = np.zeros(size, dtype=np.uint8)
    for i in range(starts.size):
        sample_rows(starts[i], size, taken, rows[i])
    return rows


@kernel
def copy_signed(start: np.uint64, cells: Floats, out: Floats) -> None:
    """Write ``cells`` times the signs of a stream: cell j is negated if bit j mod 64 of word j // 64 is 1."""
    words, signed = cells.view(np.uint64), out.view(np.uint64)  # a negation flips bit 63
    for block in range(0, cells.size, 64):
        signs = word(start, block >> 6)
        source, target = words[block : block + 64], signed[block : block + 64]
        for j in range(source.size):
            target[j] = source[j] ^ ((signs >> np.uint64(j)) << _63)


@kernel
def sign_vectors(seeds: Words, salted: np.uint64, size: int) -> Floats:
    """Return ±1 by the signs of each seed's stream: float64, (n, size)."""
    ones, out = np.ones(size), np.empty((seeds.size, size))
    for i in range(seeds.size):
        copy_signed(stream_of(seeds[i], salted), ones, out[i])
    return out


@kernel
def project(vectors: Floats, sign_starts: Words, row_starts: Words, size: int, out: Floats) -> None:
    """Write S_i H± D_i v_i for each row of ``vectors``, where H± has entries ±1 and order ``size``: (n, k)."""
    cells = aligned_zeros(size, vectors)
    taken = np.zeros(size, dtype=np.uint8)
    rows = np.empty(out.shape[1], dtype=np.int64)
    for i in range(vectors.shape[0]):
        copy_signed(sign_starts[i], vectors[i], cells)
        cells[vectors.shape[1] :] = 0.0
        transform_cells(cells, size)
        sample_rows(row_starts[i], size, taken, rows)
        for j in range(rows.size):
            out[i, j] = cells[rows[j]]


@kernel
def lift(values: Floats, sign_starts: Words, row_starts: Words, size: int, out: Floats) -> None:
    """Write the first coordinates of D_i H± S_iᵀ times each row of ``values``: (n, d)."""
    cells = aligned_zeros(size, values)
    taken = np.zeros(size, dtype=np.uint8)
    rows = np.empty(values.shape[1], dtype=np.int64)
    for i in range(values.shape[0]):
        cells[:] = 0.0
        sample_rows(row_starts[i], size, taken, rows)
        for j in range(rows.size):
            cells[rows[j]] = values[i, j]
        transform_cells(cells, size)
        copy_signed(sign_starts[i], cells[: out.shape[1]], out[i])


@kernel
def add_rows(values: Floats, matrix: Floats, out: Floats) -> None:
    """Add Wᵀ û to ``out``, row by row: the order of sums in BLAS, and so the last bit, differs between machines."""
    for row in range(values.size):
        for j in range(out.size):
            out[j] += values[row] * matrix[row, j]


@kernel
def scatter(steps: Ints, row_starts: Words, taken: Bytes, total: Ints) -> None:
    """Add S_iᵀ times each row of ``steps`` to ``total``, in O(k) each; ``taken`` as in `sample_rows`."""
    rows = np.empty(steps.shape[1], dtype=np.int64)
    for i in range(steps.shape[0]):
        sample_rows(row_starts[i], total.size, taken, rows)
        for j in range(rows.size):
            total[rows[j]] += steps[i, j]


@kernel
def streams_of(seeds: Words, salted: np.uint64) -> Words:
    """Return the start of each seed's stream: uint64, (n,)."""
    starts = np.empty_like(seeds)
    for i in range(seeds.size):
        starts[i] = stream_of(seeds[i], salted)
    return starts
