"""``streamsketch-reader``: the command of the package that only reads, with the standard library's parser alone."""

import argparse
import itertools
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import streamsketch as ss
from streamsketch.errors import StreamsketchError, printable
from streamsketch.estimation.estimate import Estimate, estimate_cells

_MOST_BYTES = 1 << 16  # of a public key
_LONGEST = 200  # characters of a key or a file's name
_MEASURES = {
    "distance": ss.estimation.squared_distance,
    "cosine": ss.estimation.cosine,
    "profile": ss.estimation.profile_distance,
    "mean": ss.estimation.mean_distance,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status: 1 for a signature that does not hold, 2 for a mistake."""
    asked = _parser().parse_args(arguments)
    do: Callable[[argparse.Namespace], int] = asked.do
    try:
        return do(asked)
    except (StreamsketchError, TypeError, ModuleNotFoundError, OSError) as error:
        sys.stderr.write(f"error: {printable(error)}\n")
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="streamsketch-reader",
        description="Read, check and compare private sketches. The command of the whole package does more.",
    )
    parser.add_argument("--version", action="version", version=f"streamsketch-reader {ss.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, do: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(do=do)
        return added

    inspect = command("inspect", _inspect, "Show what releases and tables guarantee, and check their noise.")
    inspect.add_argument("files", nargs="+", metavar="FILE", type=Path)
    verify = command("verify", _verify, "Check signatures of files, in FILE.intoto.jsonl (needs the extra parties).")
    verify.add_argument("files", nargs="+", metavar="FILE", type=Path)
    verify.add_argument("--signer", metavar="NAME.pub", type=Path, action="append", required=True)
    compare = command("compare", _compare, "Estimate how alike streams are: releases, or the keys of tables.")
    compare.add_argument("files", nargs="+", metavar="FILE", type=Path)
    compare.add_argument("--by", choices=sorted(_MEASURES), default="distance")
    compare.add_argument("--json", action="store_true", help="print a line of JSON for each pair")
    frequency = command("frequency", _frequency, "Estimate how often an item occurs in a stream.")
    frequency.add_argument("file", metavar="FILE", type=Path)
    frequency.add_argument("item", metavar="ITEM", help="text, or with --integer an integer")
    frequency.add_argument("--integer", action="store_true", help="read ITEM as an integer")
    frequency.add_argument("--key", metavar="KEY", help="which row of a table, if it has several")
    return parser


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _streams(paths: Sequence[Path]) -> dict[str, ss.PrivateSketch]:
    """Return the streams of files by name: a release by that of its file, those of tables by their keys."""
    streams: dict[str, ss.PrivateSketch] = {}
    for path in paths:
        held = ss.load(path)
        if isinstance(held, ss.PrivateSketch):
            rows: Mapping[Any, Any] = {path.stem: held}
        elif isinstance(held, ss.PrivateTable):
            rows = held
        else:
            raise ss.InvalidInputError(f"{path} holds a {type(held).__name__}: pass releases, or tables of them")
        for key, row in rows.items():
            name = str(key) if str(key) not in streams else f"{path}: {key}"
            if name in streams:
                raise ss.InvalidInputError(f"two streams are named {name}: rename a file")
            streams[name] = row
    return streams


def _inspect(asked: argparse.Namespace) -> int:
    for place, path in enumerate(asked.files):
        if place:
            _say("")
        if len(asked.files) > 1:
            _say(f"{printable(path, _LONGEST)}:")
        held = ss.load(path)
        if isinstance(held, ss.PrivateTable):
            _say(f"A table of {len(held):,} streams. One guarantee holds for all of them together:")
        _say(str(ss.explain(held)))
    return 0


def _verify(asked: argparse.Namespace) -> int:
    from streamsketch.errors import SignatureError  # noqa: PLC0415
    from streamsketch.parties.keys import PublicKey  # noqa: PLC0415 - keys are an extra
    from streamsketch.parties.signing import verify  # noqa: PLC0415 - as above

    keys = []
    for path in asked.signer:
        with path.open("rb") as file:
            keys.append(PublicKey.from_text(file.read(_MOST_BYTES).decode("utf-8", "replace")))
    wrong = 0
    for path in asked.files:
        try:
            statement = verify(path, keys)
        except SignatureError as error:
            wrong += 1
            _say(f"{printable(path, _LONGEST)}: NOT VALID: {printable(error)}")
        else:
            _say(f"{printable(path, _LONGEST)}: valid, signed by {printable(statement.signer)}: {statement.kind}")
    return 1 if wrong else 0


def _compare(asked: argparse.Namespace) -> int:
    streams = _streams(asked.files)
    if len(streams) < 2:
        raise ss.InvalidInputError("two streams or more are compared: pass another file")
    for (first, x), (second, y) in itertools.combinations(streams.items(), 2):
        estimate = _MEASURES[asked.by](x, y)
        if asked.json:
            _say(json.dumps({"first": first, "second": second, "by": asked.by, **_fields(estimate)}))
        else:
            names = f"{printable(first, _LONGEST)} – {printable(second, _LONGEST)}"
            _say(f"{names}: {_words(estimate)}")
    return 0


def _frequency(asked: argparse.Namespace) -> int:
    streams = _streams([asked.file])
    if asked.key is None and len(streams) > 1:
        raise ss.InvalidInputError(f"{asked.file} holds {len(streams)} streams: say which by --key")
    if asked.key is not None and asked.key not in streams:
        raise ss.InvalidInputError(f"{asked.file} has no key {asked.key}")
    release = next(iter(streams.values())) if asked.key is None else streams[asked.key]
    try:
        item = int(asked.item) if asked.integer else asked.item
    except ValueError:
        raise ss.InvalidInputError(f"{asked.item} is no integer") from None
    _say(_words(ss.frequency(release, item)))
    return 0


def _words(estimate: Estimate) -> str:
    value, error, interval = estimate_cells(estimate)
    return f"{value} ± {error}, 95 % interval {interval}"


def _fields(estimate: Estimate) -> dict[str, float | None]:
    low, high = estimate.interval(0.95)
    numbers = {"estimate": estimate.value, "error": estimate.standard_error, "low": low, "high": high}
    return {name: number if abs(number) < float("inf") else None for name, number in numbers.items()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) or os.EX_OK)
