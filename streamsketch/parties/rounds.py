"""A round: several parties publish the sum of their sketches with one noise, and no one sees more than the sum."""

import copy
import dataclasses
import functools
import hashlib
import json
import secrets
from collections.abc import Iterable, Sequence
from typing import Any, get_args

import numpy as np

from streamsketch.accounting.ledger import Ledger, charge
from streamsketch.accounting.sensitivity import check_carried, check_mechanism, sensitivity_of
from streamsketch.agreement.agreement import Agreement
from streamsketch.agreement.same import check_fingerprint, fingerprint_of
from streamsketch.core.documents import Json
from streamsketch.core.numbers import short
from streamsketch.errors import IncompatibleAgreementsError, InvalidInputError, SignatureError
from streamsketch.parties import envelope
from streamsketch.parties.contributions import (
    CONTRIBUTION,
    Contribution,
    Share,
    add_masks,
    encode_contribution,
    sum_contributions,
)
from streamsketch.parties.identity import (
    FORMAT,
    canonical,
    check_all_signed,
    check_honest,
    check_members,
    conditions_of,
    digest_of_agreed,
    digest_of_key,
    digest_of_session,
    key_bytes,
    place_of,
    read_signatures,
    sign_round,
)
from streamsketch.parties.keys import Key, PublicKey
from streamsketch.parties.round_fields import arguments_of, fields_in, format_of
from streamsketch.privacy import calibration
from streamsketch.privacy.bounds import Bounds
from streamsketch.privacy.budget import Budget
from streamsketch.privacy.counting import Counting
from streamsketch.privacy.guarantee import Guarantee
from streamsketch.privacy.layout import Layout
from streamsketch.privacy.mechanism import AddedNoise, Mechanism, Shares
from streamsketch.privacy.neighbours import Neighbours
from streamsketch.privacy.noise import Noise
from streamsketch.privacy.samplers import BitSource, SystemBits
from streamsketch.projections.base import Projection
from streamsketch.release.additive_noise import numbers_of
from streamsketch.release.private_sketch import RELEASE_ID_BYTES, PrivateSketch, SketchClip
from streamsketch.release.ready import Ready, Stated
from streamsketch.sketching.sketch import Sketch

_ROUND_ID_BYTES = 16


