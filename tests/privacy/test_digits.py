"""The digits of noise's probabilities, the words that draw them, and their kernel: by enumeration, exactly."""

import functools
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from streamsketch.privacy import samplers
from streamsketch.privacy.probability_digits import Digits, Shape, digits, exponential
from streamsketch.privacy.samplers import KeyedBits, Table, draw_rounds
from tests.oracles import naive_noise
from tests.oracles.naive_noise import Law, Tape

LAPLACE = [Fraction(1, 1 << 40), Fraction(1, 3), Fraction(8), Fraction(159, 10), Fraction(355, 7), Fraction(1 << 32)]
GAUSSIAN = [Fraction(1, 2), Fraction(3), Fraction(256), Fraction(4097 * 256 - 1, 256), Fraction((1 << 49) - 1, 7)]

LAWS = [
    *((samplers.laplace_table(scale), naive_noise.laplace_law(scale)) for scale in LAPLACE),
    *((samplers.gaussian_table(variance), naive_noise.gaussian_law(variance)) for variance in GAUSSIAN),
]
BOTH = pytest.mark.parametrize(("table", "law"), LAWS, ids=[*map(str, LAPLACE), *(f"σ² {v}" for v in GAUSSIAN)])
NARROW = pytest.mark.parametrize(("table", "law"), [LAWS[1], LAWS[2], LAWS[7]], ids=["1/3", "8", "σ² 3"])
WIDE = pytest.mark.parametrize(("table", "law"), [LAWS[4], LAWS[9]], ids=["355/7", "σ² 4097"])


# --- exponentials ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [40, 128, 300])
def test_exponentials_lie_between_their_bounds(places: int) -> None:
    tenths = [Fraction(i, 10) for i in range(1, 400)]
    for x in [*tenths, Fraction(1, 1 << 60), Fraction(1, 2), Fraction((1 << 50) - 1, 7), Fraction(200), Fraction(1000)]:
        low, error = exponential(x, places)
        with mpmath.workdps(120):
            exact = mpmath.exp(-naive_noise.as_mpf(x)) * mpmath.mpf(2) ** places
            assert low <= exact <= low + error
        assert error < 2**17


def test_an_exponential_of_zero_is_exact() -> None:
    assert exponential(Fraction(0), 100) == (1 << 100, 0)


# --- digits ---------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("level", [1, 2, 3, pytest.param(5, marks=pytest.mark.long)])
def test_digits_are_those_of_exponentials_to_60_places(table: Table, law: Law, level: int) -> None:
    blocks, bound = naive_noise.level_of(law, level)
    ours = digits(table.shape, table.c, level)
    assert list(enumerate(ours.counts, ours.lowest)) == blocks
    assert ours.rest == bound


def test_too_few_guard_bits_are_doubled_until_they_decide() -> None:
    sound = digits(Shape(1, 8, 1, 0), 4078, 2)
    assert digits(Shape(1, 8, 1, 0), 4078, 2, guard=1) == sound


@functools.cache
def mass(law: Law) -> mpmath.mpf:
    """Return all masses together, to one in 10^20: a block's exponent grows by 1/16 or more from one to the next."""
    reach = 1500
    assert law.exponent(law.anchor(reach)) > 90
    return mpmath.fsum(
        law.c * mpmath.exp(-naive_noise.as_mpf(law.exponent(law.anchor(block)))) for block in range(-reach, reach)
    )


def left_over(law: Law, level: int) -> mpmath.mpf:
    """Return what the words of a level leave of all masses, in words of that level."""
    exact = mass(law)
    drawn = sum(naive_noise.words_of(law, block, level) for block, _ in naive_noise.level_of(law, level)[0])
    return exact * 2 ** (16 * (level - 1)) - drawn


@BOTH
@pytest.mark.parametrize("level", [1, 2])
def test_the_words_that_go_on_are_enough_for_what_is_left(table: Table, law: Law, level: int) -> None:
    words = table.words
    assert 0 <= left_over(law, level) <= (words.rest if level == 1 else words.second_rest)
    assert words.rest + words.first.size <= 1 << 16, "and they are there"
    assert words.second_rest + words.second[-1] <= words.rest << 16


@BOTH
def test_few_words_draw_nothing_or_need_a_third(table: Table, law: Law) -> None:
    del law
    nothing = (1 << 16) - table.words.first.size - table.words.rest
    assert nothing < 0.012 * (1 << 16)
    assert table.words.rest < 0.0085 * (1 << 16)
    assert table.words.second_rest < 1 << 10


