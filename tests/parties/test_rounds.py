"""Rounds: the sum of all parties' sketches with one noise, and nothing else."""

import base64
import dataclasses
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import streamsketch as ss
from streamsketch.errors import InvalidInputError, SignatureError, StreamsketchError, WireFormatError
from streamsketch.parties import Key, PublicKey, Round, envelope
from streamsketch.parties.contributions import CONTRIBUTION, decode_contribution, encode_contribution
from streamsketch.privacy import Mechanism
from streamsketch.privacy.gaussian import DiscreteGaussian
from streamsketch.privacy.laplace import DiscreteLaplace
from streamsketch.privacy.mechanism import AddedNoise
from streamsketch.privacy.neighbours import Clip
from streamsketch.privacy.samplers import KeyedBits
from streamsketch.release.checking.release import check_release
from streamsketch.sketching.bounding.units import bound_units

PROJECTION = ss.SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7)
ONE = ss.L1(1, unit="visit")
KEYS = [Key.generate(name) for name in ("Mercy", "Hope", "Grace", "Faith", "Joy")]


def a_round(keys: list[Key], **changes: object) -> Round:
    fields: dict[str, object] = {"epsilon": 1.0, "neighbours": ONE, "parties": [key.public for key in keys]}
    return Round(PROJECTION, **(fields | changes))  # type: ignore[arg-type] # tests change any field


def again(key: Key) -> Key:
    """Return the key as another process has it, which does not know what was sent."""
    return Key(key._signing, key._key_exchange, key.public.name)


def sketches(count: int) -> list[ss.Sketch]:
    made = []
    for place in range(count):
        sketch = PROJECTION.sketch()
        sketch.update(np.arange(100 * place, 100 * place + 150), 7)
        made.append(sketch)
    return made


def contributions(agreed: Round, keys: list[Key], data: list[ss.Sketch]) -> list[bytes]:
    return [agreed.contribute(sketch, again(key)) for sketch, key in zip(data, keys, strict=True)]


def cells_of(sent: bytes) -> NDArray[np.uint64]:
    payload = base64.b64decode(json.loads(sent)["payload"])
    return decode_contribution(payload, cells=PROJECTION.sketch_dim).cells.view(np.uint64)


@pytest.fixture
def silent_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (DiscreteLaplace, DiscreteGaussian):
        monkeypatch.setattr(kind, "sample_share", lambda _self, _n, size, _bits: np.zeros(size, dtype=np.int64))


@pytest.mark.usefixtures("silent_noise")
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_masks_cancel_in_the_sum_of_all_in_any_order(count: int, mechanism: str) -> None:
    keys, data = KEYS[:count], sketches(count)
    agreed = a_round(keys, mechanism=mechanism, delta=1e-9)
    sent = contributions(agreed, keys, data)
    truth = np.sum([one.state() for one in data], axis=0)
    released = agreed.combine(sent)
    assert np.array_equal(released.values, truth)
    assert agreed.combine(sent[::-1]) == released, "anybody gets the same release"


def test_a_release_has_the_noise_of_one_and_says_how_it_was_made() -> None:
    data = sketches(5)
    central = data[0].release(epsilon=1.0, neighbours=ONE)
    agreed = a_round(KEYS)
    released = agreed.combine(contributions(agreed, KEYS, data))
    assert released.noise == central.noise
    assert released.guarantee.budget == central.guarantee.budget
    assert str(released.guarantee.mechanism) == "discrete Laplace, scale 4, in shares of 5 parties"
    assert "all 5 parties follow the round" in str(released.guarantee)
    assert set(released.data_ids) == {one for sketch in data for one in sketch.data_ids.published()}
    assert ss.PrivateSketch.from_bytes(released.to_bytes()) == released
    fewer = a_round(KEYS, honest=2)
    widened = fewer.combine(contributions(fewer, KEYS, data))
    assert widened.noise.k2 == pytest.approx(central.noise.k2 * 5 / 2)
    assert "in shares of 5 parties, of whom 2 are honest" in str(ss.explain(widened))
    assert ss.PrivateSketch.from_bytes(widened.to_bytes()) == widened


