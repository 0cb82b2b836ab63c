"""What exact data are known to keep to, and what each operation on them leaves of it."""

import dataclasses
from fractions import Fraction
from typing import Literal, Self, TypeAlias

from streamsketch.core.documents import Json
from streamsketch.core.text import check_text
from streamsketch.errors import InvalidInputError
from streamsketch.privacy.assertions import apart_in_merge, with_conditions
from streamsketch.privacy.neighbours import MOST_KEYS, Neighbours

Basis: TypeAlias = Literal["enforced", "asserted"]
"""Whether the bound of a relation was enforced on the data, or is asserted of them."""

_PLAIN = "rows were added that nothing clipped"
_WAYS, _AND = ("scale", "cut", "equal", "average"), " and "


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The bound that was enforced on each privacy unit's contribution to exact data.

    A release of bounded data is for neighbours that their bounds imply. Bounds depend on the operations alone, not on
    the data.

    Parameters
    ----------
    neighbours
        The relation that was enforced, for all keys of a table. None if nothing was enforced.
    clip
        How units were clipped: ``"scale"``, ``"cut"``, ``"equal"``, ``"average"``, or several of these if parts differ.
    together
        Over how many keys of a unit the bound holds together. 1 if the bound holds for each key by itself.
    conditions
        Conditions for the bound to hold, as in `Guarantee`.
    ended
        Why the bounds no longer hold. Empty if they hold, or if there were none.
    is_empty
        Whether there are no data yet. The data that are added first then decide the bounds.
    counted
        Whether units were counted when they were bounded, each once in each of its keys, and no unit was added again.

    Examples
    --------
    >>> from streamsketch import L1
    >>> known = Bounds(L1(100, unit="customer"), clip="scale")
    >>> known.basis_for(L1(200, unit="customer"))
    'enforced'
    >>> known.merged(known, keyed=False).neighbours
    L1(200, unit='customer')
    >>> known.updated().ended
    'rows were added that nothing clipped'
    """

    neighbours: Neighbours | None = None
    clip: str = ""
    together: int = 1
    conditions: tuple[str, ...] = ()
    ended: str = ""
    is_empty: bool = False
    counted: bool = False

    @property
    def is_enforced(self) -> bool:
        """Whether bounds were enforced and still hold."""
        return self.neighbours is not None and not self.ended

    @property
    def has_counts(self) -> bool:
        """Whether the counts of units that data have beside their cells are complete."""
        return self.counted and self.is_enforced

    def counts_for(self, neighbours: Neighbours) -> bool:
        """Return whether the data's counts of units, if there are any, may be released for these neighbours.

        `Counting` states how far one unit moves the counts. It applies if units were bounded in each key by itself, or
        in sketch space.
        """
        if not (self.has_counts and self.together == 1 and isinstance(neighbours, Neighbours)):
            return False  # the publisher reports what is not a relation
        relation = _relation(self)
        return relation.kind == neighbours.kind and relation.max_keys <= neighbours.max_keys

    def without_counts(self) -> "Bounds":
        """Return the same bounds for data whose units were not counted."""
        return dataclasses.replace(self, counted=False) if self.counted else self

    # --- operations -----------------------------------------------------------------------------------------

    def updated(self) -> "Bounds":
        """Return the bounds of the data after unclipped rows were added."""
        if self.is_enforced:
            return dataclasses.replace(self, ended=_PLAIN)
        return UNKNOWN if self.is_empty else self

    def merged(self, other: "Bounds", *, keyed: bool, disjoint_units: bool = False) -> "Bounds":
        """Return the bounds of the sum or the difference of two data sets.

        Parameters
        ----------
        other
            The bounds of the other data set.
        keyed
            Whether the data sets are tables, so that a unit may be in different keys of the two.
        disjoint_units
            Your assertion that no unit is in both. The bounds then stay as they are, under that condition. Otherwise
            they add up.
        """
        if self.is_empty or other.is_empty:
            return other if self.is_empty else self
        if not (self.is_enforced and other.is_enforced):
            # ended bounds stay so; enforced ones end where the other data have none
            return max(self, other, key=lambda side: (bool(side.ended), side.is_enforced)).updated()
        mine, theirs = _relation(self), _relation(other)
        weaker = mine if theirs.implies_kind(mine) else theirs
        if mine.unit != theirs.unit or not mine.implies_kind(weaker):
            return dataclasses.replace(self, ended=f"data were added that were bounded to {theirs}")
        ways = {*self.clip.split(_AND), *other.clip.split(_AND)}
        if "equal" in ways and mine.bound != theirs.bound:
            ways.add("scale")  # units of one part count less than those of the other
        clip = _AND.join(way for way in _WAYS if way in ways)
        bound, keys, together = self._added(other, keyed=keyed, disjoint_units=disjoint_units)
        if keys > MOST_KEYS:
            return dataclasses.replace(self, ended="data were added with which a unit may be in too many keys to count")
        neighbours = dataclasses.replace(weaker, bound=bound, max_keys=keys)
        counted = disjoint_units and self.counted and other.counted and mine.kind == theirs.kind
        merged = with_conditions(
            Bounds(neighbours, clip, together, counted=counted), *self.conditions, *other.conditions
        )
        return with_conditions(merged, apart_in_merge(mine.unit)) if disjoint_units else merged

    def _added(self, other: "Bounds", *, keyed: bool, disjoint_units: bool) -> tuple[Fraction, int, int]:
        """Return the bound, the keys that each have it, and the keys that have it together, of a unit in the sum."""
        parts = [(Fraction(_relation(side).bound), _relation(side).max_keys, side.together) for side in (self, other)]
        if (self.together > 1) != (other.together > 1) or (self.together > 1 and not disjoint_units):
            # for all keys together: what a unit adds to m keys has m times the norm at most
            parts = [(bound * keys, 1, max(keys, together)) for bound, keys, together in parts]
        bounds, keys, together = zip(*parts, strict=True)
        if disjoint_units:
            return max(bounds), max(keys), max(together)
        if _relation(self).of_sketches:  # over all keys, by the triangle inequality
            return sum(bounds, Fraction(0)), min(sum(keys) if keyed else max(keys), MOST_KEYS), 1
        if max(together) > 1:
            return sum(bounds, Fraction(0)), 1, sum(together)
        return sum(bounds, Fraction(0)), sum(keys) if keyed else max(keys), 1

    # --- releases -------------------------------------------------------------------------------------------

    def basis_for(
        self, neighbours: Neighbours, agreed: Neighbours | None = None, *, assert_bounds: bool = False
    ) -> Basis:
        """Return whether a relation was ``"enforced"`` on the data, or is ``"asserted"`` for them.

        Parameters
        ----------
        neighbours
            The relation of the release.
        agreed
            The relation of the agreement that the data follow, if it has one.
        assert_bounds
            Your assertion that the data keep to ``neighbours`` although their bounds do not imply it.

        Raises
        ------
        InvalidInputError
            Without that assertion, if bounds were enforced that do not imply ``neighbours`` or no longer hold; or if
            nothing was enforced and the agreement's relation does not imply ``neighbours``.
        """
        if assert_bounds:
            return "asserted"
        remedy = (
            "or assert that the data keep to it nevertheless (assert_bounds=True, on the command line "
            "--assert-bounds); the guarantee then states that the bound is asserted"
        )
        if self.ended:
            raise InvalidInputError(
                f"these data were bounded to {self.neighbours}, and then {self.ended}, so no bound on one unit is "
                f"known any more. Bound all rows together, {remedy}"
            )
        if self.is_enforced:
            relation, what = self.neighbours, "bounded to" if self.together == 1 else "bounded, all keys together, to"
        elif agreed is not None:
            relation, what = agreed, "sketched under an agreement for"
        else:
            return "asserted"
        too_many = self.together > 1 and neighbours.max_keys > 1  # the bound is one for all keys together
        if relation is not None and (too_many or not relation.implies(neighbours)):
            raise InvalidInputError(
                f"these data were {what} {relation}, which does not imply {neighbours}. Release them for "
                f"neighbours={relation!r}, on which `streamsketch agree FILE.raw-sketch …` agrees, {remedy}"
            )
        return "enforced" if self.is_enforced else "asserted"

    # --- as JSON --------------------------------------------------------------------------------------------

    def to_dict(self) -> Json:
        """Return the bounds as a dict that JSON can hold; ``"counted"`` is in it only if it is true."""
        fields = {
            "neighbours": None if self.neighbours is None else self.neighbours.to_dict(),
            "clip": self.clip,
            "together": self.together,
            "conditions": list(self.conditions),
            "ended": self.ended,
            "is_empty": self.is_empty,
        }
        return fields | {"counted": True} if self.counted else fields

    @classmethod
    def from_dict(cls, fields: object) -> Self:
        """Return the bounds that `to_dict` wrote.

        Raises
        ------
        InvalidInputError
            For anything else.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        if (
            not isinstance(fields, dict)
            or fields.keys() | {"counted"} != names
            or fields.get("counted", True) is not True
        ):
            raise InvalidInputError(f"bounds are an object with the fields {', '.join(sorted(names))}")
        neighbours, conditions = fields["neighbours"], fields["conditions"]
        if type(fields["together"]) is not int or fields["together"] < 1 or not isinstance(conditions, list):
            raise InvalidInputError("bounds hold over a positive number of keys, and conditions are a list")
        for text in (*conditions, *filter(None, (fields["clip"], fields["ended"]))):
            check_text("what is known of bounds", text)
        if type(fields["is_empty"]) is not bool or (fields["is_empty"] and neighbours is not None):
            raise InvalidInputError("bounds of an empty sketch have no neighbours, and is_empty is true or false")
        relation = None if neighbours is None else Neighbours.from_dict(neighbours)
        if "counted" in fields and relation is None:
            raise InvalidInputError("units are counted where they are bounded")
        return cls(**(fields | {"neighbours": relation, "conditions": tuple(conditions)}))


def _relation(bounds: Bounds) -> Neighbours:
    if bounds.neighbours is None:
        raise ValueError("nothing was enforced")
    return bounds.neighbours


UNKNOWN = Bounds()
"""Of data of which nothing was enforced."""

NO_DATA = Bounds(is_empty=True)
"""Of sketches that are new."""