# --- all first and second words -------------------------------------------------------------------------------


def drawn_by(table: Table, words: NDArray[np.uint32], size: int) -> tuple[Counter[int], int]:
    """Return how often the kernel draws each block from so many bytes, those of the words, and how often it wants more.

    It is asked for blocks alone, without what follows them.
    """
    chosen = words.astype(">u4").view(np.uint8).reshape(-1, 4)[:, 4 - size :]
    data, deep, found = np.frombuffer(chosen.tobytes(), dtype=np.uint8), 0, []  # read-only, as the library has it
    out = np.empty(words.size, dtype=np.int64)
    while data.size:
        drawn, used, third = draw_rounds(out, data, *table.words, 0, 0, 1, 1, 1)
        found.append(out[:drawn].copy())
        assert third or used == data.size
        deep += third
        data = data[used + size * third :]
    blocks, counts = np.unique(np.concatenate(found), return_counts=True)
    return Counter(dict(zip(blocks.tolist(), counts.tolist(), strict=True))), deep


def assert_exact(table: Table, law: Law) -> None:
    """Check the kernel on every first word that draws a block, and on every second word behind all that go on."""
    sure, rest = table.words.first.size, table.words.rest
    once, _ = drawn_by(table, np.arange(sure, dtype=np.uint32), 2)
    total = Counter({block: count << 16 for block, count in once.items()})
    deep = 0
    for word in range(sure, sure + rest):
        counts, third = drawn_by(table, np.arange(word << 16, (word + 1) << 16, dtype=np.uint32), 4)
        total, deep = total + counts, deep + third
    reach = max(map(abs, total)) + 2
    expected = {block: naive_noise.words_of(law, block, 2) for block in range(-reach, reach)}
    assert total == Counter({block: count for block, count in expected.items() if count})
    assert deep >= left_over(law, 2)


@pytest.mark.parametrize(
    ("table", "law"), [*LAWS[1:3], *LAWS[7:9], LAWS[4]], ids=["1/3", "8", "σ² 3", "σ² 256", "355/7"]
)
def test_two_words_draw_blocks_with_their_probabilities_exactly(table: Table, law: Law) -> None:
    """2^32 times the probability is enumerated: all streams of four bytes, together for what two of them decide."""
    assert_exact(table, law)


