"""The square root of the matrix of prefix sums: every prefix has about the same little noise."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from streamsketch.core import sentences
from streamsketch.core.numbers import Floats, Ints, check_int
from streamsketch.errors import InvalidInputError
from streamsketch.kernels.schedules import least_upper
from streamsketch.privacy.schedule import MOST_WINDOWS, SCHEDULES, Norms, Schedule, toeplitz_norms

_LEAST_BITS = 4  # that a publisher takes by itself; fewer cost accuracy
_MOST_BITS = 12  # so that the sums of `toeplitz_norms` stay below 2^62: 4096 · 2·sqrt(100000/π) is below 2^21


@dataclasses.dataclass(frozen=True, kw_only=True)
class Factorisation(Schedule):
    """Weighted sums of all windows so far, by the square root of the matrix of prefix sums.

    A window that is n windows old has the weight C(2n, n)/4^n, times 2^bits and rounded. Older windows are held as
    blocks of 1, 2, 4, … windows with the mean weight, so that few exact sums are kept. It is for Gaussian noise: a
    window is in all later rows, so its ℓ1 norm is large.

    Source: Fichtenberger, Henzinger and Upadhyay, "Constant matters", ICML 2023, for the square root; Andersson and
    Pagh, "Streaming private continual counting via binning", 2024, for blocks; Denisov et al. 2022 for rows as what is
    released.

    Parameters
    ----------
    horizon, max_windows, gap
        As in `Schedule`.
    blocks
        The largest number of blocks of each size that are held, 2 or more. For a year of hours, 8 blocks of each size
        make 80 sums, with a worst error 4 % above that of keeping all windows.
    band
        Only the last ``band`` windows are held, each by itself, instead of blocks. This is best for ranges of about
        that length anywhere in the stream, and worse for long ranges.
    bits
        Weights are multiples of 2^-bits, with bits from 1 to 12. Cells are larger by that factor, and so is their
        noise. Where it would be wider than any that can be drawn, `AdditiveNoise` takes fewer bits, down to 4, which
        the guarantee states: for a year of days, the worst error is then 1.08 times that of 8 bits. Sums are larger,
        too: a row of 2^63 steps or more wraps around, as cells do, but its ranges then cannot be solved for. If a
        stream's cells reach 2^63 steps over √horizon · 2^bits, use a `Tree`.

    Examples
    --------
    >>> schedule = Factorisation(horizon=365)
    >>> round(schedule.worst_error(), 2), round(Factorisation(horizon=365, band=30).worst_error(30), 2)
    (2.99, 2.52)
    """

    blocks: int = 8
    band: int | None = None
    bits: int = 8

    kind = "factorisation"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_int(self.blocks, "blocks", 2, MOST_WINDOWS)
        check_int(self.bits, "the bits of weights", 1, _MOST_BITS)
        if self.band is not None:
            check_int(self.band, "the band", 1, MOST_WINDOWS)
            if self.band > self.horizon:
                raise InvalidInputError(f"band must be at most the horizon of {self.horizon} windows, got {self.band}")

    def coarser(self) -> "Factorisation | None":
        """Return the schedule with one bit less, while its error stays near that of exact weights."""
        return dataclasses.replace(self, bits=self.bits - 1) if self.bits > _LEAST_BITS else None

    @property
    def scale(self) -> int:
        """2^bits."""
        return 1 << self.bits

    @property
    def most_blocks(self) -> int:
        """For each window, the band, or ``blocks`` of each size that fits the horizon."""
        sizes = (self.horizon // self.blocks).bit_length() + 1
        return self.horizon * min(self.horizon, self.band or self.blocks * sizes)

    @property
    def words(self) -> str:
        """What kind of schedule it is."""
        if self.band:
            return sentences.ROOT_BAND.format(windows=self.band)
        return sentences.ROOT_BLOCKS.format(blocks=self.blocks)

    def rows(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield starts and coefficients of each row's blocks; see `Schedule.rows`."""
        if self.band is not None:
            rounded = self._rounded(_root(self.band))[::-1]
            for window in range(self.horizon):
                first = max(0, window - self.band + 1)
                yield np.arange(first, window + 1), rounded[self.band - (window + 1 - first) :]
            return
        summed = (
            2 * np.arange(self.horizon + 2) * _root(self.horizon + 2)
        )  # of the weights of the first n lags, exactly
        sizes: list[list[int]] = [[]]  # the starts of the blocks of 1, 2, 4, … windows, oldest first
        for window in range(self.horizon):
            sizes[0].append(window)
            size = 0
            while len(sizes[size]) > self.blocks:
                start = sizes[size].pop(0)
                sizes[size].pop(0)
                size += 1
                if size == len(sizes):
                    sizes.append([])
                sizes[size].append(start)
            starts = np.array([start for group in reversed(sizes) for start in group])
            oldest, newest = window + 1 - starts, window + 1 - np.append(starts[1:], window + 1)
            yield starts, self._rounded((summed[oldest] - summed[newest]) / (oldest - newest))

    def _rounded(self, weights: Floats) -> Ints:
        return np.rint(weights * self.scale).astype(np.int64)

    def largest_norms(self) -> Norms:
        """Return `Schedule.norms`."""
        held = self.row_blocks
        rows = np.repeat(np.arange(self.horizon), np.diff(held.offsets))
        stops = np.append(held.starts[1:], 0)
        stops[held.offsets[1:] - 1] = np.arange(1, self.horizon + 1)
        columns = []
        for values in (held.coefficients, held.coefficients**2):
            steps = np.zeros(self.horizon + 1, dtype=np.int64)
            np.add.at(steps, held.starts, values)
            np.subtract.at(steps, stops, values)
            columns.append(int(np.cumsum(steps).max()))
        if self.most == 1:
            return Norms(columns[0], columns[1], columns[1])
        order = np.argsort(-held.coefficients, kind="stable")
        lows, highs = rows + 1 - stops, rows + 1 - held.starts
        envelope = np.zeros(self.horizon, dtype=np.int64)
        least_upper(held.coefficients[order], lows[order], highs[order], self.horizon, envelope)
        falling = np.maximum.accumulate(envelope[::-1])[::-1]
        return toeplitz_norms(falling, (columns[0], columns[1]), self)


SCHEDULES.enter(Factorisation.kind, Factorisation)


def _root(count: int) -> Floats:
    """Return C(2n, n)/4^n for n from 0, each from the one before: float64, (count,), the same bits everywhere."""
    lags = np.arange(1.0, count)
    return np.cumprod(np.append(1.0, (2 * lags - 1) / (2 * lags)))
