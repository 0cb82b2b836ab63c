"""``streamsketch party key``: a party's keys."""

from pathlib import Path
from typing import Annotated

import typer

from streamsketch.cli._keys import FILE_VARIABLE, PRIVATE, PUBLIC, passphrase_of, private_key, public_key
from streamsketch.cli._options import option
from streamsketch.cli._showing import AsJson, show_result
from streamsketch.cli._writing import new_file
from streamsketch.core.files import write_whole
from streamsketch.parties.keys import Key, PublicKey


def new(
    file: Annotated[
        Path, typer.Argument(help="File to write, .pem. The public key is written to a .pub file next to it.")
    ],
    *,
    name: Annotated[str, option("Keys and signatures", "NAME", "Name of the party, for others to read.")],
    protect: Annotated[
        bool,
        option(
            "Keys and signatures",
            "",
            f"Encrypt the private key with a passphrase, which is asked for. {FILE_VARIABLE} may name a file that "
            f"holds it, here and where the key is used.",
            "--protect",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a party's keys: private ones, which stay here, and public ones for others.

    The private file has mode 0600. Send the .pub file over a channel that nobody can tamper with, or compare
    fingerprints by telephone. Anyone who can replace this file can sign in your name and unmask your contributions. A
    lost private key cannot be recovered.

    $ streamsketch party key new north.pem --name "North Ltd"
    """
    new_file(file, PRIVATE, "a private key")
    beside = new_file(file.with_suffix(PUBLIC), PUBLIC, "a public key")
    key = Key.generate(name)
    text = f"{key.public.to_text()}\n"  # a name that cannot be printed is refused before there is a file
    key.save(file, passphrase=passphrase_of(file, confirm=True) if protect else None)
    write_whole(beside, text.encode())
    _show(
        key.public,
        {"private key": f"{file}, to keep secret", "public key": f"{beside}, for the others"},
        as_json=as_json,
    )


def show(file: Annotated[Path, typer.Argument(help="A .pub or .pem file.")], *, as_json: AsJson = False) -> None:
    """Show a public key and its fingerprint, which two people compare.

    For a private key, its public half is shown.

    $ streamsketch party key show north.pub
    """
    if file.suffix == PRIVATE:
        public = private_key(file).public
        _show(public, {"private key": f"{file}, to keep secret"}, as_json=as_json)
    else:
        _show(public_key(file), {}, as_json=as_json)


def _show(public: PublicKey, facts: dict[str, str], *, as_json: bool) -> None:
    facts |= {"fingerprint": public.fingerprint, "text": public.to_text()}
    fields = {"name": public.name, "fingerprint": public.fingerprint, "public_key": public.to_text()}
    show_result(public.name or "key", facts, fields, as_json=as_json)
