r"""One noise for five parties: five processes publish the sum of their sketches, and none sees another's flights.

Each process reads a fifth of New York's flights of 2013, in the order of their airport of departure. It sketches them,
and keeps its keys and its sketch. The processes exchange bytes by pipes: public keys, the round that all sign, and one
contribution each. The sum of the contributions is a release with the noise of one. The demonstration compares it with
five releases that are merged, and with one release of all flights, which a single holder could make.

    python -m pipelines.parties_demo --input pipelines/data/flights.parquet
"""

import argparse
import dataclasses
import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import streamsketch as ss
from streamsketch.parties import Key, PublicKey, Round

NAMES = ("Ann", "Bob", "Cem", "Dora", "Eve")
NEIGHBOURS = ss.L1(1, unit="flight")
BY = ["route", "scheduled_hour"]  # a route is "EWR-IAH": the airport first


class Sent(NamedTuple):
    """What one party sent, as the one that adds up sees it."""

    airports: str
    flights: int
    release: bytes
    contribution: bytes
    seconds: float
    """Spent on the contribution."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; return the exit status."""
    parser = argparse.ArgumentParser(description="One noise for five parties in five processes.")
    parser.add_argument("--input", type=Path, required=True, help="Parquet file with columns route and scheduled_hour")
    parser.add_argument("--epsilon", type=float, default=1.0, help="privacy loss bound of each release")
    parser.add_argument("--sketch-dim", type=int, default=1 << 16, help="cells of a sketch")
    options = parser.parse_args(arguments)
    console = Console()
    try:
        return demonstrate(options.input, options.epsilon, options.sketch_dim, console)
    except (ss.StreamsketchError, OSError, pa.ArrowException) as error:
        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        return 2


def demonstrate(path: Path, epsilon: float, sketch_dim: int, console: Console) -> int:
    """Play all parties, and print what came of it; return the exit status."""
    agreement = ss.Agreement(
        ss.SJLT(sketch_dim=sketch_dim, sparsity=4, seed=2013),
        index={"route": "text", "scheduled_hour": "timestamp"},
        neighbours=NEIGHBOURS,
        title="departures from New York",
    )
    whole = sketch_of(pq.read_table(path, columns=BY), agreement)  # nobody in a real exchange could hold all flights
    central = whole.release(epsilon=epsilon, neighbours=NEIGHBOURS)
    started = time.perf_counter()
    with console.status("Five parties sketch, sign and contribute"):
        agreed, sent = play(path, agreement, epsilon)
    begun = time.perf_counter()
    together = agreed.combine(party.contribution for party in sent)
    spent = time.perf_counter() - begun
    merged, *others = [ss.PrivateSketch.from_bytes(party.release, expect=agreement) for party in sent]
    for other in others:
        merged = merged.combine(other, populations="disjoint")
    show_parties(console, sent)
    show_errors(
        console, {"five releases, merged": merged, "one round of five": together, "one party with all": central}, whole
    )
    console.print(f"The round: {together.guarantee}.", highlight=False)
    console.print(
        f"Whoever adds up sees five vectors of random words, and their sum, in {1000 * spent:.0f} ms. "
        f"In all {time.perf_counter() - started:.1f} s.",
        highlight=False,
    )
    return 0


def play(path: Path, agreement: ss.Agreement, epsilon: float) -> tuple[Round, list[Sent]]:
    """Return the round that five processes agreed on, and what each of them sent; each holds its own flights."""
    context = multiprocessing.get_context("spawn")  # a process of its own, not a copy with the others' memory
    pipes = [context.Pipe() for _ in NAMES]
    ends = [ours for ours, _ in pipes]
    parties = [
        context.Process(target=take_part, args=(theirs, place, path, agreement.to_json(), epsilon))
        for place, (_, theirs) in enumerate(pipes)
    ]
    for party, (_, theirs) in zip(parties, pipes, strict=True):
        party.start()
        theirs.close()
    try:
        keys = [PublicKey.from_text(end.recv_bytes().decode()) for end in ends]
        agreed = Round(agreement.projection, epsilon=epsilon, neighbours=NEIGHBOURS, parties=keys)
        send_round(ends, agreed)
        signed = [Round.from_json(end.recv_bytes()) for end in ends]
        signatures = [mark for reply in signed for mark in reply.signatures or ()]
        complete = dataclasses.replace(agreed, signatures=signatures)
        send_round(ends, complete)
        return complete, [received(end) for end in ends]
    except (EOFError, ConnectionError):
        raise ss.InvalidInputError("a party has left the round; its own error is shown above") from None
    finally:
        for end in ends:
            end.close()  # which ends parties that still wait
        for party in parties:
            party.join()