@pytest.mark.parametrize(
    "neighbours", [ONE, ss.L1(40, unit="customer", max_keys=3), ss.OneCoordinate(2, unit="customer")]
)
def test_a_unit_at_two_parties_counts_twice_and_everything_says_so(neighbours: ss.privacy.Neighbours) -> None:
    agreed = a_round(KEYS[:2], neighbours=neighbours)
    condition = (
        f"one {neighbours.unit} keeps to the bound over all parties together, as with data at two parties it counts "
        f"twice"
    )
    released = agreed.combine(contributions(agreed, KEYS[:2], sketches(2)))
    for guarantee in (agreed.guarantee, released.guarantee, ss.PrivateSketch.from_bytes(released.to_bytes()).guarantee):
        assert condition in guarantee.conditions
    assert condition in " ".join(str(ss.explain(released)).split())
    assert condition in json.dumps(ss.explain(released).to_dict())
    (moved,) = {int(np.abs(one.state()).sum()) for one in sketches_of_one(2)}
    both = sum(one.state() for one in sketches_of_one(2))
    assert np.abs(both).sum() == 2 * moved, "by twice what the sensitivity of one party's data is"


FINE = PROJECTION.replace(resolution="1/8192")
WEIGHED = ss.SketchL2(1, unit="patient", max_keys=2)
COUNTED: dict[str, tuple[ss.privacy.Neighbours, ss.projections.Projection, Clip]] = {
    "l1": (ss.L1(9, unit="patient", max_keys=2), PROJECTION, "scale"),
    "equal": (WEIGHED, FINE, "equal"),
    "scale": (WEIGHED, FINE, "scale"),
}


def counted_sites(kind: str) -> tuple[Round, list[ss.Sketch]]:
    """Return a round that counts patients, and the sketches of three sites that have 5, 0 and 7 of them."""
    neighbours, projection, clip = COUNTED[kind]
    counting = ss.privacy.Counting.of(projection, neighbours, delta=1e-9)
    how: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-9, "neighbours": neighbours, "counting": counting}
    made = []
    for site, patients in enumerate((5, 0, 7)):
        rows = [(f"key {n % 2}", n % 3, 2.0, f"{site} {n % 7}") for n in range(patients)]
        columns: list[Any] = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
        bounded = bound_units([(*columns[:3], columns[3])], projection, neighbours=neighbours, clip=clip)
        made.append(bounded.sketch_of("key 0"))
    how |= {"clip": clip} if isinstance(neighbours, ss.SketchL2) else {}
    return Round(projection, **how, parties=[key.public for key in KEYS[:3]]), made


@pytest.mark.usefixtures("silent_noise")
@pytest.mark.parametrize("kind", COUNTED)
def test_counts_of_units_add_up_under_the_masks_as_cells_do(kind: str) -> None:
    agreed, data = counted_sites(kind)
    assert agreed.counting is not None
    read = Round.from_json(agreed.to_json(), parties=agreed.parties)
    assert read == agreed
    assert read.noise == agreed.noise
    sent = contributions(read, KEYS[:3], data)
    released = agreed.combine(sent)
    assert np.array_equal(released.values, np.sum([one.state() for one in data], axis=0))
    assert released.counts is not None
    assert released.counts[0] == agreed.counting.units * 7  # 3, 0 and 4 of key 0
    assert released.units.value == pytest.approx(7)
    assert released.guarantee.mechanism.layout.counting == agreed.counting
    assert released.clip == {"l1": None, "equal": "equal", "scale": "scale"}[kind]
    assert "one patient has data at one party alone" in str(released.guarantee)
    assert ss.PrivateSketch.from_bytes(released.to_bytes()) == released
    if kind == "l1":
        assert released.total.value == pytest.approx(14)


