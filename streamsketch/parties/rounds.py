"""A round: several parties publish the sum of their sketches with one noise, and nobody sees more than the sum."""

import dataclasses
import functools
import hashlib
import json
import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from streamsketch.core import Ints, short
from streamsketch.errors import InvalidInputError, SignatureError
from streamsketch.parties import envelope
from streamsketch.parties.contributions import (
    Contribution,
    contribution_bytes,
    decode_contribution,
    encode_contribution,
    ids_of_all,
    key_id,
)
from streamsketch.parties.keys import Key, PublicKey
from streamsketch.parties.masks import add_masks
from streamsketch.privacy import (
    L1,
    AddedNoise,
    BitSource,
    Budget,
    Guarantee,
    Mechanism,
    Neighbours,
    Noise,
    OneCoordinate,
    Shares,
    SystemBits,
    calibration,
)
from streamsketch.projections import Projection
from streamsketch.release import (
    RELEASE_ID_BYTES,
    Account,
    PrivateSketch,
    charge,
    check_carried,
    check_neighbours,
    sensitivity_of,
)
from streamsketch.sketching import Sketch

_ROUND_ID_BYTES = 16
_MOST_PARTIES = 1024
_MOST_TEXT = 1 << 21  # characters: of as many parties and signatures
_ENVELOPE_BYTES = 4096  # more than is around a payload
CONTRIBUTION = "application/vnd.streamsketch.contribution.v1"
_AGREED = "application/vnd.streamsketch.round.v1+json"
_RELATIONS: dict[str, type[Neighbours]] = {relation.kind: relation for relation in (L1, OneCoordinate)}