@pytest.mark.parametrize("change", ["a first word", "a second word", "a third word"])
def test_one_word_in_the_wrong_place_is_seen(change: str) -> None:
    table = Table(samplers.laplace_table(Fraction(1, 3)).shape)
    words = table.words
    if change == "a first word":
        moved = words.first.copy()
        moved[np.flatnonzero(moved == 1)[0]] = 0
        table.words = words._replace(first=moved)
    elif change == "a second word":
        cumulative = words.second.copy()
        cumulative[len(cumulative) // 2] += 1
        table.words = words._replace(second=cumulative)
    else:
        table.words = words._replace(second_rest=1)
    with pytest.raises(AssertionError):
        assert_exact(table, naive_noise.laplace_law(Fraction(1, 3)))


# --- coins within blocks ----------------------------------------------------------------------------------------


def stream_to(table: Table, block: int) -> bytes:
    """Return words that draw a block, the last of two that do."""
    words = table.words
    at = np.flatnonzero(words.first == block)
    if at.size:
        return int(at[0]).to_bytes(2, "big")
    return ((words.first.size << 16) + int(words.second[block - words.lowest]) - 1).to_bytes(4, "big")


@pytest.mark.parametrize(("table", "law"), [LAWS[4], LAWS[5], LAWS[9], LAWS[10]], ids=["355/7", "2^32", "4097", "2^46"])
def test_every_byte_of_a_coin_decides_as_the_twins_at_the_ends_of_all_blocks(table: Table, law: Law) -> None:
    size, seen = 1 << law.shift, 0
    for block in range(table.words.lowest, table.words.lowest + table.words.second.size, 7):
        words = stream_to(table, block)
        for low in {0, 1, size // 2, size - 1}:
            place = words + low.to_bytes(table.low_bytes, "big")
            for first in range(0, 256, 1 if block % 15 == 0 else 37):
                data = place + bytes([first]) + KeyedBits(bytes(32), place).read(60)
                expected, used = naive_noise.complete_samples(functools.partial(naive_noise.one_round, law), data, 1)
                out = np.empty(1, dtype=np.int64)
                assert table.fill(out, np.frombuffer(data, dtype=np.uint8)) == (1, used)
                assert out.tolist() == expected
                seen += 1
    assert seen > 1000


# --- more than two words ----------------------------------------------------------------------------------------


@pytest.fixture
def kept_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute the digits of a level once."""
    kept = functools.cache(digits)

    def known(shape: Shape, c: int, level: int) -> Digits:
        return kept(shape, c, level)

    monkeypatch.setattr(samplers, "digits", known)


def third_words(table: Table, law: Law) -> Iterator[bytes]:
    """Yield the first and last three words that draw each block by a third word, and those around the ends."""
    words, place = table.words, 0
    start = (words.first.size << 16) + int(words.second[-1])
    places = [0]
    for _, count in naive_noise.level_of(law, 3)[0]:
        place += count
        places += [place - 1, place]
    rest = naive_noise.level_of(law, 3)[1]
    places += [place + rest - 1, place + rest, (words.second_rest << 16) - 1]
    for each in places:
        yield ((start << 16) + each).to_bytes(6, "big")


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.long)])
@BOTH
@pytest.mark.usefixtures("kept_digits")
def test_third_and_later_words_draw_as_the_twin_does(table: Table, law: Law, every: int) -> None:
    """Where a block begins and where another ends, in turn."""
    seen: Counter[int] = Counter()
    found = list(third_words(table, law))
    for words in (*found[:-3:every], *found[-3:]):
        data = words + KeyedBits(bytes(32), words).read(40)
        tape = Tape(data)
        expected = naive_noise.one_round(law, tape)
        assert table.round(np.frombuffer(data, dtype=np.uint8), 0) == (expected, tape.at)
        seen[tape.at] += 1
    assert sum(seen.values()) >= 4


@NARROW
@pytest.mark.usefixtures("kept_digits")
def test_a_long_tie_goes_on_for_as_many_words_as_it_takes(table: Table, law: Law) -> None:
    """Words that go on and on, for six levels, and then any word."""
    start = (table.words.first.size << 16) + int(table.words.second[-1])
    for level in range(3, 7):
        start = (start << 16) + sum(count for _, count in naive_noise.level_of(law, level)[0])
    for last in (0, 1, 1 << 15, (1 << 16) - 1):
        data = ((start << 16) + last).to_bytes(14, "big") + bytes(10)
        tape = Tape(data)
        expected = naive_noise.one_round(law, tape)
        assert tape.at == 14
        assert table.round(np.frombuffer(data, dtype=np.uint8), 0) == (expected, 14)


@WIDE
@pytest.mark.usefixtures("kept_digits")
def test_rounds_of_many_words_stand_among_others_in_a_stream(table: Table, law: Law) -> None:
    around, deep = KeyedBits(bytes(32), b"around"), list(third_words(table, law))[::40]
    data = b"".join(around.read(37) + words for words in deep) + around.read(400)
    expected, used = naive_noise.complete_samples(functools.partial(naive_noise.one_round, law), data, 10_000)
    out = np.empty(len(expected) + 5, dtype=np.int64)
    assert table.fill(out, np.frombuffer(data, dtype=np.uint8)) == (len(expected), used)
    assert out[: len(expected)].tolist() == expected
    for cut in range(0, len(data) - 400, 37):
        whole, used = naive_noise.complete_samples(functools.partial(naive_noise.one_round, law), data[:cut], 10_000)
        assert table.fill(out, np.frombuffer(data[:cut], dtype=np.uint8)) == (len(whole), used)


# --- tables that are kept ---------------------------------------------------------------------------------------


def test_a_key_gives_the_noise_of_its_twin_whatever_other_threads_draw() -> None:
    """The same amounts for both laws, and more of them than are kept."""
    laws = [
        (sampler, twin, Fraction(n, 2))
        for sampler, twin in (
            (samplers.discrete_laplace, naive_noise.laplace),
            (samplers.discrete_gaussian, naive_noise.gaussian),
        )
        for n in range(10, 30)
    ]
    data = KeyedBits(bytes(32), b"same").read(500)
    expected = [naive_noise.complete_samples(functools.partial(twin, amount), data, 80)[0] for _, twin, amount in laws]
    assert len({tuple(samples) for samples in expected}) == len(laws)

    def draw(i: int) -> list[int]:
        sampler, _, amount = laws[i % len(laws)]
        return sampler(amount, 80, KeyedBits(bytes(32), b"same")).tolist()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(draw, range(5 * len(laws)))) == 5 * expected
        assert list(pool.map(draw, range(len(laws) - 1, -1, -1))) == expected[::-1]