def take_part(pipe: Connection, place: int, path: Path, agreement_json: str, epsilon: float) -> None:
    """Run one party: read and sketch its own flights, sign the round, and contribute; data leave only by the pipe."""
    key, agreement = Key.generate(NAMES[place]), ss.Agreement.from_json(agreement_json)
    pipe.send_bytes(key.public.to_text().encode())
    rows = share_of(path, place)
    sketch = sketch_of(rows, agreement)
    agreed = Round.from_json(pipe.recv_bytes())
    # in earnest: compare the keys' fingerprints by telephone before signing, too
    agreed.projection.check_same(agreement.projection)
    if (agreed.epsilon, agreed.neighbours) != (epsilon, NEIGHBOURS):
        raise ss.InvalidInputError(f"the round is for {agreed.guarantee}, which is not what this party agreed on")
    pipe.send_bytes(agreed.signed(key).to_json().encode())
    complete = Round.from_json(pipe.recv_bytes())
    begun = time.perf_counter()
    contribution = complete.contribute(sketch, key)
    seconds = time.perf_counter() - begun
    airports = ", ".join(sorted({route[:3] for route in rows.column("route").unique().to_pylist()}))
    release = sketch.release(epsilon=epsilon, neighbours=NEIGHBOURS)
    for part in (airports.encode(), b"%d" % rows.num_rows, release.to_bytes(), contribution, repr(seconds).encode()):
        pipe.send_bytes(part)
    pipe.close()


def send_round(ends: list[Connection], agreed: Round) -> None:
    """Send a round to all parties."""
    for end in ends:
        end.send_bytes(agreed.to_json().encode())


def received(end: Connection) -> Sent:
    """Return what a party sent."""
    airports, flights, release, contribution, seconds = (end.recv_bytes() for _ in range(5))
    return Sent(airports.decode(), int(flights), release, contribution, float(seconds))


def share_of(path: Path, place: int) -> pa.Table:
    """Return one party's flights: a fifth, in the order of the airports they leave from."""
    rows = pq.read_table(path, columns=BY)
    rows = rows.take(pc.sort_indices(rows.column("route").cast(pa.string())))
    first, last = (rows.num_rows * end // len(NAMES) for end in (place, place + 1))
    return rows.slice(first, last - first)


def sketch_of(rows: pa.Table, agreement: ss.Agreement) -> ss.Sketch:
    """Return the sketch of flights by route and hour."""
    sketch = ss.sketch(rows, agreement)
    assert isinstance(sketch, ss.Sketch)  # noqa: S101 - the agreement has no key
    return sketch


def show_parties(console: Console, sent: list[Sent]) -> None:
    """Print what each party held and sent."""
    table = Table(title="Five processes, and bytes between them", title_justify="left", box=box.SIMPLE_HEAD)
    for name, side in (
        ("party", "left"),
        ("flights from", "left"),
        ("flights", "right"),
        ("sent", "right"),
        ("in", "right"),
    ):
        table.add_column(name, justify=side, no_wrap=True)  # type: ignore[arg-type] # "left" or "right"
    for name, party in zip(NAMES, sent, strict=True):
        size, spent = f"{len(party.contribution) / 1e3:,.0f} kB", f"{1000 * party.seconds:.0f} ms"
        table.add_row(name, party.airports, f"{party.flights:,}", size, spent)
    console.print(table)


def show_errors(console: Console, releases: dict[str, ss.PrivateSketch], whole: ss.Sketch) -> None:
    """Print how far releases are from the sketch of all flights, beside what their noise lets expect."""
    table = Table(title="Squared error of a cell", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("published", no_wrap=True)
    for name in ("measured", "expected", "in noises of one", "squared norm"):
        table.add_column(name, justify="right", no_wrap=True)
    variance = releases["one party with all"].noise.k2
    for name, release in releases.items():
        error = float(((release.values - whole.state()).astype(np.float64) ** 2).mean())
        norm = ss.squared_norm(release)
        table.add_row(name, f"{error:.2f}", f"{release.noise.k2:.2f}", f"{error / variance:.2f}", str(norm))
    console.print(table)


if __name__ == "__main__":
    raise SystemExit(main())