def test_the_noise_of_a_round_hides_counts_too() -> None:
    agreed, data = counted_sites("equal")
    assert check_release(agreed.combine(contributions(agreed, KEYS[:3], data))).verdict == "enough"
    plain = Round(
        **{name: getattr(agreed, name) for name in ("projection", "epsilon", "delta", "neighbours", "parties")}
    )
    assert 1 < agreed.noise.cumulants.k2 / plain.noise.cumulants.k2 <= 1.03**2
    assert agreed.fingerprint != plain.fingerprint
    assert "counting" not in plain.to_json()


def test_units_that_were_clipped_otherwise_than_agreed_on_are_refused() -> None:
    (agreed, data), (other, _) = counted_sites("equal"), counted_sites("scale")
    with pytest.raises(InvalidInputError, match=r"clip units by 'scale' to .*, and these data were clipped by 'equal'"):
        other.contribute(data[0], again(KEYS[0]))
    wider = dataclasses.replace(agreed.neighbours, bound=Fraction(agreed.neighbours.bound) * 2)
    with pytest.raises(InvalidInputError, match="to the round's neighbours"):  # its units would weigh half
        dataclasses.replace(agreed, neighbours=wider).contribute(data[0], again(KEYS[0]))
    for changes in ({"counting": None}, {"clip": "cut"}, {"neighbours": ONE, "counting": ss.privacy.Counting(1)}):
        with pytest.raises(InvalidInputError, match="clip must be 'scale', 'equal' or 'average' in a round"):
            dataclasses.replace(agreed, **changes)


def test_units_that_were_not_counted_are_refused_before_the_key_is_spent() -> None:
    agreed, data = counted_sites("equal")
    key = again(KEYS[0])
    for uncounted in (FINE.sketch(), data[0] + data[2]):
        with pytest.raises(InvalidInputError, match="the round counts patients, but these data have no count of them"):
            agreed.contribute(uncounted, key, assert_bounds=True)
    agreed.contribute(data[0], key)


@pytest.mark.parametrize("kind", COUNTED)
def test_counts_that_rest_on_a_condition_are_refused_as_the_release_would_not_state_it(kind: str) -> None:
    """A patient in two parts of one party's data counts twice, although it has data at one party alone."""
    agreed, data = counted_sites(kind)
    merged, key = data[0].copy(), again(KEYS[0])
    merged.merge(data[2], disjoint_units=True)
    assert merged.bounds.counts_for(agreed.neighbours)
    for assert_bounds in (False, True):
        with pytest.raises(InvalidInputError, match="hold only if: no patient is in two of the parts that were merged"):
            agreed.contribute(merged, key, assert_bounds=assert_bounds)
    with pytest.raises(InvalidInputError, match="The round does not state that"):
        agreed.contribute_again(merged, key, KeyedBits(bytes(32), b"again"))
    agreed.contribute(data[0], key)
    uncounted = dataclasses.replace(agreed, counting=None, clip=None)
    assert any("over all parties together" in one for one in uncounted.guarantee.conditions), "stated of all data"
    uncounted.contribute(merged, again(KEYS[0]))


def test_each_site_clips_its_own_patients_and_a_round_takes_what_its_bounds_imply() -> None:
    """One patient moves the sum by the bound at most, in all cells of both keys, whatever the rows hold."""
    agreed, _ = counted_sites("scale")
    rows = [(["key 0", "key 1", "key 0"], [1, 2, 3], [1e12, -5e11, 7.0], ["Ann"] * 3)]
    bounded = bound_units(rows, FINE, neighbours=WEIGHED)
    squares = sum(int(cell) ** 2 for key in bounded for cell in bounded[key].state())
    assert squares <= WEIGHED.cell_steps(FINE) ** 2
    agreed.for_key("key 0").contribute(bounded["key 0"], again(KEYS[1]))
    wider = bound_units(rows, FINE, neighbours=ss.SketchL2(2, unit="patient", max_keys=2))
    with pytest.raises(InvalidInputError, match="does not imply"):
        agreed.for_key("key 0").contribute(wider["key 0"], again(KEYS[1]))