@dataclasses.dataclass(frozen=True)
class Round:
    """What parties agree on before they publish the sum of their sketches with one noise for all.

    Each party adds to its exact cells a share of the noise, drawn by the operating system's CSPRNG, and masks that
    cancel in the sum, and sends the result. The sum of all contributions is a release with the noise of **one**
    release, where merging each party's release would have that of all. Whoever adds up the contributions, or reads
    some of them, learns nothing but the sum, as long as two parties at least keep their keys to themselves.

    The release is (ε, δ)-differentially private for ``neighbours`` against everybody who does not know ``honest``
    parties' shares. For Laplace noise the honest shares add up to exactly the discrete Laplace of a central release
    (Goryczka and Xiong 2015; THEORY.md 9.1), for Gaussian noise to a sum of discrete Gaussians (Kairouz, Liu and
    Steinke 2021) whose difference from one is part of the calibration (THEORY.md 9.2). Because of the masks the
    guarantee is computational.

    Parameters
    ----------
    projection
        The public map of all parties.
    epsilon, delta, neighbours, mechanism
        As in `Sketch.release`. A unit whose data are at several parties moves the sum by all its contributions: the
        bound is on all of them together.
    parties
        The public keys of all parties, at least two, in an order that all agree on. Each party must have got them on a
        way that nobody can change them on, or have compared `fingerprint` with the others: whoever swaps a key can take
        the masks of its owner away. Keys are best made for one round: a private key that leaks later takes the masks
        off its owner's contributions to earlier rounds.
    honest
        How many parties follow the round and tell nobody their share; by default all. The others may collude with the
        combiner and with each other: they then see the sum of the honest parties' contributions, shares included, and
        the guarantee holds for that. With h of n honest the noise has n/h times the variance of one release. Should
        fewer be honest than stated, Laplace noise of m < h shares still gives pure differential privacy, but with a
        multiple of ε that grows with the scale (9 of 10 at scale 1000: 3.5): choose h low.
    round_id
        16 random bytes; by default new ones. Never used twice.
    signatures
        Of `signed`; not part of what is agreed on.

    Raises
    ------
    InvalidInputError
        For fewer than two parties, a key that is there twice, ``honest`` outside 2 to the number of parties, and as
        `Sketch.release`.

    Examples
    --------
    >>> from streamsketch import L1, SJLT
    >>> from streamsketch.parties import Key, Round
    >>> keys = [Key.generate(name) for name in ("North", "South", "West")]
    >>> projection = SJLT(dim=1 << 40, sketch_dim=64, sparsity=4, seed=7)
    >>> agreed = Round(projection, epsilon=1.0, neighbours=L1(1, unit="visit"), parties=[key.public for key in keys])
    >>> contributions = [agreed.contribute(projection.sketch(), key) for key in keys]
    >>> print(agreed.combine(contributions).guarantee.mechanism)
    discrete Laplace, scale 4, in shares of 3 parties
    """

    projection: Projection
    _: dataclasses.KW_ONLY
    epsilon: float
    neighbours: Neighbours
    parties: Sequence[PublicKey]
    delta: float = 0.0
    mechanism: str = "auto"
    honest: int | None = None
    round_id: bytes = dataclasses.field(default_factory=functools.partial(secrets.token_bytes, _ROUND_ID_BYTES))
    signatures: Sequence[bytes] | None = dataclasses.field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        parties = tuple(self.parties)
        if not all(isinstance(one, PublicKey) for one in parties):
            raise TypeError("parties are PublicKey objects: key.public of a Key, or PublicKey.from_text")
        if not 2 <= len(parties) <= _MOST_PARTIES:
            raise InvalidInputError(f"a round takes 2 to {_MOST_PARTIES} parties, got {len(parties)}")
        for half in ("signing", "agreement"):
            if len({getattr(one, half) for one in parties}) < len(parties):
                raise InvalidInputError("a public key is in the list of parties twice; each party has keys of its own")
        honest = len(parties) if self.honest is None else self.honest
        if type(honest) is not int or not 2 <= honest <= len(parties):
            raise InvalidInputError(
                f"honest must be an integer from 2, as the masks of a single party hide nothing, to the "
                f"{len(parties)} parties, got {short(self.honest)}"
            )
        if type(self.round_id) is not bytes or len(self.round_id) != _ROUND_ID_BYTES:
            raise InvalidInputError(f"a round id is {_ROUND_ID_BYTES} random bytes; leave it out for new ones")
        check_neighbours(self.neighbours)
        check_carried(self.neighbours)
        budget = Budget(self.epsilon, self.delta)
        object.__setattr__(self, "parties", parties)
        object.__setattr__(self, "honest", honest)
        object.__setattr__(self, "epsilon", budget.epsilon)
        object.__setattr__(self, "delta", budget.delta)
        _ = self.noise  # whatever cannot be drawn is refused before there are data

    # --- what is agreed on ------------------------------------------------------------------------------------

    @functools.cached_property
    def noise(self) -> Noise:
        """The noise that the shares of the honest parties add up to."""
        sensitivity, budget = sensitivity_of(self.projection, self.neighbours), Budget(self.epsilon, self.delta)
        kind = type(calibration.choose(sensitivity, budget, self.mechanism))
        return kind.calibrated_in_shares(sensitivity, budget, self._honest)

    @property
    def guarantee(self) -> Guarantee:
        """What the release guarantees."""
        count = len(self.parties)
        who = f"all {count} parties" if self._honest == count else f"at least {self._honest} of the {count} parties"
        conditions = [f"{who} follow the round and keep their keys and shares secret"]
        return Guarantee.of(
            self.noise.spends(Budget(self.epsilon, self.delta)), self.neighbours, Mechanism((self._added,)), conditions
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything agreed on, as hexadecimal text: what the parties compare before they contribute."""
        return self._digest.hex()

    def to_json(self) -> str:
        """Return the round as canonical JSON, its signatures included."""
        fields = self._agreed() | {"signatures": [json.loads(one) for one in self.signatures or ()]}
        return _canonical(fields)

    @classmethod
    def from_json(cls, text: str | bytes, *, parties: Sequence[PublicKey] | None = None) -> "Round":
        """Return the round that `to_json` wrote.

        Parameters
        ----------
        text
            From anybody.
        parties
            The keys that this party knows to be the others', if it has them: a round with other keys is refused.
            Without them `contribute` takes the signatures of all members.

        Raises
        ------
        InvalidInputError
            If it is no round.
        SignatureError
            If a signature does not fit, or the parties are others than expected.
        """
        if len(text) > _MOST_TEXT:
            raise InvalidInputError(f"a round is JSON of at most {_MOST_TEXT} characters, got {len(text)}")
        try:
            fields = json.loads(text)
            if len(fields["signatures"]) > len(fields["parties"]):
                raise ValueError("it has more signatures than parties")  # noqa: TRY301 - as for all that is wrong
            neighbours = fields["neighbours"]
            found = cls(
                Projection.from_json(json.dumps(fields["projection"])),
                epsilon=fields["epsilon"],
                delta=fields["delta"],
                neighbours=_RELATIONS[neighbours["relation"]](
                    neighbours["bound"], neighbours["unit"], neighbours["max_keys"]
                ),
                mechanism=fields["mechanism"],
                parties=[PublicKey.from_text(line) for line in fields["parties"]],
                honest=fields["honest"],
                round_id=bytes.fromhex(fields["round"]),
                signatures=[_canonical(one).encode() for one in fields["signatures"]],
            )
            if found._agreed() | {"signatures": fields["signatures"]} != fields:
                raise ValueError("it is not canonical, or its noise not that of its ε")  # noqa: TRY301
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
            raise InvalidInputError(f"this is no round as Round.to_json writes it: {short(str(error))}") from None
        if parties is not None:
            if tuple(parties) != found.parties:
                raise SignatureError("the round lists other parties, or other keys, than those expected")
            return dataclasses.replace(found, signatures=None)
        found.signers()
        return found

    def signed(self, key: Key) -> "Round":
        """Return the round with a party's signature added: it knows this list of members, and agrees."""
        self._place_of(key.public)
        mine = envelope.sealed(self._digest, _AGREED, key)
        others = [one for one in self.signatures or () if self._signer(one) != key.public]
        return dataclasses.replace(self, signatures=[*others, mine])

    def signers(self) -> tuple[PublicKey, ...]:
        """Return who signed; raise `SignatureError` if a signature is of somebody else, or of another round."""
        return tuple(self._signer(one) for one in self.signatures or ())

    # --- taking part ------------------------------------------------------------------------------------------

    def contribute(
        self, sketch: Sketch, key: Key, *, ledger: Account | None = None, dataset: str | None = None
    ) -> bytes:
        """Return what a party sends: its cells, its share of the noise and its masks, modulo 2^64, signed.

        **Once for each round**: of two contributions to one round the masks cancel, and their difference shows what
        changed. Keep the bytes, and send the same again where they got lost. A key remembers in this process which
        rounds it contributed to. If the others do not complete the round, a new one is another release: the first
        contribution is spent, as a missing party may still complete the sum.

        Parameters
        ----------
        sketch
            The party's exact data, of the round's projection.
        key
            Of the party.
        ledger, dataset
            As in `Sketch.release`. A contribution is charged before it is made, and not given back if the round fails.

        Returns
        -------
        bytes
            A signed envelope, for the combiner; it may be read by anybody.

        Raises
        ------
        TypeError
            If ``sketch`` is no `Sketch`.
        IncompatibleProjectionsError
            If it is of another projection.
        InvalidInputError
            If the key is no party's, or contributed before.
        SignatureError
            For a round read from JSON that not all parties signed.
        """
        if not isinstance(sketch, Sketch):
            raise TypeError(f"only a Sketch is contributed, got a {type(sketch).__name__}")
        self.projection.check_same(sketch.projection)
        place = self._place_of(key.public)
        self._check_signed()
        key.check_unspent(self._digest)
        charge(ledger, dataset, self.guarantee, sketch)
        key.spend(self._digest)
        return self._contribution(sketch, key, place, SystemBits())

    def contribute_again(self, sketch: Sketch, key: Key, bits: BitSource) -> bytes:
        """Return what `contribute` returns, with a share from given bits: for steps that may be repeated.

        The caller sees to it that the bits are a secret function of the round and the exact cells, that no other
        contribution of the party leaves, and that it is charged.
        """
        self.projection.check_same(sketch.projection)
        self._check_signed()
        return self._contribution(sketch, key, self._place_of(key.public), bits)

    def for_key(self, key: str | bytes | int) -> "Round":
        """Return the round for one key of a table, which all parties derive alike: it has masks of its own.

        The guarantee is for all keys together, of which one unit is in ``neighbours.max_keys`` at most. A round read
        from JSON that not all parties signed raises `SignatureError`.
        """
        self._check_signed()
        return dataclasses.replace(self, round_id=key_id(self._digest, key)[:_ROUND_ID_BYTES], signatures=None)

    def _contribution(self, sketch: Sketch, key: Key, place: int, bits: BitSource) -> bytes:
        share = self.noise.sample_share(self._honest, self.projection.sketch_dim, bits)
        cells: Any = np.add(sketch.state(), share).view(np.uint64)
        add_masks(cells, self._digest, key, self.parties, place)
        ids = sketch.data_ids.published()
        message = encode_contribution(Contribution(self._digest, place, cells.view(np.int64), tuple(ids)))
        return envelope.sealed(message, CONTRIBUTION, key)

    def combine(self, contributions: Iterable[bytes]) -> PrivateSketch:
        """Return the release: the sum of all parties' sketches with one noise.

        Anybody may do this; the result is the same for all, and for any order.

        Raises
        ------
        SignatureError
            If a contribution is signed by nobody of the round, or was changed.
        WireFormatError
            If a contribution is of another round.
        InvalidInputError
            If a party contributed twice, or not at all. Without a party there is no sum: make a new round without it.
        """
        found: dict[int, Contribution] = {}
        most = 2 * contribution_bytes(self.projection.sketch_dim) + _ENVELOPE_BYTES  # base64 takes a third more
        for data in contributions:
            payload, signer = envelope.opened(data, CONTRIBUTION, self.parties, max_bytes=most)
            one = decode_contribution(payload, cells=self.projection.sketch_dim)
            place = self._place_of(signer)
            if one.round_digest != self._digest:
                raise InvalidInputError(
                    f"the contribution of {signer} is to another round, {one.round_digest.hex()[:16]}…"
                )
            if one.party != place:
                raise InvalidInputError(f"the contribution of {signer} states the place of another party, {one.party}")
            if place in found:
                raise InvalidInputError(f"{signer} contributed twice; take one of the two")
            found[place] = one
        missing = [str(one) for place, one in enumerate(self.parties) if place not in found]
        if missing:
            raise InvalidInputError(
                f"no contribution of {', '.join(missing)}: the masks cancel only in the sum of all. Wait for it, or "
                f"make a new round without, which is another release of the others' data"
            )
        total: Ints = np.zeros(self.projection.sketch_dim, dtype=np.int64)
        for one in found.values():
            total += one.cells
        digest = hashlib.sha256(b"streamsketch.parties.release" + self._digest + total.astype("<i8").tobytes())
        return PrivateSketch(
            self.projection,
            total,
            self._added.cumulants,
            self.guarantee,
            release_ids=[digest.digest()[:RELEASE_ID_BYTES]],
            data_ids=ids_of_all(found, self.parties),
        )

    # --- inside -----------------------------------------------------------------------------------------------

    @property
    def _honest(self) -> int:
        return len(self.parties) if self.honest is None else self.honest

    @property
    def _added(self) -> AddedNoise:
        return AddedNoise(self.noise, shares=Shares(len(self.parties), self._honest))

    @functools.cached_property
    def _digest(self) -> bytes:
        text = _canonical(self._agreed())
        return hashlib.sha256(b"streamsketch.parties.round.1\n" + text.encode()).digest()

    def _agreed(self) -> dict[str, Any]:
        return {
            "projection": json.loads(self.projection.to_json()),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbours": self.neighbours.to_dict(),
            "mechanism": self.mechanism,
            "noise": {"kind": self.noise.name, "amount": str(self.noise.amount)},
            "parties": [one.to_text() for one in self.parties],
            "honest": self._honest,
            "round": self.round_id.hex(),
        }

    def _place_of(self, key: PublicKey) -> int:
        for place, one in enumerate(self.parties):
            if (one.signing, one.agreement) == (key.signing, key.agreement):
                return place
        raise InvalidInputError(f"{key} is no party of this round: {', '.join(map(str, self.parties))}")

    def _signer(self, data: bytes) -> PublicKey:
        payload, signer = envelope.opened(data, _AGREED, self.parties)
        if payload != self._digest:
            raise SignatureError(f"{signer} signed another round, {payload.hex()[:16]}…, not {self.fingerprint[:16]}…")
        return signer

    def _check_signed(self) -> None:
        if self.signatures is None:  # made here, or with parties known to the caller
            return
        signed = set(self.signers())
        missing = [str(one) for one in self.parties if one not in signed]
        if missing:
            raise SignatureError(
                f"{', '.join(missing)} did not sign this round, so its list of keys may have been changed on the way. "
                f"Wait for the signatures, or give the parties' keys that you know: Round.from_json(text, parties=…)"
            )


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
