"""``streamsketch plan --sites``: the features by which to compare sites, and the differences that they find."""

from typing import Any

import streamsketch as ss
from streamsketch.cli._features import load_features
from streamsketch.core.files import write_whole
from streamsketch.report.site_plans import picture_of_sites

_OF_SHIFTS = {
    "shift": ("in_columns",),
    "moved": (),
    "times": ("class_share", "class_deviations", "in_columns"),
}


def site_plan(given: dict[str, Any]) -> ss.planning.SitePlan:
    """Return the plan that options request; raise `InvalidInputError` for a mistake in them."""
    if (given["features"] is None) == (given["numbers"] is None):
        raise ss.InvalidInputError(
            "state what is compared: --features FILE with the columns and their public ranges, or --numbers 30"
        )
    if given["units"] is None:
        raise ss.InvalidInputError("state how many units a site has: --units 2800, or of two sites --units 2800,280")
    try:
        units = [float(part) for part in given["units"].split(",")]
    except ValueError:
        raise ss.InvalidInputError(
            f"--units takes one number or two, such as 2800,280, got {given['units']!r:.40}"
        ) from None
    columns = given["numbers"] if given["features"] is None else load_features(given["features"], given["seed"])
    chosen = {name: given[name] for name in ("columns", "power", "deviation") if given[name] is not None}
    return ss.planning.plan_sites(
        columns,
        units=units[0] if len(units) == 1 else units,
        shift=_shift(given),
        epsilon=given["epsilon"],
        delta=given["delta"],
        unit="person" if given["unit"] == "event" else given["unit"],
        **chosen,
    )


def write_site_plan(plan: ss.planning.SitePlan, given: dict[str, Any], *, missed: bool) -> None:
    """Write the features and the picture that options request; a plan that misses its goal writes no features."""
    output = given["write_features"]
    if output is not None and given["features"] is None:
        raise ss.InvalidInputError(
            "features name their columns and public ranges, which --numbers does not: give them by --features FILE"
        )
    if output is not None and not missed:
        seed = load_features(given["features"], given["seed"]).seed  # drawn now, if none is said
        write_whole(output, plan.features(seed).to_json().encode() + b"\n")
    if given["picture"] is not None:
        write_whole(given["picture"], picture_of_sites(plan).encode())


def _shift(given: dict[str, Any]) -> ss.planning.SiteShift:
    """Return the shift that options state."""
    kinds = [name for name in _OF_SHIFTS if given[name] is not None]
    if len(kinds) != 1:
        raise ss.InvalidInputError(
            "state one difference to be found: --shift 0.5, in standard deviations of a number; --moved 0.05, the "
            "share of people in another category; or --times 1.4, how many times as frequent a class is"
        )
    others = {name for names in _OF_SHIFTS.values() for name in names} - set(_OF_SHIFTS[kinds[0]])
    for name in sorted(others):
        if given[name] is not None:
            raise ss.InvalidInputError(f"--{name.replace('_', '-')} does not apply to --{kinds[0]}: leave it out")
    value, columns = given[kinds[0]], given["in_columns"]
    if kinds[0] == "shift":
        return ss.planning.MeanShift(value, **({} if columns is None else {"columns": columns}))
    if kinds[0] == "moved":
        return ss.planning.ShareShift(value)
    more = {"share": given["class_share"], "deviations": given["class_deviations"], "columns": columns}
    return ss.planning.ClassShift(value, **{name: one for name, one in more.items() if one is not None})
