"""Who takes part in a round."""

from collections.abc import Iterable, Sequence

from streamsketch.core import short
from streamsketch.errors import InvalidInputError
from streamsketch.parties.keys import PublicKey

_MOST_PARTIES = 1024


def check_members(parties: Iterable[PublicKey]) -> tuple[PublicKey, ...]:
    """Return the parties of a round; raise `InvalidInputError` unless they are two at least, with keys of their own."""
    found = tuple(parties)
    if not all(isinstance(one, PublicKey) for one in found):
        raise TypeError("parties are PublicKey objects: key.public of a Key, or PublicKey.from_text")
    if not 2 <= len(found) <= _MOST_PARTIES:
        raise InvalidInputError(f"a round takes 2 to {_MOST_PARTIES} parties, got {len(found)}")
    for half in ("signing", "agreement"):
        if len({getattr(one, half) for one in found}) < len(found):
            raise InvalidInputError("a public key is in the list of parties twice; each party has keys of its own")
    return found


def check_honest(honest: int | None, count: int) -> int:
    """Return how many of so many parties are honest; raise `InvalidInputError` unless two at least and all at most."""
    if honest is None:
        return count
    if type(honest) is not int or not 2 <= honest <= count:
        raise InvalidInputError(
            f"honest must be an integer from 2, as the masks of a single party hide nothing, to the {count} parties, "
            f"got {short(honest)}"
        )
    return honest


def place_of(key: PublicKey, parties: Sequence[PublicKey]) -> int:
    """Return the place of a key in a round's list, whatever its name; raise `InvalidInputError` if it has none."""
    for place, one in enumerate(parties):
        if (one.signing, one.agreement) == (key.signing, key.agreement):
            return place
    raise InvalidInputError(f"{key} is no party of this round: {', '.join(map(str, parties))}")


def conditions_of(honest: int, count: int, unit: str) -> list[str]:
    """Return what the guarantee of a round rests on, in sentences."""
    who = f"all {count} parties" if honest == count else f"at least {honest} of the {count} parties"
    return [
        f"{who} follow the round and keep their keys and shares secret",
        f"one {unit} keeps to the bound over all parties together, as with data at two parties it counts twice",
    ]
