"""Keys in files, for commands; a passphrase is asked for or read from a file, and is never an argument."""

import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import streamsketch as ss
from streamsketch.cli._options import option
from streamsketch.cli._saying import say

if TYPE_CHECKING:
    from streamsketch.parties.keys import Key, PublicKey

PRIVATE, PUBLIC = ".pem", ".pub"
VARIABLE, FILE_VARIABLE = "STREAMSKETCH_PASSPHRASE", "STREAMSKETCH_PASSPHRASE_FILE"
"""Of the environment: a passphrase, or the file that holds it."""
_MOST_BYTES = 1 << 12

KeyOption = Annotated[
    Path,
    option(
        "Keys and signatures", "FILE", "Your private key: a .pem file that `streamsketch party key new` made.", "--key"
    ),
]
Signers = Annotated[
    list[Path] | None,
    option(
        "Keys and signatures",
        "FILE",
        "Accept only files that the owner of this public key (.pub) has signed. Repeat it to accept any of "
        "several signers.",
        "--signer",
    ),
]
Parties = Annotated[
    list[Path] | None,
    option("Keys and signatures", "FILE", "A party's public key (.pub). Repeat it for each party.", "--party"),
]


def public_keys(paths: list[Path] | None) -> "list[PublicKey] | None":
    """Return the public keys in files; None for none."""
    return None if not paths else [public_key(path) for path in paths]


def public_key(path: Path) -> "PublicKey":
    """Return the public key in a file; errors name the file."""
    from streamsketch.parties.keys import PublicKey  # noqa: PLC0415 - keys are an extra

    try:
        with path.open("rb") as file:
            return PublicKey.from_text(file.read(_MOST_BYTES).decode())
    except (ss.InvalidInputError, UnicodeDecodeError) as error:
        problem = "it is not text" if isinstance(error, UnicodeDecodeError) else str(error)
        raise ss.InvalidInputError(f"{path} holds no public key: {problem}") from None


def private_key(path: Path) -> "Key":
    """Return the private key in a file, with the name in the .pub file next to it; warn if others can read it."""
    from streamsketch.parties.keys import Key  # noqa: PLC0415 - as above

    beside = path.with_suffix(PUBLIC)
    name = public_key(beside).name if beside.exists() else ""
    key = Key.load(path, passphrase=lambda: passphrase_of(path), name=name)
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        say(f"warning: others can read {path}: chmod 600 {path}, or make another key if somebody did")
    return key


def passphrase_of(path: Path, *, confirm: bool = False) -> str:
    """Return a key's passphrase: from a file or the value that the environment names, or asked for at the terminal."""
    if named := os.environ.get(FILE_VARIABLE):
        with Path(named).open("rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace").rstrip("\r\n")
    if passphrase := os.environ.get(VARIABLE):
        return passphrase
    if not sys.stdin.isatty():
        raise ss.InvalidInputError(
            f"{path} takes a passphrase, and there is no terminal to ask at: set the environment variable "
            f"{FILE_VARIABLE} to the name of a file that holds it, or {VARIABLE} to itself"
        )
    asked: str = typer.prompt(f"Passphrase of {path}", hide_input=True, confirmation_prompt=confirm, err=True)
    return asked