@dataclasses.dataclass(frozen=True)
class Round:
    """The agreement of parties who publish the sum of their sketches with one noise for all.

    Each party adds a share of the noise, drawn with the operating system's CSPRNG, and masks that cancel in the sum to
    its exact cells, and sends the result. The sum of all contributions is a release with the noise of **one** release;
    the sum of separate releases would have the noise of all of them. Anyone who adds up the contributions, or reads
    some of them, learns only the sum, as long as at least two parties keep their keys secret.

    The release is (ε, δ)-differentially private for ``neighbours`` against anyone who does not know the shares of
    ``honest`` parties. For Laplace noise, the honest shares add up to exactly the discrete Laplace noise of a central
    release (Goryczka and Xiong 2015; Theory 9.1). For Gaussian noise, they add up to a sum of discrete Gaussians
    (Kairouz, Liu and Steinke 2021); the calibration includes its difference from a single one (Theory 9.2). Because of
    the masks the guarantee is computational.

    Parameters
    ----------
    projection
        The public map of all parties.
    epsilon, delta, neighbours, mechanism
        As in `Sketch.release`. The bound is on what a unit contributes to all parties together, so a unit with data at
        two parties counts twice. No party can check that, so it is a condition of the guarantee.
    parties
        The public keys of all parties, at least two, in an order that all agree on. Each party must receive them over a
        channel that no one else can write to, or compare `fingerprint` with the others: anyone who swaps a key can
        remove its owner's masks. Make new keys for each round if you can: a private key that leaks later removes the
        masks from its owner's contributions to earlier rounds.
    honest
        The number of parties that follow the round and keep their share secret; by default all. The others may collude
        with the combiner and with each other. They then see the sum of the honest parties' contributions, shares
        included, and the guarantee holds for that sum. With h of n parties honest, the noise has n/h times the variance
        of one release. If fewer parties are honest than stated, Laplace noise of m < h shares still gives pure
        differential privacy, but with a multiple of ε that grows with the scale (3.5 for 9 of 10 at scale 1000). So
        choose h low.
    counting
        Counts of units beside the cells, as in `AdditiveNoise`. The parties' counts are added up under the masks, as
        cells are. Each party clips and counts its own units, so the guarantee is for units with data at only one party.
    clip
        How all parties clip their units, ``"scale"``, ``"equal"`` or ``"average"``; with `counting`, under `SketchL2`.
        The release states it, and data that were clipped differently are refused.
    agreement
        The fingerprint of the agreement that all parties' data follow; `of` states it. The release names it, and data
        of another agreement are refused; whoever contributes data that name none asserts that they follow it.
    round_id
        16 random bytes, by default new ones. Do not use them twice. Masks do not depend on that alone: each party adds
        32 random bytes when it signs, and a key refuses a second contribution.
    signatures
        The signatures that `signed` added. They are not part of what is agreed on.

    Raises
    ------
    InvalidInputError
        For fewer than two parties, a key that is listed twice, ``honest`` outside 2 to the number of parties, and as
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
    counting: Counting | None = None
    clip: SketchClip | None = None
    agreement: str | None = None
    honest: int | None = None
    round_id: bytes = dataclasses.field(default_factory=lambda: secrets.token_bytes(_ROUND_ID_BYTES))
    signatures: Sequence[bytes] | None = dataclasses.field(default=None, compare=False, repr=False)
    _form: int = dataclasses.field(default=FORMAT, init=False, repr=False)
    _key: bytes | None = dataclasses.field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        parties = check_members(self.parties)
        honest = check_honest(self.honest, len(parties))
        if type(self.round_id) is not bytes or len(self.round_id) != _ROUND_ID_BYTES:
            raise InvalidInputError(f"a round id must have {_ROUND_ID_BYTES} bytes; leave it out for a random one")
        budget = Budget(self.epsilon, self.delta).warn_if_weak()
        check_mechanism(self.neighbours, budget, self.mechanism)
        check_carried(self.neighbours)
        if self.clip is not None:
            self._check_clip(self.clip)
        if self.agreement is not None:
            check_fingerprint(self.agreement)
        object.__setattr__(self, "parties", parties)
        object.__setattr__(self, "signatures", None if self.signatures is None else tuple(self.signatures))
        object.__setattr__(self, "honest", honest)
        object.__setattr__(self, "epsilon", budget.epsilon)
        object.__setattr__(self, "delta", budget.delta)
        _ = self.noise  # whatever cannot be drawn is refused before there are data

    # --- what is agreed on ------------------------------------------------------------------------------------

    @functools.cached_property
    def layout(self) -> Layout:
        """What the release has of each key."""
        return Layout(self.counting)

    @functools.cached_property
    def noise(self) -> Noise:
        """The noise to which the shares of the honest parties add up."""
        sensitivity = sensitivity_of(self.projection, self.neighbours, self.layout)
        budget = Budget(self.epsilon, self.delta)
        kind = type(calibration.choose(sensitivity, budget, self.mechanism))
        return kind.calibrated_in_shares(sensitivity, budget, self._honest)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the release."""
        is_counted, members = self.layout.is_counted, len(self.parties)
        conditions = conditions_of(self._honest, members, self.neighbours.unit, is_counted=is_counted)
        # what a party enforced is known to that party alone
        spent, mechanism = self.noise.spends(Budget(self.epsilon, self.delta)), Mechanism((self._shares,))
        return Guarantee.of(spent, self.neighbours, mechanism, conditions, "asserted")

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that is agreed on, as hexadecimal text, which the parties compare before they contribute."""
        return self._name.hex()

    @functools.cached_property
    def session(self) -> bytes:
        """The 32 bytes from which masks are derived, a hash of all that is agreed on and of what each signer added.

        Raises
        ------
        SignatureError
            If only some parties have signed the round, or it was read from JSON and not all have.
        """
        if self._form == 1:
            return self._name
        if self.signatures is None:
            return digest_of_session(self._name, ())
        self._check_signed()
        return digest_of_session(self._name, [self._added[party] for party in self.parties])

    def to_json(self) -> str:
        """Return the round as canonical JSON with its signatures. A round of `for_key` is derived and has none."""
        self._check_whole()
        fields = _fields_of(self, self._form) | {
            "signatures": [json.loads(signature) for signature in self.signatures or ()]
        }
        return canonical(fields)

    @classmethod
    def from_json(cls, text: str | bytes, *, parties: Sequence[PublicKey] | None = None) -> "Round":
        """Return the round that `to_json` wrote.

        Parameters
        ----------
        text
            The JSON text, from any source.
        parties
            The parties' keys that this party knows, if it has them: a round with other keys is refused. Without them,
            `contribute` requires the signatures of all parties.

        Raises
        ------
        InvalidInputError
            If the text is not a round.
        SignatureError
            If a signature does not fit, or the parties are not those expected; if the parties are known and only some
            of them have signed, because all have to read the same text.
        """
        try:
            fields = fields_in(text)
            agreed = cls(**arguments_of(fields))
            object.__setattr__(agreed, "_form", format_of(fields))
            if _fields_of(agreed, agreed._form) | {"signatures": fields["signatures"]} != fields:
                raise ValueError("it is not canonical, or its noise does not fit its ε")  # noqa: TRY301 - as all of it
        except KeyError as error:
            raise InvalidInputError(f"this is not a round: it has no {short(error.args[0])}") from None
        except (ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
            raise InvalidInputError(f"this is not a round that Round.to_json wrote: {short(str(error))}") from None
        agreed.signers()
        if parties is not None:
            if tuple(parties) != agreed.parties:
                raise SignatureError(
                    "the round lists other parties or keys than expected; ask for the round that all parties signed"
                )
            if agreed.signatures:
                agreed._check_signed()
            else:
                object.__setattr__(agreed, "signatures", None)
        return agreed

    @classmethod
    def of(cls, agreement: Agreement, parties: Sequence[PublicKey], *, honest: int | None = None) -> "Round":
        """Return the round of an agreement and its parties: it spends what the agreement says, for whom it says.

        Each party contributes what ``agreement.sketch(rows)`` returns; of an agreement with listed keys, the sketch of
        each key by `for_key`.

        Parameters
        ----------
        agreement
            With terms of noise, without windows, and with listed keys if it has a key column.
        parties, honest
            As in `Round`.

        Raises
        ------
        InvalidInputError
            If no round can follow the agreement; and as in `Round`.

        Examples
        --------
        >>> from streamsketch import L1, SJLT, Agreement, Terms
        >>> from streamsketch.parties import Key, Round
        >>> projection = SJLT(sketch_dim=64, sparsity=4, seed=7)
        >>> agreement = Agreement(projection, index="item", neighbours=L1(1, unit="visit"), terms=Terms(epsilon=1))
        >>> Round.of(agreement, [Key.generate(name).public for name in ("North", "South")]).epsilon
        1.0
        """
        terms, neighbours = agreement.terms, agreement.neighbours
        if terms is None or neighbours is None or not terms.is_noise:
            stated = "does not say what a release spends" if terms is None else f"publishes by {terms}"
            raise InvalidInputError(
                f"the agreement {stated}, and parties of a round share noise: agree on epsilon (and delta) and noise; "
                "signs are published by agreement.release(rows), by each party"
            )
        if agreement.windows is not None:
            raise InvalidInputError(
                "a round publishes one sum, and the agreement has windows: agree without them for each round, or "
                "publish them by agreement.release(rows), by each party"
            )
        if agreement.key is not None and not isinstance(agreement.keys, tuple):
            raise InvalidInputError(
                "all parties of a round add up the same keys: list them in the agreement; others are published by "
                "agreement.release(rows), by each party"
            )
        counted = agreement.counting is not None and neighbours.of_sketches
        clip: Any = agreement.clip_of() if counted else None
        return cls(
            agreement.projection,
            epsilon=terms.budget.epsilon,
            delta=terms.budget.delta,
            mechanism=terms.mechanism,
            neighbours=neighbours,
            counting=agreement.counting,
            clip=clip,
            agreement=agreement.fingerprint,
            parties=parties,
            honest=honest,
        )

    def signed(self, key: Key) -> "Round":
        """Return the round with a party's signature added, by which the party agrees to this list of members.

        A signature adds 32 random bytes, from which the masks are derived, so that the masks are new for any author of
        the round. Signing twice changes nothing.

        Raises
        ------
        InvalidInputError
            If the key is not a party's, or the round is from `for_key` or of an earlier version.
        SignatureError
            If another signature does not fit.
        """
        self._check_whole()
        self._check_format()
        own = self.parties[place_of(key.public, self.parties)]
        if own in self.signers():
            return self
        return dataclasses.replace(self, signatures=[*(self.signatures or ()), sign_round(self._name, key)])

    def signers(self) -> tuple[PublicKey, ...]:
        """Return who signed; raise `SignatureError` if a signature is of somebody else, or of another round."""
        return tuple(self._added)

    # --- taking part ------------------------------------------------------------------------------------------

    def contribute(
        self,
        sketch: Sketch,
        key: Key,
        *,
        assert_bounds: bool = False,
        ledger: Ledger | None = None,
        dataset: str | None = None,
    ) -> bytes:
        """Return a party's signed contribution: its cells plus its share of the noise plus its masks, modulo 2^64.

        **Contribute once to each round**: in the difference of two contributions to one round the masks cancel, and it
        shows what changed. Keep the bytes, and send the same bytes again if they get lost. A key records its rounds in
        a file beside its own (`Key.load`). If the others do not complete the round, a new one is another release: the
        first contribution is spent, because a missing party may still complete the sum.

        Parameters
        ----------
        sketch
            The party's exact data, of the round's projection.
        key
            The party's key.
        assert_bounds
            As in `Sketch.release`, for the round's neighbours.
        ledger, dataset
            As in `Sketch.release`. A contribution is charged before it is made, and is not refunded if the round fails.

        Returns
        -------
        bytes
            A signed envelope for the combiner, which anyone may read.

        Raises
        ------
        TypeError
            If ``sketch`` is not a `Sketch`.
        IncompatibleProjectionsError, IncompatibleAgreementsError
            If the sketch has another projection, or follows another agreement than the round names.
        InvalidInputError
            If the key is not a party's or contributed before; if the round is of an earlier version; if the bounds
            known for the data do not imply the round's neighbours; or if units are to be counted, but were not, or only
            under a condition, as after a merge of ``disjoint_units``.
        SignatureError
            If the round was read from JSON and not all parties signed it.
        OSError
            If the file that records a key's rounds cannot be written.
        """
        if not isinstance(sketch, Sketch):
            raise TypeError(f"only a Sketch can be contributed, got a {type(sketch).__name__}")
        self.projection.check_same(sketch.projection)
        self._check_follows(sketch)
        place = place_of(key.public, self.parties)
        self.check_ready(key)
        agreed = None if sketch.agreement is None else sketch.agreement.neighbours
        sketch.bounds.basis_for(self.neighbours, agreed, assert_bounds=assert_bounds)
        self.check_counted(sketch.bounds)
        charge(ledger, dataset, self.guarantee, sketch)
        key.spend(self._whole, self._name)
        return self._contribution(sketch, key, place, SystemBits())

    def contribute_again(self, sketch: Sketch, key: Key, bits: BitSource) -> bytes:
        """Return a contribution with a share from given bits, for steps that may be repeated; see `contribute`.

        The caller must ensure that the bits are a secret function of the round and the exact cells, and that the
        contribution is charged. The key records the contribution: the same bytes are returned again, and others are
        refused.
        """
        self.projection.check_same(sketch.projection)
        self._check_follows(sketch)
        self.check_counted(sketch.bounds)
        self.check_ready()
        made = self._contribution(sketch, key, place_of(key.public, self.parties), bits)
        key.spend(self._whole, self._name, sent=hashlib.sha256(made).digest())
        return made

    def check_ready(self, key: Key | None = None) -> None:
        """Raise an error if nobody may contribute yet or any more; with a key, also if its party already did."""
        self._check_format()
        self._check_signed()
        if key is not None:
            key.check_unspent(self._whole, self._name)

    def _check_follows(self, sketch: Sketch) -> None:
        """Raise `IncompatibleAgreementsError` if a sketch follows another agreement than the round names.

        Of one that follows none, its party asserts that it follows that of the round, by contributing it.
        """
        own = fingerprint_of(sketch.agreement)
        if self.agreement is not None and own not in (None, self.agreement):
            raise IncompatibleAgreementsError(
                f"all data of this round follow the agreement {self.agreement}, this sketch the agreement {own}: make "
                "it by agreement.sketch(rows)"
            )

    def _check_clip(self, clip: str) -> None:
        if clip not in get_args(SketchClip) or not self.neighbours.of_sketches or self.counting is None:
            raise InvalidInputError(
                "clip must be 'scale', 'equal' or 'average' in a round with SketchL2 and counting, and None in others; "
                f"got {short(clip)} for {self.neighbours!r}, {self.counting or 'without counting'}"
            )
        self.neighbours.check_clip(clip)

    def check_counted(self, bounds: Bounds) -> None:
        """Raise `InvalidInputError` if units are to be counted, or clipped alike, and those of these data were not.

        Nor may the counts rest on a condition, which the guarantee of all parties would not state.
        """
        if not self.layout.is_known(bounds, self.neighbours):
            raise InvalidInputError(
                f"the round counts {self.neighbours.units}, but these data have no count of them; bound the data with "
                "streamsketch.bound, to neighbours of the same type and each key by itself"
            )
        if self.layout.is_counted and bounds.conditions:
            raise InvalidInputError(
                f"the round counts {self.neighbours.units}, and the counts of these data hold only if: "
                f"{'; '.join(bounds.conditions)}. The round does not state that; bound all rows of the party together"
            )
        relation = bounds.neighbours
        if self.clip is not None and (
            bounds.clip != self.clip or relation is None or relation.bound != self.neighbours.bound
        ):
            raise InvalidInputError(
                f"all parties of the round clip units by {self.clip!r} to {self.neighbours.bound}, and these data were "
                f"clipped by {bounds.clip!r} to {relation and relation.bound}: bound them to the round's neighbours"
            )

    def for_key(self, key: str | bytes | int) -> "Round":
        """Return the round for one key of a table, which all parties derive alike. It has masks of its own.

        No proposed round has the name or the masks of a derived one, whatever its id.

        The guarantee is for all keys together, of which one unit is in ``neighbours.max_keys`` at most. A round read
        from JSON that not all parties signed raises `SignatureError`, a round of `for_key` `InvalidInputError`.
        """
        self._check_whole()
        self._check_signed()
        child = copy.copy(self)
        for derived in ("session", "_name"):
            child.__dict__.pop(derived, None)
        object.__setattr__(child, "_key", key_bytes(key))
        return child

    def _contribution(self, sketch: Sketch, key: Key, place: int, bits: BitSource) -> bytes:
        exact = numbers_of(sketch, self.neighbours, self.layout)
        share = Share(self.projection, self.guarantee, self.noise, self._honest)
        cells: Any = Ready(share, exact.reshape(1, -1), Stated(sketch.data_ids)).draw(bits).view(np.uint64)
        add_masks(cells, self.session, key, self.parties, place)
        ids = sketch.data_ids.published()
        message = encode_contribution(Contribution(self.session, place, cells.view(np.int64), tuple(ids)))
        return envelope.seal(message, CONTRIBUTION, key)

    def combine(self, contributions: Iterable[bytes]) -> PrivateSketch:
        """Return the release, which is the sum of all parties' sketches with one noise.

        Anyone may do this, with contributions in any order; the result is the same.

        Raises
        ------
        SignatureError
            If a contribution was changed, or is not signed by a party of the round; if the round was read from JSON and
            not all parties signed it.
        WireFormatError
            If a contribution is for another round.
        InvalidInputError
            If a party contributed twice or not at all. If one is missing for good, make a new round.
        """
        layout, k = self.layout, self.projection.sketch_dim
        total, ids = sum_contributions(contributions, self.session, self.parties, cells=layout.width(k))
        cells, counts = layout.split(total, k)
        digest = hashlib.sha256(b"streamsketch.parties.release" + self.session + total.astype("<i8").tobytes())
        return PrivateSketch(
            self.projection,
            cells,
            self._shares.cumulants,
            self.guarantee,
            release_ids=[digest.digest()[:RELEASE_ID_BYTES]],
            data_ids=ids,
            counts=counts,
            clip=self.clip,
            agreement=self.agreement,
        )

    # --- inside -----------------------------------------------------------------------------------------------

    @property
    def _honest(self) -> int:
        return len(self.parties) if self.honest is None else self.honest

    @property
    def _shares(self) -> AddedNoise:
        shares = Shares(len(self.parties), self._honest)
        return AddedNoise(self.noise, shares=shares, layout=self.layout)

    @functools.cached_property
    def _whole(self) -> bytes:
        """The name of the round that was agreed on."""
        return digest_of_agreed(_fields_of(self, self._form), self._form)

    @functools.cached_property
    def _name(self) -> bytes:
        """The name of this round, which may be the one for a key."""
        if self._key is None:
            return self._whole
        return digest_of_key(_fields_of(self, self._form), self._key, self._form)

    @functools.cached_property
    def _added(self) -> dict[PublicKey, bytes]:
        """Who signed, and what each added; in format 1 nothing."""
        return read_signatures(self.signatures or (), self._whole, self._form, self.parties)

    def _check_whole(self) -> None:
        if self._key is not None:
            raise InvalidInputError(
                "this is the round for one key of a table; use the table's round, which all parties signed"
            )

    def _check_format(self) -> None:
        if self._form != FORMAT:
            raise InvalidInputError(
                "the round was written by an earlier version, in which rounds of tables could share masks. Its "
                "contributions can still be combined; make a new round for new ones"
            )

    def _check_signed(self) -> None:
        if self.signatures is None:  # made here, or with parties known to the caller
            return
        check_all_signed(self._added, self.parties)


def _fields_of(agreed: Round, form: int) -> Json:
    """Return what a round agrees on, in a format."""
    fields = {
        "projection": json.loads(agreed.projection.to_json()),
        "epsilon": agreed.epsilon,
        "delta": agreed.delta,
        "neighbours": agreed.neighbours.to_dict(),
        "mechanism": agreed.mechanism,
        "noise": {"kind": agreed.noise.name, "amount": str(agreed.noise.amount)},
        "parties": [party.to_text() for party in agreed.parties],
        "honest": agreed.honest,
        "round": agreed.round_id.hex(),
    }
    if form == 1:
        return fields
    later: dict[str, object] = {
        "counting": agreed.counting and agreed.counting.to_dict(),
        "clip": agreed.clip,
        "agreement": agreed.agreement,
    }
    return fields | {name: value for name, value in later.items() if value is not None} | {"format": form}
