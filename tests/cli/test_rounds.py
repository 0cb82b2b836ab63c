"""A round of two parties in a shell, and what is refused in it."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

import streamsketch as ss
from streamsketch.parties import Key, Round
from streamsketch.storage import load_raw
from tests.cli.running import Forks

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=3)
PARTIES = ("--party", "north.pub", "--party", "south.pub")
NEW = ("party", "round", "new", "round.json", "--agreement", "sales.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, count in (("north", 500), ("south", 300)):
        key = Key.generate(name.title())
        key.save(tmp_path / f"{name}.pem")
        (tmp_path / f"{name}.pub").write_text(key.public.to_text())
        sketch = PROJECTION.sketch()
        sketch.update([1, 2], [count, 700])
        ss.storage.save_raw(sketch, tmp_path / f"{name}.raw-sketch")
    (tmp_path / "p.json").write_text(PROJECTION.to_json())
    sales = ss.Agreement(PROJECTION, index="item", neighbours=ss.L1(1, unit="sale"), terms=ss.Terms(epsilon=1))
    sales.save(tmp_path / "sales.json")
    return tmp_path


def sign_by_all(folder: Path, forks: Forks) -> None:
    forks.succeeded("party", "round", "sign", "round.json", "--key", "north.pem", "--party", "south.pub", cwd=folder)
    forks.succeeded("party", "round", "sign", "round.json", "--key", "south.pem", "--party", "north.pub", cwd=folder)


def contribute(name: str, *more: str) -> tuple[str, ...]:
    return "party", "round", "contribute", "round.json", f"{name}.raw-sketch", "--key", f"{name}.pem", *more


def test_a_round_from_keys_to_a_release(folder: Path, forks: Forks) -> None:
    ss.Ledger(folder / "ledger.sqlite").dataset("sales", unit="sale", epsilon=1.5)
    made = json.loads(forks.succeeded(*NEW, *PARTIES, "--json", cwd=folder))
    assert [one["signed"] for one in made["parties"]] == [False, False]
    sign_by_all(folder, forks)
    shown = forks.run("party", "round", "show", "round.json", cwd=folder)
    assert made["fingerprint"] in shown.stdout
    assert "All parties have signed" in shown.stderr
    assert "as with data at two parties it counts twice" in " ".join(shown.stdout.split())
    charged = ("--ledger", "ledger.sqlite", "--dataset", "sales")
    forks.succeeded(*contribute("north", "-o", "n.contribution", *charged), cwd=folder)
    assert ss.Ledger(folder / "ledger.sqlite").left("sales").epsilon == 0.5
    sent = json.loads(forks.succeeded(*contribute("south", "-o", "s.contribution", "--json"), cwd=folder))
    assert sent["round"] == made["fingerprint"]
    (past,) = load_raw(folder / "north.raw-sketch").releases
    assert "in shares of 2 parties" in str(past.guarantee)
    files = ("n.contribution", "s.contribution")
    result = json.loads(
        forks.succeeded("party", "round", "combine", "round.json", *files, "-o", "sum.sketch", "--json", cwd=folder)
    )
    released = ss.load(folder / "sum.sketch")
    assert result["guarantee"]["text"] == str(released.guarantee)
    assert ss.squared_norm(released).value == pytest.approx(800**2 + 1400**2, rel=0.5)
    forks.succeeded("party", "round", "combine", "round.json", *files[::-1], "-o", "again.sketch", cwd=folder)
    assert ss.load(folder / "again.sketch") == released
    sentence = forks.refused("party", "round", "combine", "round.json", files[0], "-o", "part.sketch", cwd=folder)
    assert "no contribution of South" in sentence


def test_a_round_counts_units_as_agreed_on(folder: Path, forks: Forks) -> None:
    people = pa.table({"item": ["milk"], "customer": ["Ann"]})
    agreement = ss.agree(people, ss.SJLT(sketch_dim=64, sparsity=4, seed=3), index="item", unit="customer")
    agreement = agreement.replace(terms=ss.Terms(epsilon="1e5", delta="1e-6"))
    agreement.save(folder / "a.json")
    for name, count in (("north", 5), ("south", 8)):
        rows = "".join(f"{'milk' if one % 2 else 'tea'},{name} {one}\n" for one in range(count))
        (folder / f"{name}.csv").write_text(f"item,customer\n{rows}")
        raw = f"{name} bounded.raw-sketch"
        forks.succeeded("sketch", f"{name}.csv", "--agreement", "a.json", "-o", raw, cwd=folder)
    forks.succeeded("party", "round", "new", "round.json", "--agreement", "a.json", *PARTIES, cwd=folder)
    sign_by_all(folder, forks)
    assert (
        "one customer has data at one party alone"
        in json.loads(forks.succeeded("party", "round", "show", "round.json", "--json", cwd=folder))["guarantee"][
            "text"
        ]
    )
    for name in ("north", "south"):
        sent = contribute(f"{name} bounded", "-o", f"{name}.contribution")
        forks.succeeded(*[one.replace(f"{name} bounded.pem", f"{name}.pem") for one in sent], cwd=folder)
    files = "north.contribution", "south.contribution"
    shown = forks.succeeded("party", "round", "combine", "round.json", *files, "-o", "sum.sketch", cwd=folder)
    assert "units" in shown
    released = ss.load(folder / "sum.sketch")
    assert released.units.value == pytest.approx(13, abs=0.2)
    assert released.clip == agreement.clip == "equal"


def test_nobody_contributes_twice_in_whatever_process(folder: Path, forks: Forks) -> None:
    ss.Ledger(folder / "ledger.sqlite").dataset("sales", unit="sale", epsilon=0.5)
    forks.succeeded(*NEW, *PARTIES, cwd=folder)
    sign_by_all(folder, forks)
    charged = ("--ledger", "ledger.sqlite", "--dataset", "sales")
    before = (folder / "north.raw-sketch").read_bytes()
    done = forks.run(*contribute("north", "-o", "n.contribution", *charged), cwd=folder)
    assert done.returncode == 2, "the budget has no room"
    assert not (folder / "n.contribution").exists()
    assert (folder / "north.raw-sketch").read_bytes() == before
    forks.succeeded(*contribute("north", "-o", "n.contribution"), cwd=folder)  # nothing came of the first
    assert (folder / "north.pem.rounds").stat().st_mode & 0o777 == 0o600
    for more in ((), ("--again",)):
        assert "as north.pem.rounds records" in forks.refused(
            *contribute("north", "-o", "m.contribution", *more), cwd=folder
        )
    forks.succeeded(*[one.replace("round.json", "next.json") for one in (*NEW, *PARTIES)], cwd=folder)
    agreed = Round.from_json((folder / "next.json").read_text())
    for name in ("north", "south"):
        agreed = agreed.signed(Key.load(folder / f"{name}.pem", name=name.title()))
    (folder / "round.json").write_text(agreed.to_json())
    refused = forks.run(*contribute("north", "-o", "m.contribution"), cwd=folder)
    assert "Give --again if that is meant" in refused.stderr
    forks.succeeded(*contribute("north", "-o", "m.contribution", "--again"), cwd=folder)
    assert len(load_raw(folder / "north.raw-sketch").releases) == 2
    assert len((folder / "north.pem.rounds").read_text().split()) == 2


def test_rounds_of_like_ids_are_two_releases_of_the_raw_file(folder: Path, forks: Forks) -> None:
    """Whoever writes a round chooses its id; that must not take a release out of a party's record."""
    keys = [Key.load(folder / f"{name}.pem", name=name.title()) for name in ("north", "south")]
    for number in range(2):
        parties, id_ = [key.public for key in keys], bytes(8) + bytes([number]) * 8
        agreed = Round(PROJECTION, epsilon=1.0, neighbours=ss.L1(1, unit="sale"), parties=parties, round_id=id_)
        (folder / "round.json").write_text(agreed.signed(keys[0]).signed(keys[1]).to_json())
        forks.succeeded(*contribute("north", "-o", f"{number}.contribution", "--again"), cwd=folder)
    assert len(load_raw(folder / "north.raw-sketch").releases) == 2


