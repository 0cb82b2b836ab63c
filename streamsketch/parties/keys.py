"""A party's keys: Ed25519 to sign, X25519 to agree on masks with another party."""

import base64
import binascii
import dataclasses
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

try:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        KeySerializationEncryption,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )
except ImportError:
    raise ModuleNotFoundError(
        "keys, rounds and signatures need cryptography (the extra `parties` of streamsketch)"
    ) from None

from streamsketch.core.files import write_whole
from streamsketch.core.limits import read_bounded
from streamsketch.core.text import check_text
from streamsketch.errors import InvalidInputError
from streamsketch.parties.spent import SUFFIX, Spent

_PREFIX = "streamsketch-key-1"
_KEY_BYTES = 32
_MOST_BYTES = 1 << 14
_BEGIN = b"-----BEGIN "
_LOCKED = _BEGIN + b"ENCRYPTED"


@dataclasses.dataclass(frozen=True)
class PublicKey:
    """The public half of a `Key`. Send it to the other parties over a channel that no one else can write to.

    Parameters
    ----------
    signing, key_exchange
        The Ed25519 and the X25519 public key, 32 bytes each.
    name
        The party's name, for messages. The parties agree on it, too.

    Raises
    ------
    InvalidInputError
        If the lengths differ, or the name cannot be printed.

    Examples
    --------
    >>> key = Key.generate("North")
    >>> PublicKey.from_text(key.public.to_text()) == key.public
    True
    """

    signing: bytes
    key_exchange: bytes
    name: str = ""

    def __post_init__(self) -> None:
        lengths = len(self.signing), len(self.key_exchange)
        if lengths != (_KEY_BYTES, _KEY_BYTES):
            raise InvalidInputError(
                f"a public key has two parts of {_KEY_BYTES} bytes, got {lengths[0]} and {lengths[1]}"
            )
        if self.name:
            check_text("the name of a party", self.name)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of both keys as hexadecimal text, which two people compare, for example by telephone."""
        return hashlib.sha256(self.signing + self.key_exchange).hexdigest()

    def to_text(self) -> str:
        """Return the key as a line of text: a prefix, both keys in base64, and the name."""
        joined = base64.b64encode(self.signing + self.key_exchange).decode("ascii")
        return f"{_PREFIX} {joined} {self.name}".rstrip()

    @classmethod
    def from_text(cls, text: str) -> "PublicKey":
        """Return the key of a line that `to_text` wrote.

        Raises
        ------
        InvalidInputError
            If the text is not such a line.
        """
        prefix, _, rest = text.strip().partition(" ")
        joined, _, name = rest.partition(" ")
        try:
            both = base64.b64decode(joined, validate=True)
        except (binascii.Error, ValueError):
            both = b""
        if prefix != _PREFIX or len(both) != 2 * _KEY_BYTES:
            raise InvalidInputError(
                f"a public key is a line that begins with {_PREFIX} and has {2 * _KEY_BYTES} bytes in base64; a PEM "
                f"file holds the private key, which stays with its owner"
            )
        return cls(both[:_KEY_BYTES], both[_KEY_BYTES:], name)

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Return whether the owner of this key signed the message."""
        try:
            Ed25519PublicKey.from_public_bytes(self.signing).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True

    def __str__(self) -> str:
        return f"{self.name or 'key'} ({self.fingerprint[:16]})"


