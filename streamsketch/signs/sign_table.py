"""SignTable: the published signs of many keys as one release."""

from streamsketch.privacy import Guarantee
from streamsketch.release import PublishedTable
from streamsketch.signs.sketch import SignSketch


class SignTable(PublishedTable[SignSketch]):
    """Published signs by key, as **one** release, whose guarantee covers all keys.

    Made by `SignMechanism.release_table`, or of releases that were made one by one. An immutable mapping in ascending
    order of its keys. Only a `SignSketch` has a place in it: individual guarantees do not stand side by side.

    Parameters
    ----------
    releases
        The releases by key, at least one; keys of one type: text, bytes, integers, dates or times.

    Raises
    ------
    TypeError
        If a value is no `SignSketch`.
    IncompatibleProjectionsError, InvalidInputError
        As `streamsketch.PrivateTable`.

    Examples
    --------
    >>> import streamsketch as ss
    >>> table = ss.Rademacher(dim=1000, sketch_dim=256, seed=7).table()
    >>> table.update(["UA", "AA"], [3, 4], [500, -200])
    >>> mechanism = ss.signs.DPSignLogistic(epsilon=4.0, neighbours=ss.L1(1))
    >>> released = mechanism.release_table(table, keys_are_public=True)
    >>> list(released), released.guarantee.epsilon
    (['AA', 'UA'], 4.0)
    """

    row_type = SignSketch
    column = "signs"

    __slots__ = ()

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the table as one release; for ``max_keys`` it covers all keys together."""
        return self.rows[0].guarantee