def test_nobody_signs_a_key_that_it_does_not_know(folder: Path, forks: Forks) -> None:
    eve = Key.generate("South")
    (folder / "eve.pub").write_text(eve.public.to_text())
    forks.succeeded(*NEW, "--party", "north.pub", "--party", "eve.pub", cwd=folder)
    told = forks.refused(
        "party", "round", "sign", "round.json", "--key", "north.pem", "--party", "south.pub", cwd=folder
    )
    assert "lists keys that you did not name: South (" in told
    done = forks.run(*contribute("north", "-o", "n.contribution"), cwd=folder)
    assert "did not sign this round" in done.stderr
    assert not (folder / "n.contribution").exists()
    told = forks.refused("party", "round", "sign", "round.json", "--key", "south.pem", "--party", "north.pub",
                         "--party", "eve.pub", cwd=folder)  # fmt: skip
    assert "is not a party of this round" in told


def test_what_is_no_round_is_said_to_be_none(folder: Path, forks: Forks) -> None:
    (folder / "other.json").write_text("{}")
    (folder / "notes.json").write_text("no JSON")
    assert "other.json is not a round: it has no " in forks.refused("party", "round", "show", "other.json", cwd=folder)
    (folder / "long.json").write_text(" " * ((1 << 24) + 1))
    assert "long.json: length: " in forks.refused("party", "round", "show", "long.json", cwd=folder)
    assert "notes.json is not a round" in forks.refused("party", "round", "show", "notes.json", cwd=folder)