class Key:
    """A party's private keys. Anyone who has them can sign in the party's name and remove its masks.

    A key contributes once to a round. A key in a file records its rounds in ``PATH.rounds`` beside it, which must be
    writable and is shared by all processes that load the key. A key that was never saved records them in memory. A copy
    of the file does not record the rounds of another copy, so keep one file.

    Examples
    --------
    >>> path = getfixture("tmp_path") / "north.pem"
    >>> key = Key.generate("North")
    >>> key.save(path, passphrase="correct horse")
    >>> Key.load(path, passphrase="correct horse", name="North").public == key.public
    True
    """

    __slots__ = ("_key_exchange", "_public", "_signing", "_spent")

    def __init__(self, signing: Ed25519PrivateKey, key_exchange: X25519PrivateKey, name: str = "") -> None:
        self._signing, self._key_exchange = signing, key_exchange
        self._public = PublicKey(
            signing.public_key().public_bytes_raw(), key_exchange.public_key().public_bytes_raw(), name
        )
        self._spent = [Spent(str(self._public))]

    @classmethod
    def generate(cls, name: str = "") -> "Key":
        """Return new keys, drawn with the operating system's CSPRNG."""
        return cls(Ed25519PrivateKey.generate(), X25519PrivateKey.generate(), name)

    @property
    def public(self) -> PublicKey:
        """The public half."""
        return self._public

    def save(self, path: str | os.PathLike[str], *, passphrase: str | None = None) -> None:
        """Write both private keys as PEM, readable only by the owner, encrypted if there is a passphrase.

        The rounds that the key took part in, and all later ones, are recorded beside it.

        Raises
        ------
        InvalidInputError
            If the passphrase is empty.
        FileExistsError
            If the file exists, because a lost key cannot be made again.
        OSError
            If the file cannot be written.
        """
        if Path(path).exists():
            raise FileExistsError(f"{path} already exists, and overwriting it would lose a key; use another name")
        if passphrase == "":
            raise InvalidInputError("an empty passphrase protects nothing; pass a passphrase, or None")
        lock: KeySerializationEncryption = (
            NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase.encode())
        )
        parts = [
            half.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock) for half in (self._signing, self._key_exchange)
        ]
        beside = Spent(str(self._public), _record_of(path))
        for record in self._spent:  # first: a key in a file must not forget
            beside.take(record)
        write_whole(path, b"".join(parts), secret=True)
        self._spent.append(beside)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        passphrase: str | Callable[[], str] | None = None,
        name: str = "",
        record: str | os.PathLike[str] | None = None,
    ) -> "Key":
        """Return the keys that `save` wrote.

        Parameters
        ----------
        path
            The file.
        passphrase
            The file's passphrase, if it has one; or a function that is called to ask for it if it has one.
        name
            The party's name, which the file does not hold.
        record
            The file that records the rounds that the key took part in, if the key's folder cannot be written; always
            the same for one key. By default ``PATH.rounds``.

        Raises
        ------
        InvalidInputError
            If the file holds something else, or the passphrase is missing or wrong. Unless ``record`` is given, if the
            file has several hard links, because each would have a record of its own.
        OSError
            If the file cannot be read.
        """
        if record is None and Path(path).stat().st_nlink > 1:
            raise InvalidInputError(
                f"{path} is one of several names of one file (hard links), and each name would have its own record of "
                "rounds. Keep one name and use symbolic links for others, or pass record=PATH"
            )
        parts = [_BEGIN + part for part in read_bounded(path, _MOST_BYTES).split(_BEGIN)[1:]]
        if callable(passphrase):
            passphrase = passphrase() if any(part.startswith(_LOCKED) for part in parts) else None
        secret = None if passphrase is None else passphrase.encode()
        try:
            keys = [load_pem_private_key(part, secret) for part in parts]
        except TypeError:  # what the library raises where one has a passphrase and the other none
            asked = (
                "needs a passphrase" if passphrase is None else "has no passphrase, but one was passed; leave it out"
            )
            raise InvalidInputError(f"the key in {path} {asked}") from None
        except (ValueError, UnsupportedAlgorithm):
            raise InvalidInputError(f"the key in {path} is damaged, or the passphrase is wrong") from None
        match keys:
            case [Ed25519PrivateKey() as signing, X25519PrivateKey() as key_exchange]:
                key = cls(signing, key_exchange, name)
                key._spent.append(Spent(str(key.public), Path(record) if record else _record_of(path)))
                return key
        raise InvalidInputError(f"{path} does not hold the two private keys, Ed25519 and X25519, of Key.save")

    def sign(self, message: bytes) -> bytes:
        """Return the Ed25519 signature of a message, 64 bytes."""
        return self._signing.sign(message)

    def shared_secret(self, other: PublicKey) -> bytes:
        """Return the X25519 secret of this key and another's, 32 bytes.

        Raises
        ------
        InvalidInputError
            If the other key is one of the few that give the secret zero with every key.
        """
        try:
            return self._key_exchange.exchange(X25519PublicKey.from_public_bytes(other.key_exchange))
        except ValueError:
            raise InvalidInputError(
                f"the key of {other} gives no shared secret, so it is not valid; ask for a key made by Key.generate"
            ) from None

    def check_unspent(self, agreed: bytes, name: bytes) -> None:
        """Raise `InvalidInputError` if the party contributed before.

        Parameters
        ----------
        agreed, name
            Names of 32 bytes: of the round, and of the part of it that is contributed to: the round itself, or the
            round for a key of a table.
        """
        for record in reversed(self._spent):  # files first, whose messages name the file
            record.check(agreed, name)

    def spend(self, agreed: bytes, name: bytes, sent: bytes = b"") -> None:
        """Record that the party contributes, before anything is sent.

        Parameters
        ----------
        agreed, name
            As in `check_unspent`.
        sent
            SHA-256 of the contribution, if the same one may be made again.

        Raises
        ------
        InvalidInputError
            If the party contributed before to the round as a whole, to this part of it, or, if this is the whole, to
            any part. The same contribution may be made again.
        OSError
            If the file that records rounds cannot be written or locked.
        """
        for record in reversed(self._spent):
            record.add(agreed, name, sent)

    def __repr__(self) -> str:
        return f"<Key of {self._public}, secret>"

    def __reduce__(self) -> Any:
        raise TypeError("a Key is secret and cannot be pickled; load it from its file where it is needed")


def _record_of(path: str | os.PathLike[str]) -> Path:
    target = Path(path).resolve()  # all names of a file share a record
    return target.with_name(target.name + SUFFIX)
