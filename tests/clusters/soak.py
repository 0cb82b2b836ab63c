"""A stream fed at a steady rate: how late its windows are released, and whether anything grows."""

import contextlib
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import stats

from tests.clusters.feed import DELAY, ROWS, WINDOW, Events, Late, Stream

_BEAT = 0.05  # seconds between heartbeats
_SAMPLES, _BLOCKS = 60, 10
_KEEP = 4 << 30  # bytes of the topic; an hour at full speed writes more than 200 GB
FLAT = 0.05
"""What may be gained in an hour, as a share of the mean."""


class Trend(NamedTuple):
    """By how much something grows in an hour, with a 95 % interval; NaN where the run was too short to say."""

    mean: float
    slope: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Whether it is flat: all of the interval is below a twentieth of the mean an hour."""
        if np.isnan(self.slope):
            return "too short to say"
        if self.high <= FLAT * self.mean:
            return "flat"
        return "grows" if self.low > 0 else "not known to be flat"


def soak(
    jars: Path,
    console: Console,
    *,
    minutes: float,
    rate: int,
    form: str = "arrow",
    options: Sequence[str] = (),
    interval: int = 1000,
) -> dict[str, Any]:
    """Feed a job for so many minutes, or until Ctrl-C; return what was seen.

    A window's delay is from its end, and the allowed delay, to when its last key was there.
    """
    made, samples, late = Events(form), [], Late([], [])
    with (
        tempfile.TemporaryDirectory(prefix="load-", ignore_cleanup_errors=True) as name,
        Stream(jars, Path(name), form, options, interval=interval, lasting=minutes > 5, keep=_KEEP) as stream,
    ):
        began = int(time.time()) // WINDOW * WINDOW + WINDOW
        stream.launch(began)
        every = max(10.0, 60 * minutes / _SAMPLES)
        written, upcoming, now = 0, began + every, time.time()
        with contextlib.suppress(KeyboardInterrupt):
            while now < began + 60 * minutes:
                while written < rate * (now - began):
                    start = int(now) // WINDOW * WINDOW
                    for message in made.messages(start):
                        stream.writer.write(0, start * 1000, message)
                    written += ROWS
                stream.heartbeat(now)
                time.sleep(_BEAT)
                if now > upcoming:
                    upcoming, late = upcoming + every, stream.late()
                    samples.append(_sample(stream, late, (now - began) / 60, written))
                    console.print(_line(samples[-1]))
                now = time.time()
            late = stream.late()
    found = _found(samples, _delays(late), interval)
    _show(console, found)
    return {"rate": rate, **found}


def _delays(late: Late) -> list[float]:
    """Return the delays of windows, without those that waited for the job to start and to catch up."""
    live = late.released[0] + 2 * WINDOW if late.released else 0.0
    ends = [start + WINDOW + DELAY for start in late.starts]
    return [at - end for end, at in zip(ends, late.released, strict=True) if end > live]


def _sample(stream: Stream, late: Late, minutes: float, written: int) -> dict[str, Any]:
    usage, checkpoints, delays = stream.usage(), stream.checkpoints(), _delays(late)
    recent = delays[-12:]
    # a checkpoint grows as its window fills, so that of one moment says little: ten, a second apart, are a whole window
    sizes, times = ([one[name] for one in checkpoints] for name in ("state_size", "end_to_end_duration"))
    return {
        "minutes": round(minutes, 2),
        "events": written,
        "windows": len(late.starts),
        "p50_seconds": float(np.quantile(recent, 0.5)) if recent else None,
        "p99_seconds": float(np.quantile(recent, 0.99)) if recent else None,
        "memory_mb": {name: round(one.memory / 2**20, 1) for name, one in usage.items()},
        "checkpoint_kb": round(float(np.mean(sizes)) / 1024, 1) if sizes else None,
        "checkpoint_ms": round(float(np.mean(times))) if times else None,
    }


def _line(sample: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sample.items())


def _found(samples: list[dict[str, Any]], delays: list[float], interval: int) -> dict[str, Any]:
    settled = samples[len(samples) // 4 :]
    series = {
        "memory of all processes, MB": [(one["minutes"], sum(one["memory_mb"].values())) for one in settled],
        "checkpoint, kB": [(one["minutes"], one["checkpoint_kb"]) for one in settled if one["checkpoint_kb"]],
    }
    trends = {name: trend(points) for name, points in series.items()}
    p50, p99 = np.quantile(delays, [0.5, 0.99]).tolist() if delays else (None, None)
    return {
        "samples": samples,
        "windows": len(delays),
        "p50_seconds": p50,
        "p99_seconds": p99,
        "p99_intervals": p99 and 1000 * p99 / interval,
        "delays": [round(delay, 2) for delay in delays],
        "trends": {name: {**one._asdict(), "verdict": one.verdict} for name, one in trends.items()},
    }


def trend(points: Sequence[tuple[float, float]]) -> Trend:
    """Return the growth an hour of (minutes, value): the slope of ten means, as neighbours in time are alike."""
    times, values = np.array(points, dtype=float).reshape(-1, 2).T
    mean = float(values.mean()) if values.size else np.nan
    if values.size < _BLOCKS:
        return Trend(mean, np.nan, np.nan, np.nan)
    blocks = [[part.mean() for part in np.array_split(one, _BLOCKS)] for one in (times / 60, values)]
    line = stats.linregress(*blocks)
    half = stats.t.ppf(0.975, _BLOCKS - 2) * line.stderr
    return Trend(mean, float(line.slope), float(line.slope - half), float(line.slope + half))


def _show(console: Console, found: dict[str, Any]) -> None:
    if found["p99_seconds"] is not None:
        console.print(
            f"delay of {found['windows']} windows: p50 {found['p50_seconds']:.2f} s, p99 {found['p99_seconds']:.2f} s, "
            f"{found['p99_intervals']:.2f} checkpoint intervals"
        )
    table = Table("", "merge", "--mean", "growth an hour", "95 % interval", "")
    for name, one in found["trends"].items():
        low, high = f"{one['low']:+.1f}", f"{one['high']:+.1f}"
        table.add_row(name, f"{one['mean']:.1f}", f"{one['slope']:+.1f}", f"{low} to {high}", one["verdict"])
    console.print(table)
