# ruff: noqa: RUF001 - letters that look alike
"""Spellings of text under two rules, by hand: the kit's cases, and those of every reader and engine of this library."""

from typing import Any, NamedTuple

NEW = {"unicode": "14.0", "form": "NFC", "blanks": "collapse"}
"""The rule of new agreements."""
LOOSE = {"unicode": "14.0", "form": "NFKC", "blanks": "collapse", "case": "fold", "invisible": "drop"}
"""Every step there is."""


class Spelling(NamedTuple):
    """A text, and what it is under both rules."""

    text: str
    new: str
    loose: str


SPELLINGS = [
    Spelling("tea", "tea", "tea"),
    Spelling("Tea", "Tea", "tea"),
    Spelling("TEA", "TEA", "tea"),
    Spelling(" tea", "tea", "tea"),
    Spelling("tea ", "tea", "tea"),
    Spelling("\ttea\r\n", "tea", "tea"),
    Spelling("tea\x0b", "tea", "tea"),
    Spelling("\x0ctea", "tea", "tea"),
    Spelling("\x1ctea", "\x1ctea", "\x1ctea"),  # white space of Python, not of Unicode
    Spelling("tea\x00", "tea\x00", "tea\x00"),
    Spelling("tea\xa0", "tea", "tea"),
    Spelling("\u3000tea\u2003", "tea", "tea"),
    Spelling("tea\u200b", "tea\u200b", "tea"),
    Spelling("\ufefftea", "\ufefftea", "tea"),
    Spelling("t\xadea", "t\xadea", "tea"),
    Spelling("tea\u200e", "tea\u200e", "tea"),
    Spelling("green tea", "green tea", "green tea"),
    Spelling("green  tea", "green tea", "green tea"),
    Spelling("green\xa0tea", "green tea", "green tea"),
    Spelling("green\u202ftea", "green tea", "green tea"),
    Spelling("green\ttea", "green tea", "green tea"),
    Spelling("green\r\ntea", "green tea", "green tea"),
    Spelling("green\x85tea", "green tea", "green tea"),
    Spelling("green\u2028 \u205ftea", "green tea", "green tea"),
    Spelling("greentea", "greentea", "greentea"),
    Spelling("green-tea", "green-tea", "green-tea"),
    Spelling("green\u2011tea", "green\u2011tea", "green\u2010tea"),  # a no-break hyphen
    Spelling("ｔｅａ", "ｔｅａ", "tea"),
    Spelling("ＴＥＡ", "ＴＥＡ", "tea"),
    Spelling("café", "café", "café"),
    Spelling("cafe\u0301", "café", "café"),
    Spelling("CAFÉ", "CAFÉ", "café"),
    Spelling("CAFE\u0301 ", "CAFÉ", "café"),
    Spelling("cafe", "cafe", "cafe"),
    Spelling("Å", "Å", "å"),
    Spelling("A\u030a", "Å", "å"),
    Spelling("\u212b", "Å", "å"),  # the sign of an angstrom
    Spelling("Straße", "Straße", "strasse"),
    Spelling("STRASSE", "STRASSE", "strasse"),
    Spelling("STRA\u1e9eE", "STRA\u1e9eE", "strasse"),
    Spelling("Σίσυφος", "Σίσυφος", "σίσυφοσ"),
    Spelling("ΣΊΣΥΦΟΣ", "ΣΊΣΥΦΟΣ", "σίσυφοσ"),
    Spelling("İstanbul", "İstanbul", "i\u0307stanbul"),
    Spelling("ılık", "ılık", "ılık"),
    Spelling("ﬁg", "ﬁg", "fig"),
    Spelling("m²", "m²", "m2"),
    Spelling("½ kg", "½ kg", "1\u20442 kg"),
    Spelling("\u1100\u1161", "가", "가"),
    Spelling("가", "가", "가"),
    Spelling("ｶﾞ", "ｶﾞ", "ガ"),
    Spelling("カ\u3099", "ガ", "ガ"),
    Spelling("q\u0323\u0307", "q\u0323\u0307", "q\u0323\u0307"),
    Spelling("q\u0307\u0323", "q\u0323\u0307", "q\u0323\u0307"),  # marks of two classes have one order
    Spelling("\u0958", "\u0915\u093c", "\u0915\u093c"),  # of which NFC has no composed form
    Spelling("\u1fb3", "\u1fb3", "αι"),
    Spelling("\u0378e\u0301", "\u0378é", "\u0378é"),  # not assigned in any version
    Spelling("a\u0301\U0001e08f\u0323", "á\U0001e08f\u0323", "á\U0001e08f\u0323"),  # a mark of Unicode 15
    Spelling("\U00010d4a", "\U00010d4a", "\U00010d4a"),  # unassigned in 14.0: no part of a rule
    Spelling("\U00010d50", "\U00010d50", "\U00010d50"),  # a capital of Unicode 16
    Spelling("🍵", "🍵", "🍵"),
    Spelling("👩\u200d👧", "👩\u200d👧", "👩👧"),
    Spelling("007", "007", "007"),
    Spelling("7", "7", "7"),
    Spelling("1.0", "1.0", "1.0"),
    Spelling("１", "１", "1"),
]


def spellings() -> list[dict[str, Any]]:
    """Return the kit's cases: a text, a rule, and the text under it."""
    rules = {"new": NEW, "loose": LOOSE}
    return [
        {"name": f"{one.text!a}, {name}", "text": one.text, "rule": rule, "spelt": getattr(one, name)}
        for one in SPELLINGS
        for name, rule in rules.items()
    ]
