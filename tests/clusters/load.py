"""Streams under load on a cluster of this machine: how fast, how late, and whether anything grows.

    python -m tests.clusters.load backlog [--events 10000000] [--format arrow|json] [--count-alone]
    python -m tests.clusters.load soak [--minutes 60] [--rate 750000] [--interval 1000]

*backlog* fills a topic and then starts the job with one slot; events a second are those between the first window and
the last, and beside them is the processor time of each process. *soak*, in `soak`, feeds a running job at a steady
rate. Events have 10 keys, 100,000 units, each bounded to two keys, and 10,000 indices. Options that neither knows go to
Beam. ``--out FILE`` keeps the figures as JSON.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.clusters.feed import DELAY, ROWS, WINDOW, Events, Stream
from tests.clusters.processes import STOPPING, StartError
from tests.clusters.soak import soak

_WINDOWS = 20


def backlog(jars: Path, console: Console, *, events: int, form: str, **how: Any) -> dict[str, Any]:
    """Let a job work off a topic; return what was seen."""
    batches = max(1, events // _WINDOWS // ROWS)
    made, first = Events(form), 1_356_998_400
    with (
        tempfile.TemporaryDirectory(prefix="load-", ignore_cleanup_errors=True) as name,
        Stream(jars, Path(name), form, **how) as stream,
    ):
        for window in range(_WINDOWS):
            start = first + WINDOW * window
            for _ in range(batches):
                for message in made.messages(start):
                    stream.writer.write(0, start * 1000, message)
        stream.writer.flush()
        console.print(f"{_WINDOWS * batches * ROWS:,} events are in the topic; starting the job")
        stream.launch(first)
        end, began = first + WINDOW * _WINDOWS + DELAY, 0
        while len((late := stream.late()).starts) < _WINDOWS:
            end += 1
            stream.heartbeat(end)
            if late.starts and not began:
                began, before = len(late.starts), stream.usage()
            time.sleep(0.2)
        after = stream.usage()
    seconds = late.released[-1] - late.released[0]
    each = 1e9 / ((_WINDOWS - began) * batches * ROWS) if began else 0.0
    return {
        "events_a_second": (_WINDOWS - 1) * batches * ROWS / seconds,
        "seconds": seconds,
        "processor_ns_an_event": {name: each * (after[name].seconds - before[name].seconds) for name in after},
    }


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.clusters.load", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("what", choices=["backlog", "soak"])
    parser.add_argument("--jars", type=Path, default=Path(".flink/lib"), metavar="DIR", help="(default .flink/lib)")
    parser.add_argument("--events", type=int, default=10_000_000, help="of a backlog (default 10,000,000)")
    parser.add_argument("--format", choices=["arrow", "json"], default="arrow", help="of messages (default arrow)")
    parser.add_argument("--count-alone", action="store_true", help="count events by key, without sketches or bounds")
    parser.add_argument("--minutes", type=float, default=60, help="of a soak (default 60)")
    parser.add_argument("--rate", type=int, default=750_000, help="events a second of a soak (default 750,000)")
    parser.add_argument("--interval", type=int, default=1000, help="ms between checkpoints (default 1000)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep the figures as JSON")
    known, rest = parser.parse_known_args(arguments)
    console = Console()
    how: dict[str, Any] = {"form": known.format, "options": rest, "interval": known.interval}
    try:
        if known.what == "soak":
            found = soak(known.jars, console, minutes=known.minutes, rate=known.rate, **how)
        else:
            found = backlog(known.jars, console, events=known.events, count_alone=known.count_alone, **how)
            console.print(f"{found['events_a_second']:,.0f} events a second")
            console.print_json(data=found["processor_ns_an_event"])
    except StartError as error:
        console.print(f"error: {error}", style="red", markup=False)
        return 2
    except KeyboardInterrupt:
        console.print("Ended; nothing is left running.")
        return 130
    if known.out is not None:
        asked = {name: getattr(known, name) for name in ("format", "count_alone", "events", "rate", "interval")}
        title = f"Streams: {known.what} of {'rows of JSON' if known.format == 'json' else 'Arrow batches'}"
        text = json.dumps({"title": title, "asked": asked, **found}, indent=2)
        known.out.parent.mkdir(parents=True, exist_ok=True)
        known.out.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    for number in STOPPING - {signal.SIGINT}:
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    sys.exit(main())
