"""``streamsketch sign``: sign files."""

import datetime as dt
from pathlib import Path
from typing import Annotated

import typer

from streamsketch.cli._keys import KeyOption, PassphraseFile, private_key
from streamsketch.cli._layout import show_facts
from streamsketch.cli._releasing import parse_receipt
from streamsketch.cli._showing import Json, show_json
from streamsketch.parties.signing import sign as sign_file
from streamsketch.parties.signing import verify


def sign(
    files: Annotated[
        list[Path], typer.Argument(help="Releases, tables, signs, agreements, rounds or contributions.", metavar="FILE")
    ],
    *,
    key: KeyOption,
    passphrase_file: PassphraseFile = None,
    receipt: Annotated[
        str | None, typer.Option(help="Receipt of the ledger's entry that was charged.", show_default=False)
    ] = None,
    expires: Annotated[
        dt.datetime | None,
        typer.Option(help="Last day on which the signature is valid, YYYY-MM-DD in UTC.", formats=["%Y-%m-%d"]),
    ] = None,
    inside: Annotated[bool, typer.Option("--inside", help="Rewrite a table with the signature in it.")] = False,
    as_json: Json = False,
) -> None:
    """Sign files: each signature is a line of FILE.intoto.jsonl, which you send along.

    The signature states the contents of FILE, its guarantee and its agreement. It proves that FILE has not changed
    since.

    $ streamsketch sign north.parquet --key north.pem
    """
    charged = None if receipt is None else parse_receipt(receipt)
    signer = private_key(key, passphrase_file)
    last_day = None if expires is None else expires.date()
    bundles = {
        str(file): str(sign_file(file, signer, receipt=charged, expires=last_day, inside=inside)) for file in files
    }
    if as_json:
        show_json([{"file": file, "signature": bundle} for file, bundle in bundles.items()])
        return
    for file, bundle in bundles.items():
        statement = verify(file, signer.public)
        show_facts(file, {"holds": statement.kind, "signed by": str(statement.signer), "in": bundle})
