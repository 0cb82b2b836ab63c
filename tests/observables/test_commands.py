"""What an outsider sees of the commands that write or print a release: nothing but the noise depends on one event."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.core.numbers import Ints
from streamsketch.storage import load_raw, save_raw
from streamsketch.storage.database import Database, Row
from streamsketch.storage.sketches import RawSketch
from tests.cli.agreeing import agreeing, by_agreement
from tests.observables.game import Seen, assert_alike, differences, files_in, hidden, observed
from tests.observables.test_releases import (
    KEYS,
    ORDERS,
    SIGNED,
    SIGNS,
    Event,
    exact,
    in_order_of_events,
    sketch_of,
    table_of,
)

Command = list[str] | Callable[[list[Event]], None]
RELEASE = ["--epsilon", "1", "--l1", "1", "--unit", "sale"]


def run(*arguments: str) -> int:
    """Run the command in this process, where its noise is known; return its exit status."""
    from streamsketch.cli import app as cli  # noqa: PLC0415 - commands load all of the library

    try:
        for call in agreeing(arguments, Path.cwd()) or (by_agreement(arguments, Path.cwd()),):
            cli.app(args=call, prog_name="streamsketch", standalone_mode=False)
    except ss.StreamsketchError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


def play(
    events: list[Event],
    folder: Path,
    patch: pytest.MonkeyPatch,
    *commands: Command,
    hide: list[Ints] | None = None,
    keys: list[str],
) -> Seen:
    """Let one party release what it has, keep its secrets elsewhere, and run further commands on what it published."""
    if hide is None:
        hide = [exact(events), *(exact(events, key=key) for key in keys)]
    secret, public = folder / "secret", folder / "public"
    for place in (secret, public):
        place.mkdir(parents=True)
    patch.chdir(public)
    with observed(patch) as seen:
        save_raw(RawSketch(sketch_of(events), len(events)), secret / "one.raw-sketch")
        save_raw(RawSketch(table_of(events), len(events)), secret / "many.raw-sketch")
        raw = load_raw(secret / "one.raw-sketch"), load_raw(secret / "many.raw-sketch")
        assert raw[1].state.keys() <= set(KEYS)
        save_raw(RawSketch(sketch_of(events), len(events)), secret / "two.raw-sketch")
        with hidden(patch, hide):
            seen["exit codes"] = [run(*one) if isinstance(one, list) else one(events) for one in commands]
    return seen | {"files": {name: found for name, found in files_in(public).items() if not name.endswith(".html")}}


def released(*which: str) -> list[list[str]]:
    one = ["release", "../secret/one.raw-sketch", "-o", "one.sketch", *RELEASE]
    return [one, ["release", "../secret/many.raw-sketch", "-o", "many.parquet", *RELEASE, *which]]


AFTERWARDS = [
    ["release", "../secret/one.raw-sketch", "-o", "again.sketch", *RELEASE],  # refused: it was released
    ["explain", "many.parquet"],
    ["explain", "one.sketch", "many.parquet"],
    ["compare", "many.parquet"],
    ["nearest", "many.parquet", "--top", "2"],
    ["merge", "one.sketch", "one.sketch", "-o", "two.sketch", "--populations", "overlapping"],  # refused
    ["report", "many.parquet", "-o", "page.html"],
]
CASES = {
    "public keys": (["--public-key", "C", "--public-key", "A", "--public-key", "D"], ["A", "C", "D"]),
    "keys are public": (["--keys-are-public"], KEYS),
}


def publish_signs(events: list[Event]) -> None:
    """Publish signs as the library does, which has no command for it."""
    table = table_of(events, SIGNED)
    SIGNS.release_table(table, keys_are_public=True).save("signs.parquet")
    SIGNS.release(table["A"]).save("A.signs")


ON_SIGNS: list[Command] = [
    publish_signs,
    ["explain", "signs.parquet"],
    ["explain", "A.signs", "signs.parquet"],
    ["compare", "signs.parquet"],
    ["nearest", "signs.parquet", "--top", "1"],
    ["report", "signs.parquet", "-o", "page.html"],  # refused
]
SUMS: list[Command] = [
    *(["release", f"../secret/{name}.raw-sketch", "-o", f"{name}.sketch", *RELEASE] for name in ("one", "two")),
    ["merge", "--mean", "one.sketch", "two.sketch", "-o", "mean.sketch", "--populations", "disjoint"],
    ["merge", "one.sketch", "two.sketch", "-o", "sum.sketch", "--populations", "overlapping"],
    ["release", "../secret/one.raw-sketch", "-o", "again.sketch", "--again", *RELEASE],
    [
        "merge",
        "--mean",
        "one.sketch",
        "again.sketch",
        "-o",
        "no.sketch",
        "--populations",
        "disjoint",
    ],  # refused: the same data
    ["explain", "one.sketch", "two.sketch", "mean.sketch", "--populations", "overlapping"],
    ["explain", "sum.sketch"],
    ["compare", "mean.sketch", "again.sketch", "--json"],
]


@pytest.mark.parametrize(
    ("commands", "codes"),
    [(ON_SIGNS, [None, 0, 0, 0, 0, 2]), (SUMS, [0, 0, 0, 0, 0, 2, 0, 0, 0])],
    ids=["signs", "sums"],
)
def test_further_commands_show_nothing_of_one_event(
    commands: list[Command], codes: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hide(events: list[Event]) -> list[Ints]:
        if commands is SUMS:
            return [exact(events)] * 3
        return [exact(events, SIGNED, key) for key in [*KEYS, "A"]]

    seen = [
        play(events, tmp_path / str(number), monkeypatch, *commands, hide=hide(events), keys=[])
        for number, events in enumerate(ORDERS)
    ]
    assert seen[0]["end"] == "done", seen[0]
    assert seen[0]["exit codes"] == codes, seen[0]["stderr"]
    assert_alike(seen)


@pytest.fixture
def worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def run_all(options: list[str], keys: list[str], streams: list[list[Event]] = ORDERS) -> list[Seen]:
        commands = [*released(*options), *AFTERWARDS]
        return [
            play(events, tmp_path / str(number), monkeypatch, *commands, keys=keys)
            for number, events in enumerate(streams)
        ]

    return run_all


@pytest.mark.parametrize("name", CASES)
def test_commands_show_nothing_of_one_event(name: str, worlds: Any) -> None:
    seen = worlds(*CASES[name])
    assert seen[0]["end"] == "done", seen[0]
    assert seen[0]["exit codes"] == [0, 0, 2, 0, 0, 0, 0, 2, 0], seen[0]["stderr"]
    assert {"one.sketch", "many.parquet"} <= set(seen[0]["files"])
    assert_alike(seen)


def test_a_public_key_is_released_alike_with_and_without_data(worlds: Any) -> None:
    with_data: list[Event] = [("A", 1, 1), ("C", 2, 1)]
    streams = [with_data, with_data[:1], [("C", 2, 1)]]
    seen = worlds(*CASES["public keys"], streams)
    assert seen[0]["end"] == "done"
    assert_alike(seen)


def test_what_exceeds_the_bound_is_said_to_the_operator_and_is_nowhere_else(worlds: Any) -> None:
    """The exception: a warning, on standard error, which is not published; no refusal, which all would see."""
    within: list[Event] = [("A", 1, 1), ("C", 2, 1)]
    seen = worlds(*CASES["public keys"], [within, [*within, ("C", 2, 2)]])
    assert seen[0]["end"] == seen[1]["end"] == "done"
    assert differences(seen) == ["stderr"]
    texts = [one.pop("stderr") for one in seen]
    warned = [line for line in texts[1].splitlines() if line.startswith("warning: an event in this sketch is larger")]
    assert len(warned) == 2  # the stream and the table
    assert texts[0] == "".join(f"{line}\n" for line in texts[1].splitlines() if line not in warned)
    assert_alike(seen)


def test_the_game_finds_tables_in_the_order_of_events(worlds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    in_order_of_events(monkeypatch)
    read = Database.rows

    def in_order_of_rows(database: Database, part: str) -> Iterator[Row]:  # which is by key, so the file hides it
        keys = database._connection.execute("SELECT key FROM rows WHERE part = ? AND key > x'' ORDER BY id", (part,))
        places = {key: place for place, (key,) in enumerate(keys)}
        yield from sorted(read(database, part), key=lambda row: places[row.key])

    monkeypatch.setattr(Database, "rows", in_order_of_rows)
    assert "files" in differences(worlds(*CASES["keys are public"]))


def pages(folder: Path) -> Iterator[str]:
    for number in range(len(ORDERS)):
        yield (folder / str(number) / "public" / "page.html").read_text()


def test_the_page_of_a_report_is_the_same(worlds: Any, tmp_path: Path) -> None:
    worlds(*CASES["keys are public"])
    assert len(set(pages(tmp_path))) == 1