def sketches_of_one(count: int) -> list[ss.Sketch]:
    """Return the sketches of parties that all have the same event of the same unit."""
    made = [PROJECTION.sketch() for _ in range(count)]
    for one in made:
        one.update(17)
    return made


def test_what_a_release_states_is_found_enough_and_a_claim_of_less_noise_is_not() -> None:
    for changes in ({}, {"honest": 3}, {"mechanism": "gaussian", "delta": 1e-9, "honest": 4}):
        agreed = a_round(KEYS, **changes)
        released = agreed.combine(contributions(agreed, KEYS, sketches(5)))
        assert check_release(released).verdict == "enough"
        one = released.guarantee.mechanism.the_noise
        assert one is not None
        stated = Mechanism((AddedNoise(one.noise),))
        if "honest" in changes:
            guarantee = ss.Guarantee(1.0, released.guarantee.delta, ONE, stated)
            lying = ss.PrivateSketch(
                PROJECTION, released.values, released.noise, guarantee, release_ids=released.release_ids
            )
            assert check_release(lying).verdict == "too little"


def test_the_sum_of_shares_is_the_noise_of_a_central_release() -> None:
    # chi-square over the 64 cells of 150 rounds, at 1e-6
    agreed = a_round(KEYS[:3])
    empty = [PROJECTION.sketch() for _ in range(3)]
    cells = np.concatenate(
        [agreed.combine(contributions(agreed, KEYS[:3], [one.copy() for one in empty])).values for _ in range(150)]
    )
    q, edges = np.exp(-1 / 4), np.arange(-12, 13)
    below = np.where(edges < 1, q ** (1.0 - edges) / (1 + q), 1 - q**edges / (1 + q))  # P(n < edge)
    expected = np.diff(np.concatenate([[0], below, [1]])) * cells.size
    observed = np.histogram(cells, np.concatenate([[-(10**9)], edges, [10**9]]))[0]
    assert stats.chisquare(observed, expected).pvalue > 1e-6


def test_two_contributions_of_one_party_differ_by_uniform_words() -> None:
    # 100 pairs of rounds with the same data: the top byte of each difference; chi-square at 1e-6
    keys, (data, *_), tops = KEYS[:2], sketches(1), []
    for _ in range(100):
        first, second = (cells_of(a_round(keys).contribute(data, again(keys[0]))) for _ in range(2))
        tops.append((first - second) >> np.uint64(56))
    observed = np.bincount(np.concatenate(tops).astype(int), minlength=256)
    assert stats.chisquare(observed).pvalue > 1e-6


def test_contributions_of_empty_data_have_uniform_cells() -> None:
    # 200 rounds, 64 cells: the top byte of each; chi-square at 1e-6
    keys, empty = KEYS[:2], PROJECTION.sketch()
    tops = [cells_of(a_round(keys).contribute(empty, again(keys[0]))) >> np.uint64(56) for _ in range(200)]
    observed = np.bincount(np.concatenate(tops).astype(int), minlength=256)
    assert stats.chisquare(observed).pvalue > 1e-6


def test_a_party_contributes_once_to_a_round() -> None:
    agreed, key = a_round(KEYS[:2]), again(KEYS[0])
    agreed.contribute(PROJECTION.sketch(), key)
    with pytest.raises(InvalidInputError, match=r"already.*Send the same bytes again"):
        agreed.contribute(PROJECTION.sketch(), key)
    a_round(KEYS[:2]).contribute(PROJECTION.sketch(), key)


def _tampered(data: bytes, change: Callable[[dict[str, object]], object]) -> bytes:
    fields = json.loads(data)
    change(fields)
    return json.dumps(fields).encode()


