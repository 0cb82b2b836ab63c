"""The exact samplers against their readable twins, byte for byte; and the sources of their bytes."""

import copy
import functools
import hashlib
import pickle
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from streamsketch.errors import InvalidInputError
from streamsketch.privacy import exact_coins
from streamsketch.privacy import samplers as sampling
from streamsketch.privacy.samplers import BitSource, KeyedBits, SystemBits
from tests.oracles import naive_noise
from tests.oracles.naive_noise import Tape, TapeEndError
from tests.oracles.sources import Given

SECRET = bytes(range(32))

LAPLACE_SCALES = [
    Fraction(1, 1 << 40),
    Fraction(1, 3),
    Fraction(1),
    Fraction(4),
    Fraction(355, 113),
    Fraction((1 << 47) + 1, 1 << 24),
    Fraction(1 << 32),
]
GAUSSIAN_VARIANCES = [
    Fraction(1, 2),
    Fraction(3),
    Fraction(25, 2),
    Fraction(107 * 256 + 1, 256),
    Fraction(1000, 7),
    Fraction(10**6 + 1),
    Fraction(1 << 48),
]


class Whole:
    """All bytes at the first read, however few are asked for."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, size: int) -> bytes:
        data, self.data = self.data, b""
        assert data, f"the sampler wanted {size} more bytes"
        return data


def stream(size: int, context: bytes = b"test") -> bytes:
    return KeyedBits(SECRET, context).read(size)


def as_buffer(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, dtype=np.uint8)


def same_outcome(kernel: Callable[[], tuple[int, int]], twin: Callable[[Tape], int | None], tape: Tape) -> None:
    """Check that a kernel and its twin give the same value at the same position, or both run out of bytes."""
    value, at = kernel()
    try:
        expected = twin(tape)
    except TapeEndError:
        assert at == -1
        return
    assert (value, at) == (expected, tape.at)


# --- Bernoulli ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("denominator", [1, 2, 3, 7, 255, 256, 257, 65536, 10**9, (1 << 54) - 1])
def test_bernoulli_decides_as_its_twin_does(denominator: int) -> None:
    data = stream(600, b"bernoulli")
    for numerator in {0, 1, denominator // 3, denominator // 2, denominator - 1, denominator}:
        probability = Fraction(numerator, denominator)
        for at in range(0, 600, 3):
            same_outcome(
                lambda n=numerator, at=at: exact_coins.bernoulli(n, denominator, as_buffer(data), at),  # type: ignore[misc]
                lambda tape, p=probability: naive_noise.bernoulli(p, tape),  # type: ignore[misc]
                Tape(data, at),
            )


@pytest.mark.parametrize("probability", [Fraction(1, 3), Fraction(1, 256), Fraction(12345, (1 << 54) - 1)])
def test_a_tie_goes_on_to_the_next_digit_however_long_it_lasts(probability: Fraction) -> None:
    digits, rest = [], probability
    for _ in range(40):
        rest *= 256
        digits.append(int(rest))
        rest -= int(rest)
    for length in range(1, 40):
        for last in {0, max(digits[length] - 1, 0), min(digits[length] + 1, 255), 255}:
            data = bytes([*digits[:length], last])
            same_outcome(
                lambda data=data: exact_coins.bernoulli(  # type: ignore[misc]
                    probability.numerator, probability.denominator, as_buffer(data), 0
                ),
                lambda tape: naive_noise.bernoulli(probability, tape),
                Tape(data),
            )


def test_bernoulli_has_its_probability_exactly_over_all_two_byte_streams() -> None:
    pairs = np.stack(np.meshgrid(np.arange(256), np.arange(256), indexing="ij"), axis=-1).reshape(-1, 2)
    buffers = pairs.astype(np.uint8)
    for numerator, denominator in ((3, 256), (5, 65536), (40_000, 65536), (65535, 65536)):
        ones = sum(exact_coins.bernoulli(numerator, denominator, buffer, 0)[0] for buffer in buffers)
        assert Fraction(ones, 65536) == Fraction(numerator, denominator)


@pytest.mark.parametrize("exponent", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction((1 << 49) - 2, (1 << 49) - 1)])
def test_an_exponential_coin_falls_as_its_twin_does(exponent: Fraction) -> None:
    data = stream(3000, b"exponential")
    for at in range(0, 3000, 5):
        same_outcome(
            lambda at=at: exact_coins.exp_fraction(  # type: ignore[misc]
                exponent.numerator, exponent.denominator, as_buffer(data), at
            ),
            lambda tape: naive_noise.bernoulli_exp(exponent, tape),
            Tape(data, at),
        )


@pytest.mark.parametrize("limit", [1, 2, 3, 200, 256, 257, 65536, 65537, 1 << 48, (1 << 54) - 1])
def test_a_uniform_integer_is_its_twins(limit: int) -> None:
    data = stream(2000, b"uniform")
    for at in range(0, 2000, 7):
        same_outcome(
            lambda at=at: exact_coins.uniform(limit, as_buffer(data), at),  # type: ignore[misc]
            lambda tape: naive_noise.uniform(limit, tape),
            Tape(data, at),
        )


@pytest.mark.parametrize("limit", [3, 256, 300, 40_000, 65536])
def test_uniform_integers_are_equally_likely_over_all_first_bytes(limit: int) -> None:
    counts = np.zeros(limit, dtype=np.int64)
    width = -(-(limit - 1).bit_length() // 8)
    for number in range(256**width):
        drawn, at = exact_coins.uniform(limit, as_buffer(number.to_bytes(width, "big")), 0)
        if at >= 0:  # else the number was rejected, and the next one is wanted
            counts[drawn] += 1
    assert counts.min() == counts.max() > 0


# --- whole samplers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", LAPLACE_SCALES, ids=str)
def test_laplace_samples_are_the_twins_of_the_same_bytes(scale: Fraction) -> None:
    data = stream(60_000, str(scale).encode())
    expected, _ = naive_noise.complete_samples(lambda tape: naive_noise.laplace(scale, tape), data, 1000)
    assert len(expected) == 1000
    assert sampling.discrete_laplace(scale, 1000, Whole(data)).tolist() == expected


@pytest.mark.parametrize("sigma_squared", GAUSSIAN_VARIANCES, ids=str)
def test_gaussian_samples_are_the_twins_of_the_same_bytes(sigma_squared: Fraction) -> None:
    data = stream(90_000, str(sigma_squared).encode())
    expected, _ = naive_noise.complete_samples(lambda tape: naive_noise.gaussian(sigma_squared, tape), data, 1000)
    assert len(expected) == 1000
    assert sampling.discrete_gaussian(sigma_squared, 1000, Whole(data)).tolist() == expected


@given(
    st.integers(1, (1 << 48) - 1),
    st.integers(1, (1 << 48) - 1),
    st.binary(min_size=8, max_size=8),
)
def test_laplace_of_any_scale_the_limits_allow_is_its_twins(numerator: int, denominator: int, context: bytes) -> None:
    scale = min(Fraction(numerator, denominator), Fraction(sampling.MAX_LAPLACE_SCALE))
    data = stream(4000, context)
    expected, _ = naive_noise.complete_samples(lambda tape: naive_noise.laplace(scale, tape), data, 20)
    assert sampling.discrete_laplace(scale, len(expected), Whole(data)).tolist() == expected
    assert len(expected) == 20


@given(st.integers(1, (1 << 49) - 1), st.integers(1, 256), st.binary(min_size=8, max_size=8))
def test_gaussian_of_any_variance_the_limits_allow_is_its_twins(
    numerator: int, denominator: int, context: bytes
) -> None:
    sigma_squared = min(Fraction(numerator, denominator), Fraction(sampling.MAX_SIGMA_SQUARED))
    sigma_squared = max(sigma_squared, sampling.MIN_SIGMA_SQUARED)
    data = stream(8000, context)
    expected, _ = naive_noise.complete_samples(lambda tape: naive_noise.gaussian(sigma_squared, tape), data, 20)
    assert sampling.discrete_gaussian(sigma_squared, len(expected), Whole(data)).tolist() == expected
    assert len(expected) == 20


# --- replay: the end of a buffer changes nothing --------------------------------------------------------------

SAMPLERS: dict[str, tuple[Callable[[int, BitSource], NDArray[np.int64]], Callable[[Tape], int | None]]] = {
    "Laplace 1/3": (
        lambda size, bits: sampling.discrete_laplace(Fraction(1, 3), size, bits),
        lambda tape: naive_noise.laplace(Fraction(1, 3), tape),
    ),
    "Laplace 40": (
        lambda size, bits: sampling.discrete_laplace(Fraction(40), size, bits),
        lambda tape: naive_noise.laplace(Fraction(40), tape),
    ),
    "Gaussian 25/2": (
        lambda size, bits: sampling.discrete_gaussian(Fraction(25, 2), size, bits),
        lambda tape: naive_noise.gaussian(Fraction(25, 2), tape),
    ),
    "Gaussian 10^6": (
        lambda size, bits: sampling.discrete_gaussian(Fraction(10**6), size, bits),
        lambda tape: naive_noise.gaussian(Fraction(10**6), tape),
    ),
}


EACH = [
    *(sampling.laplace_table(scale) for scale in (Fraction(1, 3), Fraction(40), Fraction(10**6))),
    *(sampling.gaussian_table(variance) for variance in (Fraction(25, 2), Fraction(10**6))),
]


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("longest", [1, 2, 3, 7, 64])
def test_bytes_in_tiny_pieces_make_the_same_samples_as_all_at_once(name: str, longest: int) -> None:
    sampler, twin = SAMPLERS[name]
    data = stream(20_000, name.encode())
    expected, used = naive_noise.complete_samples(twin, data, 300)
    pieces = Given(data, longest)
    assert sampler(300, pieces).tolist() == expected
    assert pieces.at < used + longest  # and no sample took more than its own bytes


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_buffer_may_end_at_every_single_byte(name: str) -> None:
    sampler, twin = SAMPLERS[name]
    data = stream(3000, b"every end" + name.encode())
    whole, _ = naive_noise.complete_samples(twin, data, 40)
    for cut in range(1, 500):
        bits = _TwoParts(data, cut)
        assert sampler(40, bits).tolist() == whole


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(400)])
def test_a_table_out_of_bytes_reports_only_the_samples_it_has_in_full(scale: Fraction) -> None:
    more = as_buffer(stream(201, b"cut"))
    for cut in range(200):
        data = more[:cut].tobytes()
        out = np.full(150, 99, dtype=np.int64)
        drawn, used = sampling.laplace_table(scale).fill(out, more[:cut])  # a byte read behind its end is no zero
        expected = naive_noise.complete_samples(functools.partial(naive_noise.laplace, scale), data, 150)
        assert (out[:drawn].tolist(), used) == expected, cut
        assert (out[drawn:] == 99).all(), cut


@pytest.mark.parametrize("table", EACH, ids=lambda table: str(table.shape))
def test_draws_of_many_sources_are_those_of_each(table: sampling.Table) -> None:
    """Also of one whose first round needs a third word, and of one with many words that draw nothing."""
    deep = int(table.words.second[-1])
    third = (len(table.words.first) + (deep >> 16)).to_bytes(2, "big") + (deep & 0xFFFF).to_bytes(2, "big")
    starts = [b"", third, b"\xff" * 300, b"", third * 2 + b"\xff" * 300, b""]
    data = [start + stream(5000, b"%d" % place) for place, start in enumerate(starts)]
    alone, together = ([Given(bytes_read) for bytes_read in data] for _ in range(2))
    expected = [sampling.draw(table.fill, 100, bits, table.bytes_for).tolist() for bits in alone]
    assert sampling.draw_each(table, 100, together).tolist() == expected
    assert [bits.at for bits in together] == [bits.at for bits in alone], "what follows, such as ids, is the same"


def test_no_source_or_no_sample_reads_nothing() -> None:
    table, bits = EACH[0], Given(b"")
    assert sampling.draw_each(table, 3, []).shape == (0, 3)
    assert sampling.draw_each(table, 0, [bits]).shape == (1, 0)
    assert sampling.draw(table.fill, 0, bits, table.bytes_for).shape == (0,)


class _TwoParts:
    """A stream whose first read ends at a chosen byte."""

    def __init__(self, data: bytes, cut: int) -> None:
        self.parts = [data[:cut], data[cut:]]

    def read(self, size: int) -> bytes:
        assert size > 0
        return self.parts.pop(0)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_longer_draw_begins_with_the_shorter_one(name: str) -> None:
    sampler, _ = SAMPLERS[name]
    long = sampler(5000, KeyedBits(SECRET, b"long"))
    for size in (0, 1, 17, 4999):
        assert np.array_equal(sampler(size, KeyedBits(SECRET, b"long")), long[:size])


def test_draws_larger_than_one_request_read_on() -> None:
    size = 1_000_000  # they take more than one request of 4 MiB
    data = KeyedBits(SECRET, b"large").read(1 << 25)
    bits = Given(data)
    samples = sampling.discrete_laplace(Fraction(40), size, bits)
    assert bits.reads[0] == 1 << 22
    assert len(bits.reads) > 1
    assert np.array_equal(samples, sampling.discrete_laplace(Fraction(40), size, Whole(data[: bits.at])))


# --- limits ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (Fraction(0), "outside"),
        (Fraction(-1), "outside"),
        (Fraction((1 << 32) + 1), "coarser resolution"),
        (Fraction(1 << 48, 3), "coarser resolution"),
        (Fraction(1, 1 << 48), "48-bit"),
        (Fraction((1 << 48) + 1, 1 << 20), "48-bit"),
    ],
    ids=str,
)
def test_a_laplace_scale_outside_the_limits_is_refused_before_a_bit_is_read(scale: Fraction, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        sampling.discrete_laplace(scale, 1, Given(b"", 1))


@pytest.mark.parametrize(
    ("sigma_squared", "message"),
    [
        (Fraction(0), "outside"),
        (Fraction(-4), "outside"),
        (Fraction((1 << 48) + 1), "coarser resolution"),
        (Fraction(1, 257), "outside"),
        (Fraction(1000, 257), "8-bit"),
        (Fraction((1 << 50) + 1, 256), "48-bit"),
    ],
    ids=str,
)
def test_a_gaussian_variance_outside_the_limits_is_refused_before_a_bit_is_read(
    sigma_squared: Fraction, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        sampling.discrete_gaussian(sigma_squared, 1, Given(b"", 1))


def test_the_limits_themselves_are_allowed() -> None:
    bits = KeyedBits(SECRET, b"limits")
    for scale in (Fraction(1 << 32), Fraction(1, (1 << 48) - 1), Fraction((1 << 48) - 1, 1 << 16)):
        assert sampling.discrete_laplace(scale, 3, bits).shape == (3,)
    for sigma_squared in (Fraction(1 << 48), Fraction(193, 256), Fraction((1 << 49) - 1, 256)):
        assert sampling.discrete_gaussian(sigma_squared, 3, bits).dtype == np.int64


def test_a_scale_far_below_one_gives_zeros() -> None:
    assert not sampling.discrete_laplace(Fraction(1, 1 << 40), 500, KeyedBits(SECRET, b"zeros")).any()


# --- sources of bits ------------------------------------------------------------------------------------------


def test_keyed_bits_are_the_published_function_of_secret_and_context() -> None:
    context = b"pipeline 7, key JFK"
    blocks = [
        hashlib.shake_256(
            b"streamsketch.noise.3" + SECRET + hashlib.sha512(context).digest() + i.to_bytes(8, "little")
        ).digest(4096)
        for i in range(3)
    ]
    assert KeyedBits(SECRET, context).read(3 * 4096) == b"".join(blocks)


def test_keyed_bits_are_equal_for_equal_secret_and_context_and_differ_otherwise() -> None:
    same = KeyedBits(SECRET, b"a").read(64)
    assert KeyedBits(SECRET, b"a").read(64) == same
    others = [
        KeyedBits(SECRET, b"b").read(64),
        KeyedBits(SECRET, b"").read(64),
        KeyedBits(SECRET, b"a\0").read(64),
        KeyedBits(SECRET[::-1], b"a").read(64),
        KeyedBits(SECRET[:31] + b"\0", b"a").read(64),
    ]
    assert len({same, *others}) == 6


@pytest.mark.parametrize(
    "sizes", [[1] * 300, [4095, 2, 4096, 1], [0, 5, 0, 4091, 0, 8192], [400, 8, 3000, 900], [200_000]]
)
def test_keyed_bits_do_not_depend_on_how_they_are_read(sizes: list[int]) -> None:
    bits = KeyedBits(SECRET, b"sizes")
    parts = [bits.read(size) for size in sizes]
    assert [len(part) for part in parts] == sizes
    assert b"".join(parts) == KeyedBits(SECRET, b"sizes").read(sum(sizes))


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_keyed_bits_cannot_be_pickled_or_copied(duplicate: Callable[[object], object]) -> None:
    bits = KeyedBits(SECRET, b"a")
    with pytest.raises(TypeError, match="holds a secret"):
        duplicate(bits)


def test_keyed_bits_never_show_their_secret() -> None:
    secret = b"correct horse battery staple 123"
    bits = KeyedBits(secret, b"a")
    bits.read(5)
    for text in (repr(bits), str(bits), f"{bits}"):
        assert "horse" not in text
        assert secret.hex() not in text
    with pytest.raises(InvalidInputError, match="32 bytes, got 33") as refused:
        KeyedBits(secret + b"4", b"a")
    assert "horse" not in str(refused.value)


@pytest.mark.parametrize("length", [0, 16, 31, 33, 64])
def test_a_secret_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(InvalidInputError, match=r"secrets\.token_bytes\(32\)"):
        KeyedBits(bytes(length), b"a")


def test_system_bits_are_fresh_bytes_of_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    bits = SystemBits()
    first, second = bits.read(32), bits.read(32)
    assert len(first) == len(second) == 32
    assert first != second
    assert vars(bits) == {}  # no buffer that could survive a fork
    monkeypatch.setattr("os.urandom", lambda size: b"u" * size)
    assert bits.read(5) == b"uuuuu"
