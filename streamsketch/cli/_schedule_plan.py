"""``streamsketch plan --windows``: by which schedule a stream is published."""

from typing import Any, Literal

import streamsketch as ss
from streamsketch.data.windows import microseconds

_PREFIX = "prefix"


def schedule_plan(given: dict[str, Any]) -> ss.planning.SchedulePlan:
    """Return the plan that options request; raise `InvalidInputError` for a mistake in them."""
    most = given["max_windows"]
    return ss.planning.plan_schedule(
        given["windows"],
        [_range(text, given["window"], given["windows"]) for text in given["ranges"] or [_PREFIX]],
        delta=given["delta"] or 0.0,
        max_windows=None if most == "all" else _whole(most or "1", "--max-windows"),
        gap=given["gap"] or 1,
        agreement=None if given["agreement"] is None else ss.Agreement.load(given["agreement"]),
        epsilon=given["epsilon"],
    )


def _range(text: str, window: str | None, windows: int) -> int | Literal["prefix"]:
    if text == _PREFIX:
        return "prefix"
    if text.isdecimal():
        return int(text)
    if window is None:
        raise ss.InvalidInputError(
            f"--range takes a number of windows, 'prefix' or, with --window, a length as '1 day'; got {text!r:.40}"
        )
    length, size = microseconds(text, "--range"), microseconds(window, "--window")
    if length % size:
        raise ss.InvalidInputError(f"--range must be a multiple of --window, got {text} and {window}")
    return min(length // size, windows)


def _whole(text: str, option: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ss.InvalidInputError(f"{option} takes a number, or all, got {text!r:.40}") from None
