"""``streamsketch party round``: the sum of several parties' sketches with the noise of one release."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import streamsketch as ss
from streamsketch.cli._agreeing import AssertBounds
from streamsketch.cli._keys import KeyOption, Parties, private_key, public_keys
from streamsketch.cli._layout import show_facts
from streamsketch.cli._options import option
from streamsketch.cli._reading import naming_raw
from streamsketch.cli._releasing import Again, DatasetOption, LedgerOption, ledger_for
from streamsketch.cli._saying import say
from streamsketch.cli._showing import AsJson, guarantee_fields, show_json, show_result
from streamsketch.cli._writing import new_file
from streamsketch.core.files import locked, write_whole
from streamsketch.core.limits import current_limits, read_bounded
from streamsketch.parties.keys import PublicKey
from streamsketch.parties.rounds import Round
from streamsketch.release.private_sketch import RELEASE_ID_BYTES
from streamsketch.storage.raw_files import transaction
from streamsketch.storage.releases import released_before
from streamsketch.storage.sketches import PastRelease

if TYPE_CHECKING:
    from streamsketch.core.documents import Json

ROUND, CONTRIBUTION = ".json", ".contribution"

RoundFile = Annotated[Path, typer.Argument(help="File of the round, .json.", metavar="ROUND")]


def new(
    output: Annotated[Path, typer.Argument(help="File to write, .json.", metavar="ROUND")],
    *,
    agreement: Annotated[
        Path,
        option(
            "Input",
            "FILE",
            "Agreement of all parties, which gives the projection, the bound and what is spent: a JSON file.",
        ),
    ],
    party: Parties = None,
    honest: Annotated[
        int | None,
        option(
            "Privacy", "NUMBER", "Number of parties that follow the round and keep their shares secret. By default all."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    r"""Write down what parties agree on before they publish one sum.

    Everybody signs it, then contributes. The bound is on what one unit contributes to all parties together. If the
    agreement counts units, and the round uses the agreement's bound, the sum contains the number of units. Each unit
    must then have data at one party only.

    $ streamsketch party round new round.json --agreement total.json --party north.pub \
        --party south.pub
    """
    new_file(output, ROUND, "a round")
    agreed = ss.Agreement.load(agreement)
    if agreed.neighbours is None:
        raise ss.InvalidInputError(
            f"{agreement} does not say how much one unit can change: make it with --unit-column COLUMN or --l1 BOUND"
        )
    _check_terms(agreed, agreement)
    made = Round.of(agreed, public_keys(party) or (), honest=honest)
    write_whole(output, made.to_json().encode())
    _show(output, made, as_json=as_json)


def _check_terms(agreed: ss.Agreement, name: Path) -> None:
    """Raise an error with the command that helps, unless the agreement says what the round spends."""
    if agreed.terms is None:
        raise ss.InvalidInputError(
            f"{name} does not say what the round spends: `streamsketch agree {name} --epsilon EPSILON --delta DELTA -o "
            "terms.json` adds it"
        )
    if not agreed.terms.is_noise:
        raise ss.InvalidInputError(f"a round adds noise, and {name} publishes by {agreed.terms}")


def show(file: RoundFile, *, as_json: AsJson = False) -> None:
    """Show what a round agrees on, its fingerprint, and who has signed it.

    $ streamsketch party round show round.json
    """
    _show(file, _read(file), as_json=as_json)


def sign(file: RoundFile, *, key: KeyOption, party: Parties = None, as_json: AsJson = False) -> None:
    """Sign a round, in its file: you agree with it, and confirm that each key in it is its party's.

    Pass the keys that you know by --party. Each must have come over a channel that nobody can tamper with. A round with
    another key is refused, because anyone who swaps a key can unmask the contributions of its owner.

    $ streamsketch party round sign round.json --key north.pem --party south.pub
    """
    signer = private_key(key)
    with locked(file):
        agreed = _read(file)
        _check_known(agreed, [signer.public, *(public_keys(party) or ())])
        signed = agreed.signed(signer)
        write_whole(file, signed.to_json().encode())
    _show(file, signed, as_json=as_json)


def contribute(  # noqa: PLR0913 - a command's options are its parameters
    file: RoundFile,
    raw: Annotated[Path, typer.Argument(help="A .raw-sketch file of one stream.", metavar="RAW")],
    *,
    key: KeyOption,
    output: Annotated[Path, option("Output", "FILE", "File to write and to send, .contribution.", "--output", "-o")],
    again: Again = False,
    assert_bounds: AssertBounds = False,
    ledger: LedgerOption = None,
    dataset: DatasetOption = None,
    as_json: AsJson = False,
) -> None:
    """Write what a party sends in a round: its sketch, with noise and masks.

    A party contributes once to each round. The contribution counts as a release from now on, even if the others do not
    complete the round, because a missing party may still do so. The raw file and a file next to the key both record the
    contribution.

    $ streamsketch party round contribute round.json total.raw-sketch --key north.pem -o north.contribution
    """
    new_file(output, CONTRIBUTION, "a contribution")
    agreed, signer = _read(file), private_key(key)
    agreed.check_ready(signer)
    with naming_raw(raw), transaction(raw) as raw_file:
        loaded = raw_file.load()
        if not isinstance(loaded.state, ss.Sketch):
            raise ss.InvalidInputError(f"{raw} holds many keys, and a round is of one stream")
        which, releases = released_before(loaded, raw)
        if releases and not again:
            raise ss.InvalidInputError(
                f"{which} released before: {'; '.join(str(past.guarantee) for past in releases)}. Give --again if that "
                f"is meant: the same people pay for each release"
            )
        sent = agreed.contribute(
            loaded.state, signer, assert_bounds=assert_bounds, ledger=ledger_for(ledger, dataset), dataset=dataset
        )
        # recorded before it is sent, by an id that no other round has
        taken_part = agreed.session[:RELEASE_ID_BYTES].hex()
        raw_file.record(PastRelease.of(agreed.guarantee, taken_part, loaded.state.data_ids))
    write_whole(output, sent)
    facts = {"to the round": agreed.fingerprint, "spends": str(agreed.guarantee)}
    fields = {"file": str(output), "round": agreed.fingerprint, "guarantee": guarantee_fields(agreed.guarantee)}
    show_result(str(output), facts, fields, as_json=as_json)


def combine(
    file: RoundFile,
    contributions: Annotated[
        list[Path], typer.Argument(help="The .contribution files of all parties.", metavar="FILE")
    ],
    *,
    output: Annotated[Path, option("Output", "FILE", "File to write, .sketch.", "--output", "-o")],
    as_json: AsJson = False,
) -> None:
    """Add up all parties' contributions: one release, with the same bits whoever adds them up.

    $ streamsketch party round combine round.json north.contribution south.contribution -o sum.sketch
    """
    new_file(output, ".sketch", "a release")
    agreed = _read(file)
    most = current_limits().max_bytes
    released = agreed.combine(read_bounded(path, most) for path in contributions)
    released.save(output)
    facts = {"guarantee": str(released.guarantee), "squared norm": str(ss.squared_norm(released))}
    facts |= {} if released.counts is None else {"units": str(released.units)}
    fields = {"file": str(output), "guarantee": guarantee_fields(released.guarantee)}
    show_result(str(output), facts, fields, as_json=as_json)


def _read(path: Path) -> Round:
    """Return the round in a file, its signatures checked; errors name the file."""
    try:
        return Round.from_json(read_bounded(path, current_limits().max_header_bytes, "max_header_bytes"))
    except ss.StreamsketchError as error:
        text = str(error)
        named = f"{path}{text.removeprefix('this')}" if text.startswith("this is not") else f"{path}: {text}"
        kind = ss.InvalidInputError if isinstance(error, ss.errors.WireFormatError) else type(error)
        raise kind(named) from None


def _check_known(agreed: Round, keys: list[PublicKey]) -> None:
    prints = {key.fingerprint for key in keys}
    unknown = [str(party) for party in agreed.parties if party.fingerprint not in prints]
    if unknown:
        raise ss.InvalidInputError(
            f"the round lists keys that you did not name: {', '.join(unknown)}. Give the public key of each "
            f"other party as --party FILE, once you know it to be theirs"
        )


def _show(path: Path, agreed: Round, *, as_json: bool) -> None:
    signed = set(agreed.signers())
    missing = [party for party in agreed.parties if party not in signed]
    if as_json:
        parties = [
            {"name": party.name, "fingerprint": party.fingerprint, "signed": party in signed}
            for party in agreed.parties
        ]
        fields: Json = {"file": str(path), "fingerprint": agreed.fingerprint, "parties": parties}
        show_json({**fields, "guarantee": guarantee_fields(agreed.guarantee)})
        return
    facts = {
        "guarantee": str(agreed.guarantee),
        "parties": "\n".join(map(str, agreed.parties)),
        "not signed yet": "\n".join(map(str, missing)),
        "fingerprint": agreed.fingerprint,
    }
    show_facts(str(path), {name: fact for name, fact in facts.items() if fact})
    if not missing:
        say("All parties have signed: each may contribute.")
