"""Parties' pipelines contribute each key once to a round, whose sums are those of all parties."""

import ast
import base64
import dataclasses
import functools
import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from numpy.typing import NDArray

import streamsketch as ss
from streamsketch.beam import (
    ReleasePerKey,
    RoundContribution,
    TumblingWindows,
    configure_run,
)
from streamsketch.beam.release.contribute import RoundDraw
from streamsketch.beam.run.bits import repeatable_bits
from streamsketch.beam.run.runs import RunSecret
from streamsketch.parties import Key, Round
from streamsketch.parties.contributions import decode_contribution
from tests.beam.rows import bound_rows, sketch_rows
from tests.beam.running import run

PROJECTION = ss.SJLT(dim=1000, sketch_dim=64, sparsity=4, seed=11)
NEAR = ss.L1(3, unit="person", max_keys=2)
KEYS = ["AA", "UA", "empty"]
EVENTS = {
    "North": [("Ann", "AA", 1, 2), ("Ann", "UA", 5, 1), ("Bob", "AA", 2, 3)],
    "South": [("Cyd", "AA", 1, 1), ("Cyd", "other", 9, 1)],
}


@pytest.fixture
def parties() -> dict[str, Key]:
    return {name: Key.generate(name) for name in EVENTS}


@pytest.fixture
def agreed(parties: dict[str, Key]) -> Round:
    return Round(PROJECTION, epsilon=1.0, neighbours=NEAR, parties=[key.public for key in parties.values()])


def contribute(agreed: Round, key: Key, folder: Path, **how: Any) -> dict[str, bytes]:
    folder.mkdir(exist_ok=True)
    file = folder / "key.pem"
    if not file.exists():
        key.save(file)
    name = key.public.name

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        configure_run(pipeline, claims=str(folder / "claims"), run_id=agreed.fingerprint)
        events = pipeline | beam.Create(EVENTS[name])
        bounded = events | bound_rows(PROJECTION, unit="person", max_keys=2, l1=3)
        return (
            bounded | sketch_rows(PROJECTION) | ReleasePerKey(RoundContribution(agreed, file), public_keys=KEYS, **how)
        )

    return dict(run(build, folder)[0])


