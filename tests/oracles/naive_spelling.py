"""Text under a rule, character by character: the slow twin of `TextRule.apply`, as WIRE.md describes it."""

import unicodedata
from collections.abc import Callable
from typing import Any

BLANKS = (*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000)
INVISIBLE = (
    *(0xAD, 0x61C, 0x180E, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065)),
    *(*range(0x2066, 0x206A), 0xFEFF),
)
UNASSIGNED = (0x378, 0x1E08F, 0x10D4A, 0x10D50)
"""Code points that Unicode 14.0 does not assign, as the kit has them."""


def spelt(
    text: str,
    *,
    form: str | None = None,
    blanks: str | None = None,
    case: str | None = None,
    invisible: str | None = None,
    unassigned: Callable[[int], bool] = UNASSIGNED.__contains__,
) -> str:
    """Return a text under a rule."""
    kept = [letter for letter in text if invisible is None or ord(letter) not in INVISIBLE]
    found, part = "", ""
    for letter in [*kept, ""]:
        if letter and not unassigned(ord(letter)):
            part += letter
            continue
        found += _assigned(part, form, case) + letter
        part = ""
    if blanks == "collapse":
        spaced = "".join(" " if ord(letter) in BLANKS else letter for letter in found)
        return " ".join(word for word in spaced.split(" ") if word)
    if blanks == "trim":
        while found and ord(found[0]) in BLANKS:
            found = found[1:]
        while found and ord(found[-1]) in BLANKS:
            found = found[:-1]
    return found


def _assigned(text: str, form: Any, case: str | None) -> str:
    if case is None:
        return unicodedata.normalize(form, text) if form else text
    if form is None:
        return text.casefold()
    once = unicodedata.normalize("NFD", text).casefold()
    if form == "NFKC":
        once = unicodedata.normalize("NFKD", once).casefold()
    return unicodedata.normalize(form, once)