def test_what_is_tampered_with_doubled_foreign_or_late_is_refused_by_name() -> None:
    keys, data = KEYS[:3], sketches(3)
    agreed, other = a_round(keys), a_round(keys)
    sent = contributions(agreed, keys, data)
    foreign = other.contribute(data[0], again(keys[0]))
    stranger = a_round([KEYS[3], *keys[1:]]).contribute(data[0], again(KEYS[3]))

    def flip(fields: dict[str, object]) -> None:
        payload = bytearray(base64.b64decode(str(fields["payload"])))
        payload[-500] ^= 1
        fields["payload"] = base64.b64encode(payload).decode()

    for wrong, said in [
        ([_tampered(sent[0], flip), *sent[1:]], r"signature of Mercy \(.*does not match"),
        ([*sent, sent[1]], r"Hope \(\w+\) contributed twice"),
        (sent[:2], r"no contribution of Grace \(\w+\)"),
        ([foreign, *sent[1:]], r"contribution of Mercy \(\w+\) is to another round"),
        ([stranger, *sent[1:]], "none of the expected keys"),
        ([b"{}", *sent[1:]], "not a signed envelope"),
        ([b"[" * 5000, *sent[1:]], "not a signed envelope"),
        ([b"[" * 10_000, *sent[1:]], "10000 bytes or more, over the limit"),
    ]:
        with pytest.raises(StreamsketchError, match=said):
            agreed.combine(wrong)
    claimed = decode_contribution(
        envelope.unseal(sent[0], CONTRIBUTION, agreed.parties)[0], cells=PROJECTION.sketch_dim
    )
    other_place = envelope.seal(encode_contribution(claimed._replace(party=1)), CONTRIBUTION, keys[0])
    with pytest.raises(InvalidInputError, match=r"contribution of Mercy \(\w+\) states the place of another party, 1"):
        agreed.combine([other_place, *sent[1:]])
    fewer = a_round(keys[:2])  # made without Grace, whose contribution to the first round comes late, or to this one
    two = contributions(fewer, keys[:2], data[:2])
    for late, said in [(sent[2], "none of the expected keys: Mercy"), (sent[1], r"Hope \(\w+\) is to another round")]:
        with pytest.raises(StreamsketchError, match=said):
            fewer.combine([*two[: 1 + (late is sent[2])], late])
    same = contributions(agreed, keys, [data[0], data[0].copy(), data[2]])
    with pytest.raises(InvalidInputError, match=r"Mercy \(\w+\) and Hope \(\w+\) contributed the same data"):
        agreed.combine(same)


def test_a_round_travels_as_json_and_is_signed_by_all_before_anybody_contributes() -> None:
    agreed = a_round(KEYS[:3], honest=2, delta=1e-9)
    half = Round.from_json(agreed.signed(KEYS[0]).to_json())
    assert half == agreed
    assert half.fingerprint == agreed.fingerprint
    with pytest.raises(SignatureError, match=r"Hope \(\w+\), Grace \(\w+\) did not sign"):
        half.contribute(PROJECTION.sketch(), again(KEYS[1]))
    whole = half.signed(KEYS[1]).signed(KEYS[2])
    Round.from_json(whole.to_json()).contribute(PROJECTION.sketch(), again(KEYS[1]))
    known = Round.from_json(agreed.to_json(), parties=[key.public for key in KEYS[:3]])
    known.contribute(PROJECTION.sketch(), again(KEYS[1]))
    with pytest.raises(SignatureError, match="other parties"):
        Round.from_json(agreed.to_json(), parties=[key.public for key in (KEYS[0], KEYS[1], KEYS[3])])


def test_a_signature_of_another_round_or_a_changed_round_is_refused() -> None:
    agreed = a_round(KEYS[:2]).signed(KEYS[0])
    fields = json.loads(agreed.to_json())
    for name, value in [("epsilon", 2.0), ("honest", 2), ("round", "00" * 16), ("parties", fields["parties"][::-1])]:
        if fields[name] == value:
            continue
        with pytest.raises(
            (SignatureError, InvalidInputError), match=r"signed another round|not canonical, or its noise"
        ):
            Round.from_json(json.dumps(fields | {name: value}))
    weaker = json.loads(a_round(KEYS[:2], epsilon=2.0).to_json()) | {"signatures": fields["signatures"]}
    with pytest.raises(SignatureError, match="signed another round"):
        Round.from_json(json.dumps(weaker))
    far = fields | {"neighbours": fields["neighbours"] | {"bound": "1e999999999"}}
    for broken in (
        far,
        fields | {"more": 1},
        fields | {"signatures": fields["signatures"] * 3},
        {"x": "x" * (1 << 21)},
    ):
        with pytest.raises(InvalidInputError, match="round"):
            Round.from_json(json.dumps(broken))
    for broken in ("", "{}", "[]", json.dumps(fields | {"parties": ["x"]}), json.dumps(fields | {"signatures": [1]})):
        with pytest.raises((InvalidInputError, SignatureError)):
            Round.from_json(broken)