def test_rounds_that_say_too_little_are_refused(folder: Path, forks: Forks) -> None:
    new = ("party", "round", "new", "round.json")
    ss.Agreement(PROJECTION, index="item", neighbours=ss.L1(2, unit="visit")).save(folder / "a.json")
    ss.Agreement(PROJECTION, index="item").save(folder / "open.json")
    visits = ss.Agreement(PROJECTION, index="item", neighbours=ss.L1(2, unit="visit"))
    visits.replace(terms=ss.Terms(epsilon=2)).save(folder / "terms.json")
    single = ss.Agreement(PROJECTION, index="item", neighbours=ss.OneCoordinate(1))
    single.replace(terms=ss.Terms(epsilon=2, mechanism="DP-SignOPORP-RR")).save(folder / "signs.json")
    for arguments, said in [
        ((*new, *PARTIES), "Missing option '--agreement'"),
        ((*new, *PARTIES, "--agreement", "p.json"), "it is a projection alone"),
        ((*new, *PARTIES, "--agreement", "open.json"), "does not say how much one unit can change"),
        (
            (*new, *PARTIES, "--agreement", "terms.json", "--epsilon", "1"),
            "No such option: --epsilon. An agreement says",
        ),
        (
            (*new, *PARTIES, "--agreement", "a.json"),
            "a.json does not say what the round spends: `streamsketch agree a.json",
        ),
        ((*new, *PARTIES, "--agreement", "signs.json"), "a round adds noise, and signs.json publishes by"),
        ((*new, "--agreement", "terms.json"), "2 to 1024 parties"),
        ((*new, *PARTIES, "--agreement", "terms.json", "--honest", "1"), "honest must be"),
        (("party", "round", "show", "p.json"), "p.json is not a round: it has no 'signatures'"),
        (("party", "round", "new", "round.txt", "--agreement", "a.json"), "named *.json"),
        (("party", "round", "combine", "p.json", "p.json", "-o", "s.sketch"), "p.json is not a round"),
    ]:
        assert said in forks.refused(*arguments, cwd=folder)
    said = ("party", "round", "new", "people.json", *PARTIES, "--agreement", "terms.json", "--json")
    made = json.loads(forks.succeeded(*said, cwd=folder))
    assert "ε = 2, δ = 0 for one visit of at most 2" in made["guarantee"]["text"]
    forks.succeeded("agree", "a.json", "--epsilon", "1", "-o", "added.json", cwd=folder)
    made = json.loads(forks.succeeded(*new, *PARTIES, "--agreement", "added.json", "--json", cwd=folder))
    assert "one visit of at most 2" in made["guarantee"]["text"]
    table = PROJECTION.table()
    table.update(["a"], [1], [1])
    ss.storage.save_raw(table, folder / "many.raw-sketch")
    sign_by_all(folder, forks)
    many = (
        "party",
        "round",
        "contribute",
        "round.json",
        "many.raw-sketch",
        "--key",
        "north.pem",
        "-o",
        "n.contribution",
    )
    assert "holds many keys" in forks.run(*many, cwd=folder).stderr
    assert (folder / "north.pem.rounds").read_text() == ""
