"""The ``streamsketch`` command."""

import sys
from itertools import combinations
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import streamsketch as ss
from streamsketch.commands.explain import explain
from streamsketch.commands.plan import plan
from streamsketch.estimate import rounded

app = typer.Typer(
    name="streamsketch",
    help="Private sketches of data streams: look at them, compare them.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)

app.command()(explain)
app.command()(plan)

_NOISE = {
    "output": "noise per cell",
    "input": "noise per coordinate",
    "hadamard": "noise after Hadamard",
}

Files = Annotated[list[Path], typer.Argument(help=".sketch files", metavar="FILE...")]


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        typer.echo(ss.__version__)
        raise typer.Exit


@app.callback()
def options(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    """Private sketches of data streams: look at them, compare them."""


@app.command()
def inspect(file: Annotated[Path, typer.Argument(help="a .sketch file", metavar="FILE")]) -> None:
    """Show what a private sketch holds and what it promises."""
    release = _load(file)
    projection = release.projection
    try:
        norm = ss.squared_norm(release)
    except ss.StreamsketchError as error:
        raise _mistake(f"{file} holds numbers beyond use: {error}") from None
    table = Table(box=box.SIMPLE, show_header=False, title=escape(str(file)), title_justify="left")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    facts = {
        "promise": str(release.guarantee),
        "projection": projection.to_json(),
        "fingerprint": projection.fingerprint,
        "cells": f"{projection.sketch_dim}, unit {release.unit:.6g}",
        _NOISE[release.noise_place]: f"standard deviation {release.noise.k2**0.5:.4g} grid steps",
        "squared norm": f"{norm}, 95 % interval {_interval(norm)}",
        "releases inside": str(len(release.release_ids)),
        "size": f"{file.stat().st_size:,} bytes",
    }
    for name, fact in facts.items():
        table.add_row(name, escape(fact))
    _show(table)


@app.command()
def compare(
    files: Files,
    confidence: Annotated[float, typer.Option(help="Confidence of the intervals, in (0, 1).")] = 0.95,
) -> None:
    """Estimate squared distances and cosines between private sketches, nearest pair first."""
    if len(files) < 2:
        raise _mistake(f"compare needs at least two files, got {len(files)}")
    releases = {file: _load(file) for file in files}
    if len(releases) < len(files):
        raise _mistake("a file is named twice; compare different releases")
    stems = [file.stem for file in files]
    names = {file: file.stem if stems.count(file.stem) == 1 else str(file) for file in files}
    try:
        pairs = [
            (ss.squared_distance(releases[first], releases[second]), first, second)
            for first, second in combinations(releases, 2)
        ]
        pairs.sort(key=lambda pair: pair[0].value)
        table = Table(box=box.SIMPLE_HEAD)
        table.add_column("pair", overflow="fold", min_width=13)
        for name in ("squared distance", "± s.e.", f"{100 * confidence:.4g} % interval", "cosine"):
            table.add_column(name, justify="right")
        for distance, first, second in pairs:
            table.add_row(
                escape(f"{names[first]} – {names[second]}"),
                rounded(distance.value, distance.standard_error),
                rounded(distance.standard_error, distance.standard_error),
                _interval(distance, confidence),
                _cosine(releases[first], releases[second]),
            )
    except ss.StreamsketchError as error:
        raise _mistake(str(error)) from None
    _show(table)


def _show(table: Table) -> None:
    console = Console()
    if not console.is_terminal:  # a pipe or a file has no edge to fold at
        console = Console(width=160)
    console.print(table)


def _load(file: Path) -> ss.PrivateSketch:
    try:
        return ss.load(file)
    except ss.WireFormatError as error:
        raise _mistake(f"{file} is not a sound private sketch: {error}") from None
    except OSError as error:
        raise _mistake(f"{file} cannot be read: {error.strerror}") from None


def _interval(estimate: ss.Estimate, confidence: float = 0.95) -> str:
    low, high = (rounded(end, estimate.standard_error) for end in estimate.interval(confidence))
    return f"{low} … {high}"


def _cosine(first: ss.PrivateSketch, second: ss.PrivateSketch) -> str:
    try:
        estimate = ss.cosine(first, second)
    except ss.InvalidInputError:
        return "undefined"
    return str(estimate)


def _mistake(message: str) -> typer.Exit:
    """Print a user's mistake as a sentence; return the exit to raise."""
    Console(stderr=True).print(f"[bold red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)
    return typer.Exit(2)


def main() -> None:
    """Run the command."""
    try:
        app()
    except ss.StreamsketchError as error:
        sys.exit(_mistake(str(error)).exit_code)