@pytest.mark.parametrize("counting", [None, ss.privacy.Counting(1, slack=2)])
def test_each_key_is_the_sum_of_all_parties_with_one_noise(
    counting: ss.privacy.Counting | None,
    parties: dict[str, Key],
    agreed: Round,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agreed = dataclasses.replace(agreed, counting=counting)
    monkeypatch.setattr(type(agreed.noise), "sample_share", lambda *given: np.zeros(given[2], dtype=np.int64))
    sent = [contribute(agreed, key, tmp_path / name) for name, key in parties.items()]
    assert all(one.keys() == set(KEYS) for one in sent)
    truth = {key: PROJECTION.sketch() for key in KEYS}
    for events in EVENTS.values():
        for _, key, index, value in events:
            if key in truth:
                truth[key].update(index, value)
    for key in KEYS:
        release = agreed.for_key(key).combine([one[key] for one in sent])
        assert release.values.tolist() == truth[key].state().tolist()
        assert release.guarantee == agreed.guarantee
        if counting is not None:
            assert release.units.value == {"AA": 3, "UA": 1, "empty": 0}[key]
            assert release.total.value == truth[key].mass
    with pytest.raises(ss.InvalidInputError, match="to another round"):
        agreed.for_key("AA").combine([sent[0]["UA"], sent[1]["AA"]])


def test_keys_have_masks_and_noise_of_their_own(parties: dict[str, Key], agreed: Round, tmp_path: Path) -> None:
    sent = contribute(agreed, parties["North"], tmp_path)
    cells = [np.frombuffer(one, dtype=np.uint8) for one in sent.values()]
    assert len({one.tobytes() for one in cells}) == len(KEYS)
    rounds = [agreed.for_key(key) for key in ("AA", "UA", b"AA", 7, "7")]
    assert len({one.fingerprint for one in [agreed, *rounds]}) == 6
    with pytest.raises(ss.InvalidInputError, match="a key is text"):
        agreed.for_key(1.5)  # type: ignore[arg-type]


def test_a_round_that_counts_units_takes_no_rows_that_nothing_bounded(parties: dict[str, Key], agreed: Round) -> None:
    counted = RoundContribution(dataclasses.replace(agreed, counting=ss.privacy.Counting(1)), lambda: parties["North"])
    pipeline = beam.Pipeline()
    configure_run(pipeline, claims="claims", run_id=counted.agreed.fingerprint)
    sketches = pipeline | beam.Create([("AA", 1, 2)]) | sketch_rows(PROJECTION)
    with pytest.raises(ss.InvalidInputError, match="the round counts persons, but these data have no count of them"):
        sketches | ReleasePerKey(counted, public_keys=KEYS)


def test_a_second_launch_is_refused(parties: dict[str, Key], agreed: Round, tmp_path: Path) -> None:
    contribute(agreed, parties["North"], tmp_path)
    with pytest.raises(Exception, match="claim"):
        contribute(agreed, parties["North"], tmp_path)


def noise_of(sent: bytes, total: ss.Sketch) -> NDArray[np.int64]:
    """Return the noise of a contribution without masks."""
    payload = base64.b64decode(json.loads(sent)["payload"])
    return decode_contribution(payload, cells=PROJECTION.sketch_dim).cells - total.state()


def test_a_retry_gives_the_same_bytes_and_other_data_another_share(
    parties: dict[str, Key], agreed: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    north, drawn = parties["North"], RunSecret(b"1" * 32, b"", None)
    window = beam.transforms.window.GlobalWindow()

    def bytes_of(total: ss.Sketch, key: Key, signed: Round = agreed) -> bytes:
        draw = RoundDraw(RoundContribution(signed, lambda: key), PROJECTION, agreed.guarantee, ["source"])
        bits_of = functools.partial(repeatable_bits, drawn.derive("noise", "label"), "AA", window)
        found: list[bytes] = list(draw.draw(total, bits_of, "AA", window, drawn))
        return b"".join(found)

    def elsewhere() -> Key:
        """Return the key as a machine has it that knows nothing of what others sent."""
        return Key(north._signing, north._key_exchange, "North")

    monkeypatch.setattr("streamsketch.parties.rounds.add_masks", lambda *_: None)
    one, other = PROJECTION.sketch(), PROJECTION.sketch()
    one.update(1, 1)
    other.update(1, 2)
    first = bytes_of(one, north)
    assert bytes_of(one, north) == bytes_of(one, elsewhere()) == first
    with pytest.raises(ss.InvalidInputError, match="already"):
        bytes_of(other, north)
    assert (noise_of(first, one) != noise_of(bytes_of(other, elsewhere()), other)).any()
    signed = agreed.signed(north).signed(parties["South"])
    assert (noise_of(first, one) != noise_of(bytes_of(one, elsewhere(), signed), one)).any(), "other masks, other noise"


def test_a_run_is_charged_for_all_its_contributions(parties: dict[str, Key], agreed: Round, tmp_path: Path) -> None:
    ledger = ss.Ledger(tmp_path / "ledger.sqlite")
    ledger.dataset("people", unit="person", epsilon=1.5)
    contribute(agreed, parties["North"], tmp_path, ledger=tmp_path / "ledger.sqlite", dataset="people")
    assert ledger.left("people").epsilon == pytest.approx(0.5)


def test_a_launch_with_claims_elsewhere_is_refused_by_the_key(
    parties: dict[str, Key], agreed: Round, tmp_path: Path
) -> None:
    contribute(agreed, parties["North"], tmp_path)
    (tmp_path / "claims").rename(tmp_path / "other claims")
    with pytest.raises(Exception, match=r"as key.pem.rounds records"):
        contribute(agreed, parties["North"], tmp_path)
    record = (tmp_path / "key.pem.rounds").read_text().splitlines()
    assert [line.split()[:2] for line in sorted(record)] == sorted(
        [agreed.fingerprint, agreed.for_key(key).fingerprint] for key in KEYS
    )
    with pytest.raises(ss.InvalidInputError, match="already"):
        agreed.contribute(PROJECTION.sketch(), Key.load(tmp_path / "key.pem", name="North"))


def test_a_pipeline_contributes_once(parties: dict[str, Key], agreed: Round, tmp_path: Path) -> None:
    other = dataclasses.replace(agreed, epsilon=2.0)
    pipelines = [beam.Pipeline(runner="FnApiRunner") for _ in range(2)]
    for pipeline in pipelines:
        configure_run(pipeline, claims=str(tmp_path), run_id=agreed.fingerprint)
        sketches = pipeline | beam.Create([("AA", 1, 1)]) | sketch_rows(PROJECTION)
        once = ReleasePerKey(RoundContribution(agreed, tmp_path / "key.pem"), public_keys=["AA"])
        sketches | "First" >> once
        others = {
            "Again": once,
            "Second": ReleasePerKey(RoundContribution(agreed, lambda: parties["South"]), public_keys=["UA"]),
        }
        for label, second in others.items():
            with pytest.raises(ss.InvalidInputError, match="already contributes to a round"):
                sketches | label >> second
        with pytest.raises(ss.InvalidInputError, match="configure_run"):
            sketches | "Other" >> ReleasePerKey(RoundContribution(other, tmp_path / "key.pem"), public_keys=["AA"])


def test_what_nobody_may_contribute_to_is_refused_before_the_job_runs(parties: dict[str, Key], agreed: Round) -> None:
    north = parties["North"]
    for given, said in [
        (agreed.signed(north), r"South \(\w+\) did not sign"),
        (Round.from_json(agreed.to_json()), "did not sign"),
        (agreed.for_key("AA"), "use the table.s round"),
    ]:
        with pytest.raises(ss.StreamsketchError, match=said):
            ReleasePerKey(RoundContribution(given, lambda: north), public_keys=KEYS)


def test_what_could_contribute_twice_is_refused(agreed: Round, parties: dict[str, Key], tmp_path: Path) -> None:
    sketches = beam.Pipeline(runner="FnApiRunner") | beam.Create([("AA", 1, 1)]) | sketch_rows(PROJECTION)
    with pytest.raises(ss.InvalidInputError, match="configure_run"):
        sketches | ReleasePerKey(RoundContribution(agreed, tmp_path / "key.pem"), public_keys=KEYS)
    windowed: Any = beam.Pipeline(runner="FnApiRunner") | beam.Create([("AA", 1, 1)]) | TumblingWindows(60)
    with pytest.raises(ss.InvalidInputError, match="sketches are in windows"):
        (
            windowed
            | sketch_rows(PROJECTION)
            | ReleasePerKey(RoundContribution(agreed, tmp_path / "key.pem"), public_keys=KEYS)
        )
    with pytest.raises(TypeError, match="pass the path of its file"):
        ReleasePerKey(RoundContribution(agreed, parties["North"]), public_keys=KEYS)  # type: ignore[arg-type]


def test_beam_does_without_the_packages_of_parties() -> None:
    """They are in an extra of their own, which other releases do not need."""
    folder = Path(ss.__file__).parent / "beam"
    modules = {path: ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("*.py")}
    assert [
        str(path.relative_to(folder))
        for path, module in modules.items()
        for node in module.body
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("streamsketch.parties")
    ] == []