def test_keys_keep_their_secret_and_say_what_is_wrong(tmp_path: Path) -> None:
    folder = tmp_path
    key = Key.generate("North")
    key.save(folder / "plain.pem")
    key.save(folder / "locked.pem", passphrase=chr(112))
    assert (folder / "plain.pem").stat().st_mode & 0o777 == 0o600
    assert Key.load(folder / "plain.pem", name="North").public == key.public
    for path, passphrase, said in [
        ("locked.pem", None, "needs a passphrase"),
        ("locked.pem", "q", "passphrase is wrong"),
        ("plain.pem", "p", "has no passphrase"),
    ]:
        with pytest.raises(InvalidInputError, match=said):
            Key.load(folder / path, passphrase=passphrase)
    (folder / "text.pem").write_text("hello")
    with pytest.raises(InvalidInputError, match="does not hold"):
        Key.load(folder / "text.pem")
    with pytest.raises(FileExistsError):
        key.save(folder / "plain.pem")
    with pytest.raises(TypeError, match="cannot be pickled"):
        key.__reduce__()
    assert PublicKey.from_text(key.public.to_text()) == key.public
    with pytest.raises(InvalidInputError, match="begins with streamsketch-key-1"):
        PublicKey.from_text((folder / "plain.pem").read_text())


def test_rounds_that_hide_nobody_are_refused() -> None:
    for changes, said in [
        ({"parties": [KEYS[0].public]}, "2 to 1024 parties"),
        ({"parties": [KEYS[0].public] * 2}, "twice"),
        ({"honest": 1}, "honest must be"),
        ({"honest": 4}, "honest must be"),
        ({"round_id": b""}, "round id"),
        ({"mechanism": "gaussian"}, "delta"),
    ]:
        with pytest.raises(InvalidInputError, match=said):
            a_round(KEYS[:3], **changes)
    agreed = a_round(KEYS[:2])
    with pytest.raises(TypeError, match="only a Sketch"):
        agreed.contribute(PROJECTION, KEYS[0])  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="is not a party of this round"):
        agreed.contribute(PROJECTION.sketch(), again(KEYS[2]))
    with pytest.raises(ss.errors.IncompatibleProjectionsError):
        agreed.contribute(ss.SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=8).sketch(), again(KEYS[0]))


@pytest.mark.parametrize("half", ["signing", "key_exchange"])
def test_a_party_may_not_have_half_of_a_key_of_another(half: str) -> None:
    """Parties with one key of masks could take off each other's, and those with one of signatures sign for both."""
    first, second = KEYS[0].public, KEYS[1].public
    copied = dataclasses.replace(second, **{half: getattr(first, half)})
    with pytest.raises(InvalidInputError, match="in the list of parties twice"):
        a_round(KEYS[:3], parties=[first, copied, KEYS[2].public])


def test_a_contribution_of_other_cells_is_a_format_error() -> None:
    small = ss.SJLT(dim=1 << 40, sketch_dim=32, sparsity=4, seed=7)
    narrow = Round(small, epsilon=1.0, neighbours=ONE, parties=[key.public for key in KEYS[:2]])
    sent = narrow.contribute(small.sketch(), again(KEYS[0]))
    with pytest.raises(WireFormatError, match="are 32, and the round has 64"):
        a_round(KEYS[:2]).combine([sent])
