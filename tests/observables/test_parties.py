"""What others see of a party: of its contributions, signatures and ledger, nothing but the noise depends on one event.

The party is North, whose events differ. South's are always the same, and South, whoever adds up and an auditor of the
ledger see everything but North's keys, exact data and noise.
"""

import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streamsketch as ss
from streamsketch.parties import Key, Round, sign, statements, verify
from streamsketch.privacy.samplers import SystemBits
from streamsketch.release.ready import Ready, ReadyTable
from tests.observables import test_commands as commands
from tests.observables.game import Seen, assert_alike, differences, fixed_key
from tests.observables.test_bounding import Mode, bounded, exactly_bounded
from tests.observables.test_releases import (
    KEYS,
    LAPLACE,
    ORDERS,
    PROJECTION,
    Event,
    exact,
    refusing_sums,
    sketch_of,
    table_of,
    worlds,
)

ACCEPTED = "what should be refused was not"
THEIRS: list[Event] = [("A", 7, 3), ("D", 8, 1)]
ALL = sorted([*KEYS, "D"])  # of D North has nothing


def keys() -> tuple[Key, Key]:
    return fixed_key(1, "North"), fixed_key(2, "South")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ledgers write the same time in all worlds."""
    at = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
    monkeypatch.setattr("streamsketch.accounting.store.FileTransaction.now", lambda _: at)


def refusal(work: Callable[[], Any]) -> str:
    """Return what an error says, or that there is none."""
    try:
        work()
    except ss.StreamsketchError as error:
        return f"{type(error).__name__}: {error}"
    return ACCEPTED


# --- the games ----------------------------------------------------------------------------------------------------


PARTIES: dict[str, Any] = {"parties": [key.public for key in keys()], "round_id": bytes(16)}
PEOPLE = Mode(ss.SketchL2(1, unit="person", max_keys=1), "equal", counting=ss.privacy.Counting(4000))
OF_PEOPLE: dict[str, Any] = {"neighbours": PEOPLE.neighbours, "counting": PEOPLE.counting}


def a_round(**more: Any) -> Round:
    return signed(Round(PROJECTION, **PARTIES, **LAPLACE, **more))


def signed(agreed: Round) -> Round:
    for key in keys():
        agreed = agreed.signed(key)
    return agreed


def a_round_of_sketches(events: list[Event], folder: Path) -> Iterator[Any]:
    mine, theirs, (north, south) = sketch_of(events), sketch_of(THEIRS), keys()
    yield [exact(events), exact(THEIRS)]
    agreed = Round.from_json(a_round().to_json())
    (folder / "round.json").write_text(agreed.to_json())
    sent = [agreed.contribute(sketch, key) for sketch, key in ((mine, north), (theirs, south))]
    yield sent
    yield refusal(lambda: agreed.contribute(mine, north)), refusal(lambda: agreed.combine(sent[:1]))
    released = agreed.combine(sent)
    released.save(folder / "sum.sketch")
    yield str(released.explain()), str(agreed.guarantee)


def a_round_of_people(events: list[Event], folder: Path) -> Iterator[Any]:
    """Each event is of another person, and each party clips and counts its own."""
    parts = [[(f"{n}", "A", index, value) for n, (_, index, value) in enumerate(own)] for own in (events, THEIRS)]
    sketches = [bounded(part, PEOPLE).sketch_of("A") for part in parts]
    yield [exactly_bounded(part, PEOPLE)("A") for part in parts]
    agreed = signed(Round(PEOPLE.projection, **PARTIES, epsilon=1.0, delta=1e-6, **OF_PEOPLE))
    sent = [agreed.contribute(sketch, key) for sketch, key in zip(sketches, keys(), strict=True)]
    yield sent
    released = agreed.combine(sent)
    released.save(folder / "sum.sketch")
    yield str(released.explain()), released.units


def a_round_of_a_table(events: list[Event], folder: Path) -> Iterator[Any]:
    mine, theirs, (north, south) = table_of(events), table_of(THEIRS), keys()
    yield [cells for key in ALL for cells in (exact(events, key=key), exact(THEIRS, key=key))]
    north.save(folder / "north.pem")
    agreed = a_round()
    for key in ALL:
        part, bits = agreed.for_key(key), SystemBits()
        sent = [
            part.contribute_again(table.sketch_of(key), one, bits) for table, one in ((mine, north), (theirs, south))
        ]
        part.combine(sent).save(folder / f"{key}.sketch")
        yield sent
    yield refusal(lambda: agreed.contribute(mine.sketch_of("A"), north))


def signatures(events: list[Event], folder: Path) -> Iterator[Any]:
    north, _ = keys()
    secret, table = sketch_of(events), table_of(events)
    yield [exact(events), *(exact(events, key=key) for key in KEYS)]
    ledger = ledger_in(folder)
    one = secret.release(**LAPLACE)
    one.save(folder / "one.sketch")
    receipt = ledger.charge("sales", one.guarantee, data_ids=secret.data_ids)
    sign(folder / "one.sketch", north, receipt=receipt, expires=dt.date(2999, 1, 1))
    table.release(**LAPLACE, keys_are_public=True).save(folder / "many.parquet")
    sign(folder / "many.parquet", north, inside=True)
    private = folder.parent / "private.raw-sketch"
    ss.storage.save_raw(secret, private)
    yield [str(verify(folder / name, north.public)) for name in ("one.sketch", "many.parquet")]
    yield refusal(lambda: sign(private, north))
    yield [path.read_bytes() for path in folder.parent.glob("private*.jsonl")]
    private.unlink()


def ledger_in(folder: Path) -> ss.Ledger:
    ledger = ss.Ledger(folder / "ledger.sqlite")
    ledger.dataset("sales", unit="event", epsilon=4.0)
    return ledger


def a_ledger(events: list[Event], folder: Path) -> Iterator[Any]:
    """Charge what is released; an auditor has the file, and everybody sees that a charge is refused."""
    secret, table, north = sketch_of(events), table_of(events), keys()[0]
    yield [exact(events), *(exact(events, key=key) for key in ALL), exact(events)]
    ledger = ledger_in(folder)
    charged: dict[str, Any] = {"ledger": ledger, "dataset": "sales"}
    secret.release(**LAPLACE, **charged).save(folder / "a.sketch")
    table.release(**LAPLACE, public_keys=ALL, **charged).save(folder / "all.parquet")
    yield a_round().contribute(secret, north, ledger=ledger)  # the data are known to be of sales
    yield refusal(lambda: secret.release(**LAPLACE | {"epsilon": 2.0}, **charged))
    yield refusal(lambda: table.release(**LAPLACE | {"neighbours": ss.L1(1, unit="sale")}, public_keys=ALL, **charged))
    receipt = ledger.charge(None, a_round().guarantee, data_ids=table.data_ids, note="a stand-in", once="job 1")
    ledger.refund(receipt, nothing_was_published="the disk was full")
    yield [(entry.digest, json.dumps(entry.body)) for entry in ledger.entries()]
    yield ledger.left("sales"), ledger.audit(receipt), repr(ledger), str(receipt)


GAMES: dict[str, Callable[..., Iterator[Any]]] = {
    "a round of sketches": a_round_of_sketches,
    "a round of people": a_round_of_people,
    "a round of a table": a_round_of_a_table,
    "signatures": signatures,
    "a ledger": a_ledger,
}


@pytest.mark.parametrize("name", GAMES)
def test_nothing_but_the_noise_tells_one_event(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = worlds(GAMES[name], tmp_path, monkeypatch)
    assert seen[0]["end"] == "done", seen[0]["end"]
    assert seen[0]["files"]
    assert seen[0]["shown"]
    assert ACCEPTED not in str(seen[0]["shown"])
    assert_alike(seen)


WITHOUT_A_KEY: list[list[Event]] = [[("A", 1, 1), ("C", 2, 1)], [("A", 1, 1)], [("C", 2, 1)]]


def test_a_key_is_contributed_to_alike_with_and_without_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = worlds(a_round_of_a_table, tmp_path, monkeypatch, WITHOUT_A_KEY)
    assert seen[0]["end"] == "done"
    assert_alike(seen)
    contributes_keys_with_data(monkeypatch)
    (tmp_path / "again").mkdir()
    assert "end" in differences(worlds(a_round_of_a_table, tmp_path / "again", monkeypatch, WITHOUT_A_KEY))


# --- in a shell -----------------------------------------------------------------------------------------------------

ROUND = ["--agreement", "a.json", "--party", "n.pub", "--party", "s.pub"]
CHARGED = ["--ledger", "ledger.sqlite", "--dataset", "sales"]


def files_of_keys(_: list[Event]) -> None:
    """Write what is not made by a command of the game: keys, which only the operating system draws."""
    for key, name in zip(keys(), "ns", strict=True):
        key.save(f"../secret/{name}.pem")
        Path(f"{name}.pub").write_text(key.public.to_text())
        Path(f"../secret/{name}.pub").write_text(key.public.to_text())
    agreed = ss.Agreement(PROJECTION, index="item", neighbours=ss.L1(1, unit="sale"), terms=ss.Terms(epsilon=1))
    agreed.save("a.json")


def contribute(party: str, raw: str, *more: str) -> list[str]:
    return ["party", "round", "contribute", "round.json", f"../secret/{raw}.raw-sketch",
            "--key", f"../secret/{party}.pem", "-o", f"{party}{len(more)}.contribution", *more]  # fmt: skip


SHELL: list[commands.Command] = [
    files_of_keys,
    ["ledger", "init", "ledger.sqlite", "--dataset", "sales", "--unit", "sale", "--epsilon", "2"],
    ["party", "round", "new", "round.json", *ROUND],
    ["party", "round", "sign", "round.json", "--key", "../secret/n.pem", "--party", "s.pub"],
    ["party", "round", "sign", "round.json", "--key", "../secret/s.pem", "--party", "n.pub"],
    ["party", "round", "show", "round.json"],
    contribute("n", "one", *CHARGED),
    contribute("n", "one", *CHARGED, "--again"),  # refused: the key took part
    contribute("s", "two", "--json"),
    contribute("n", "many"),  # refused
    ["party", "round", "combine", "round.json", "n4.contribution", "s1.contribution", "-o", "sum.sketch"],
    ["party", "round", "combine", "round.json", "n4.contribution", "-o", "no.sketch"],  # refused
    ["release", "../secret/one.raw-sketch", "-o", "more.sketch", *commands.RELEASE, *CHARGED],  # refused: --again
    ["release", "../secret/many.raw-sketch", "-o", "many.parquet", *commands.RELEASE, *CHARGED, "--keys-are-public"],
    ["release", "../secret/one.raw-sketch", "-o", "more.sketch", *commands.RELEASE, *CHARGED, "--again"],  # no budget
    ["party", "sign", "sum.sketch", "--key", "../secret/n.pem"],
    ["party", "sign", "../secret/one.raw-sketch", "--key", "../secret/n.pem"],  # refused
    ["party", "verify", "sum.sketch", "--signer", "n.pub"],
    ["explain", "sum.sketch", "--signer", "n.pub"],
    ["ledger", "show", "ledger.sqlite"],
    ["ledger", "audit", "ledger.sqlite"],
    ["ledger", "export", "ledger.sqlite"],
]
REFUSED = {7, 9, 11, 12, 14, 16}


def in_a_shell(folder: Path, patch: pytest.MonkeyPatch) -> list[Seen]:
    return [
        commands.play(events, folder / str(number), patch, *SHELL,
                      hide=[exact(events), exact(events), *(exact(events, key=key) for key in KEYS)], keys=[])
        for number, events in enumerate(ORDERS)
    ]  # fmt: skip


def test_commands_of_parties_show_nothing_of_one_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = in_a_shell(tmp_path, monkeypatch)
    assert seen[0]["end"] == "done", seen[0]
    codes = [None, *(2 if number in REFUSED else 0 for number in range(1, len(SHELL)))]
    assert seen[0]["exit codes"] == codes, seen[0]["stderr"]
    assert {"sum.sketch", "sum.sketch.intoto.jsonl", "ledger.sqlite"} <= set(seen[0]["files"])
    assert_alike(seen)


# --- faults put back, which the games must find ---------------------------------------------------------------------


def contributes_keys_with_data(patch: pytest.MonkeyPatch) -> None:
    def sketch_of_key(secret: ss.SketchTable, key: Any) -> ss.Sketch:
        return secret[key]

    patch.setattr(ss.SketchTable, "sketch_of", sketch_of_key)


def draws_where_there_are_data(patch: pytest.MonkeyPatch) -> None:
    """Read as many bits as cells have data."""
    contribute = Round.contribute

    def longer(agreed: Round, sketch: ss.Sketch, key: Key) -> bytes:
        for _ in range(np.count_nonzero(sketch.state())):
            SystemBits().read(1)
        return contribute(agreed, sketch, key)

    patch.setattr(Round, "contribute", longer)


def anything_is_signed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("streamsketch.parties.signing.describe", lambda *_: statements.Description("Raw", None, None))


def notes_of_data(patch: pytest.MonkeyPatch) -> None:
    """Let the ledger note what was released from; masses would be none, as all are at their limit here."""

    def charge(ledger: Any, dataset: str | None, guarantee: Any, data: Any) -> None:
        if ledger is not None:
            sketches: Iterable[ss.Sketch] = data.values() if isinstance(data, ss.SketchTable) else [data]
            note = str(sum(int((sketch.state() % 1000).sum()) for sketch in sketches))
            ledger.charge(dataset, guarantee, projection=data.projection, data_ids=data.data_ids, note=note)

    patch.setattr("streamsketch.parties.rounds.charge", charge)
    for kind in (Ready, ReadyTable):
        patch.setattr(kind, "charge", noting(kind.charge))


def noting(charge: Callable[..., None]) -> Callable[..., None]:
    def charge_ready(ready: Any, ledger: Any, dataset: str | None) -> None:
        parts = list(ready.values()) if isinstance(ready, ReadyTable) else [ready]
        note = str(sum(int((part.exact[:, :64] % 1000).sum()) for part in parts))
        if ledger is None:
            charge(ready, None, dataset)
            return

        class Noting(ss.Ledger):
            def charge(self, *values: Any, **named: Any) -> Any:
                return ledger.charge(*values, **named, note=note)

        charge(ready, Noting.__new__(Noting), dataset)

    return charge_ready


FAULTS: list[tuple[str, Callable[[pytest.MonkeyPatch], None], str]] = [
    ("a round of sketches", refusing_sums, "end"),
    ("a round of sketches", draws_where_there_are_data, "random reads"),
    ("signatures", anything_is_signed, "shown"),
    ("a ledger", notes_of_data, "shown"),
]


@pytest.mark.parametrize(
    ("name", "fault", "tells"), FAULTS, ids=[f"{name}, {fault.__name__}" for name, fault, _ in FAULTS]
)
def test_the_game_finds_faults_put_back(
    name: str, fault: Callable[[pytest.MonkeyPatch], None], tells: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    assert tells in differences(worlds(GAMES[name], tmp_path, monkeypatch))
