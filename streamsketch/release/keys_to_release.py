"""Which keys of a table are released."""

from collections.abc import Iterable

from streamsketch.core.documents import TableKey
from streamsketch.core.libraries import pc
from streamsketch.data.columns import key_column
from streamsketch.errors import InvalidInputError
from streamsketch.sketching.keyed import public_names, warn_of_other_types
from streamsketch.sketching.sketch import Sketch
from streamsketch.sketching.table import SketchTable


def sketches_to_release(
    table: SketchTable, public_keys: Iterable[object] | None, *, keys_are_public: bool
) -> dict[TableKey, Sketch]:
    """Return the sketches of `keys_to_release`, by key."""
    return {key: table.sketch_of(key) for key in keys_to_release(table, public_keys, keys_are_public=keys_are_public)}


def keys_to_release(
    table: SketchTable, public_keys: Iterable[object] | None, *, keys_are_public: bool
) -> list[TableKey]:
    """Return the keys of a table to release, ascending.

    Parameters
    ----------
    table
        The exact, secret table.
    public_keys
        The keys to release, known without looking at the data. An agreement casts them to its type. A key without data
        is released as an empty sketch, and data of other keys are left out.
    keys_are_public
        The assertion that the keys in the table are public: the caller adds `conditions_of_keys` to the guarantee.

    Raises
    ------
    InvalidInputError
        Unless exactly one of the two is given; for no keys, keys without a common type, or a single text instead of
        several.
    """
    if (public_keys is not None) == keys_are_public:
        raise InvalidInputError(
            "which keys have data is private; pass exactly one of public_keys (the keys to release, chosen without "
            "looking at the data) and keys_are_public=True (your assertion that the table's keys are public)"
        )
    if public_keys is None:
        names = list(table)
    else:
        agreed = table.agreement
        names = public_names(public_keys if agreed is None or agreed.key is None else agreed.keys_of(public_keys))
    if not names:
        raise InvalidInputError("there is no key to release; pass at least one")
    warn_of_other_types(names, table)
    order = pc.sort_indices(key_column(names, "key")).to_pylist()
    return [names[place] for place in order]
