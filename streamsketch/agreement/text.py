"""Text in one spelling: normal form, letter case, blanks and invisible characters, alike on every machine."""

import functools
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from streamsketch.core.libraries import pa, pc
from streamsketch.core.numbers import short
from streamsketch.data.columns import bytes_of_texts, is_text_type
from streamsketch.data.keys import repeats
from streamsketch.data.unicode_14 import VERSION, unassigned_ranges
from streamsketch.errors import InvalidInputError

Form: TypeAlias = Literal["NFC", "NFKC"]
Blanks: TypeAlias = Literal["trim", "collapse"]

BLANKS = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""The characters that count as blanks: those with Unicode's property White_Space."""

INVISIBLE = (
    "\xad\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\u2061\u2062\u2063\u2064"
    "\u2066\u2067\u2068\u2069\ufeff"
)
"""The characters that are dropped where ``invisible="drop"``: of no width, such as joiners, marks of direction, the
soft hyphen and the byte order mark."""

_STEPS: dict[str, tuple[str, ...]] = {
    "form": get_args(Form),
    "blanks": get_args(Blanks),
    "case": ("fold",),
    "invisible": ("drop",),
}
_RUN = re.compile(f"[{BLANKS}]+")
_NOT_ASCII, _ASTRAL, _NUL, _BLANK = 0x80, 0x10000, "\0", 0x20
_ASCII_BLANKS = "\t\n\v\f\r "
_DROPPED = dict.fromkeys(map(ord, INVISIBLE))


class _Range(NamedTuple):
    first: int
    last: int
    compatible: bool = True
    """Whether NFKC leaves it as it is, as NFC does everywhere here."""
    folded: bool = True
    """Whether case folding leaves it as it is."""


PASSED_ON = (
    _Range(0x20, 0x40),
    _Range(0x41, 0x5A, folded=False),
    _Range(0x5B, 0x7E),
    _Range(0xA1, 0xAC, compatible=False, folded=False),
    _Range(0xAE, 0xBF, compatible=False, folded=False),
    _Range(0xC0, 0xDF, folded=False),
    _Range(0xE0, 0xFF),
    _Range(0x100, 0x2FF, compatible=False, folded=False),
    _Range(0x390, 0x3A1, compatible=False, folded=False),
    _Range(0x3A3, 0x3FF, compatible=False, folded=False),
    _Range(0x400, 0x42F, folded=False),
    _Range(0x430, 0x45F),
    _Range(0x460, 0x482, compatible=False, folded=False),
    _Range(0x48A, 0x52F, compatible=False, folded=False),
    _Range(0x5D0, 0x5EA),
    _Range(0x620, 0x64A),
    _Range(0x2010, 0x2027, compatible=False),
    _Range(0x20AC, 0x20AC),
    _Range(0x3041, 0x3096),
    _Range(0x30A1, 0x30FA),
    _Range(0x30FC, 0x30FC),
    _Range(0x4E00, 0x9FFC),
    _Range(0xAC00, 0xD7A3),
)
"""Ranges of common code points that no normal form changes, alone or behind others: rows of these alone pass unread."""


@dataclass(frozen=True, kw_only=True)
class TextRule:
    r"""The spelling in which text is compared: names that differ in other things than this are the same name.

    A rule is part of an agreement, and holds for all its columns of type text: index, keys and units; and for the
    categories of features. Steps are done in this order: characters are dropped, case is folded and the normal form
    taken, blanks are set. Each text then is its own spelling. Bits are those of Unicode 14.0 on every machine: normal
    forms and case foldings of its characters are the same in all later versions, and code points that it does not
    assign stay as they are.

    Units are brought to the form NFC at most, and their blanks are set (`of_units`): identifiers may differ in case
    alone, and two people with one name would share the protection of one.

    Parameters
    ----------
    form
        Unicode's normal form: ``"NFC"`` makes composed and decomposed accents the same, ``"NFKC"`` also full and half
        width, ligatures and the like. None leaves them as they are.
    blanks
        ``"trim"`` drops blanks at both ends; ``"collapse"`` also makes each run of them one space. Blanks are the 25
        characters with Unicode's property White_Space, such as tabs, new lines and no-break spaces. None keeps them.
    case
        ``"fold"`` is Unicode's full case folding, of no language: ``"Maß"`` becomes ``"mass"``. None keeps it.
    invisible
        ``"drop"`` leaves out characters of no width: joiners, marks of direction, soft hyphens, byte order marks. Some
        scripts and emoji need joiners. None keeps them.

    Raises
    ------
    InvalidInputError
        For another value, and for a rule without a step.

    Examples
    --------
    >>> TextRule().apply(" Cafe\u0301\xa0 noir ")
    'Café noir'
    >>> print(TextRule(case="fold"))
    NFC, collapse, fold
    >>> TextRule.parse("NFKC, trim, fold, drop") == TextRule(form="NFKC", blanks="trim", case="fold", invisible="drop")
    True
    """

    form: Form | None = "NFC"
    blanks: Blanks | None = "collapse"
    case: Literal["fold"] | None = None
    invisible: Literal["drop"] | None = None

    def __post_init__(self) -> None:
        for name, choices in _STEPS.items():
            if (step := getattr(self, name)) not in (None, *choices):
                raise InvalidInputError(
                    f"{name} of a rule for text is {', '.join(map(repr, choices))} or None, got {short(step)}"
                )
        if not self._steps:
            raise InvalidInputError("a rule for text has at least one step; pass text=None to leave text as it is")

    @property
    def _steps(self) -> dict[str, str]:
        steps = {name: getattr(self, name) for name in _STEPS}
        return {name: step for name, step in steps.items() if step is not None}

    @staticmethod
    def parse(text: str) -> "TextRule":
        """Return the rule of steps with commas between them, as `str` shows it: ``"NFC, trim"``.

        Raises
        ------
        InvalidInputError
            For an unknown step, two of one kind, or none.
        """
        steps: dict[str, Any] = dict.fromkeys(_STEPS)
        for word in (part.strip() for part in text.split(",")):
            name = next((name for name, words in _STEPS.items() if word in words), None)
            if name is None or steps[name] is not None:
                choices = "; ".join(" or ".join(kind) for kind in _STEPS.values())
                raise InvalidInputError(
                    f"a rule for text has the steps {choices}, at most one of each kind, such as 'NFC, trim', got "
                    f"{short(text)}"
                )
            steps[name] = word
        return TextRule(**steps)

    @property
    def of_units(self) -> "TextRule | None":
        """The rule for columns of units: form NFC, where there is a form, and blanks; None if that is no step."""
        form = None if self.form is None else "NFC"
        return TextRule(form=form, blanks=self.blanks) if form or self.blanks else None  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, str]:
        """Return the rule as a dict that JSON can hold: its steps, and the version of Unicode."""
        return {"unicode": VERSION, **self._steps}

    @staticmethod
    def from_dict(fields: object) -> "TextRule":
        """Return the rule that `to_dict` wrote.

        Raises
        ------
        InvalidInputError
            For other fields, steps, or another version of Unicode.
        """
        if not isinstance(fields, Mapping) or not {"unicode"} <= fields.keys() <= {"unicode", *_STEPS}:
            raise InvalidInputError(
                f"a rule for text is an object of unicode and {', '.join(_STEPS)}, where stated, got {short(fields)}"
            )
        if fields["unicode"] != VERSION:
            raise InvalidInputError(
                f"this release knows rules for text of Unicode {VERSION}, got {short(fields['unicode'])}"
            )
        if any(step is None for step in fields.values()):
            raise InvalidInputError(f"a rule for text leaves out the steps that it has not, got {short(fields)}")
        return TextRule(**(dict.fromkeys(_STEPS) | {name: fields[name] for name in _STEPS if name in fields}))

    def __str__(self) -> str:
        return ", ".join(self._steps.values())

    def apply(self, text: str) -> str:
        r"""Return a text in this spelling, whose own spelling is itself.

        Examples
        --------
        >>> TextRule(form="NFKC", case="fold").apply("\uff34\uff25\uff21 Maß")
        'tea mass'
        """
        if self.invisible:
            text = text.translate(_DROPPED)
        text = self._letters(text)
        if self.blanks == "collapse":
            return _RUN.sub(" ", text).strip(" ")
        return text.strip(BLANKS) if self.blanks == "trim" else text

    def _letters(self, text: str) -> str:
        """Return text, folded and normalised but for code points that are not assigned, which divide it."""
        parts = [text] if text.isascii() else _unassigned().split(text)
        return "".join(part if place % 2 else self._assigned(part) for place, part in enumerate(parts))

    def _assigned(self, text: str) -> str:
        """Return assigned code points, folded and normalised (Unicode, D145 and D146)."""
        normalize = unicodedata.normalize
        if self.case:
            if self.form is None:
                return text.casefold()
            text = normalize("NFD", text).casefold()
            if self.form == "NFKC":
                text = normalize("NFKD", text).casefold()
        return text if self.form is None else normalize(self.form, text)

    def apply_to(self, array: "pa.Array") -> "pa.Array":  # noqa: PLR0911 - one return for each kind of column
        """Return an Arrow column of text in this spelling, and any other column as it is.

        A column that is in it already is returned itself. The words of a dictionary are rewritten once each, and those
        that become equal become one. Text that is not UTF-8 stays as it is, for whoever reads it to refuse.

        Parameters
        ----------
        array
            Text, plain or dictionary-encoded; null stays null.

        Examples
        --------
        >>> TextRule(form="NFC", blanks="trim").apply_to(pa.array(["tea ", None, "jam"])).to_pylist()
        ['tea', None, 'jam']
        """
        if pa.types.is_dictionary(array.type):
            words = self.apply_to(array.dictionary)
            if words is array.dictionary:
                return array
            encoded = words.dictionary_encode()
            return pa.DictionaryArray.from_arrays(encoded.indices.take(array.indices), encoded.dictionary)
        if not is_text_type(array.type):
            return array
        if pa.types.is_string_view(array.type):
            return self.apply_to(array.cast(pa.large_string()))
        if self._leaves_bytes(array):
            return array
        touched = pc.fill_null(pc.match_substring_regex(array, self._changes), fill_value=False)
        if not pc.any(touched).as_py():
            return array
        if pc.all(pc.string_is_ascii(array)).as_py():
            return self._of_ascii(array)
        texts = array.filter(touched)
        return pc.replace_with_mask(array, touched, self._rewritten(texts))

    def _leaves_bytes(self, array: "pa.Array") -> bool:
        """Return whether all texts are ASCII that `_changes` does not match, by whole arrays of bytes."""
        joined = bytes_of_texts(array)
        if joined is None:
            return False
        used, ends = joined
        if any(_any_within(used, *others) for others in self._other_bytes):
            return False
        if self.blanks is None or not (used == _BLANK).any():
            return True
        held = ends[1:] > ends[:-1]
        starts, stops = (ends[:-1], ends[1:]) if held.all() else (ends[:-1][held], ends[1:][held])
        at_edges = (used.take(starts) == _BLANK).any() or (used.take(stops - 1) == _BLANK).any()
        return not (at_edges or (self.blanks == "collapse" and _any_pair(used)))

    @property
    def _kept(self) -> list[_Range]:
        """Ranges of code points that the rule leaves as they are."""
        return [
            span
            for span in PASSED_ON
            if (span.compatible or self.form != "NFKC") and (span.folded or self.case is None)
        ]

    @functools.cached_property
    def _other_bytes(self) -> list[tuple[int, int]]:
        """Ranges of bytes, first and last, that are not ASCII or that the rule may change."""
        gaps, following = [], 0
        for span in self._kept:
            if span.first >= _NOT_ASCII:
                break
            if following < span.first:
                gaps.append((following, span.first - 1))
            following = span.last + 1
        return [*gaps, (min(following, _NOT_ASCII), 0xFF)]

    @functools.cached_property
    def _changes(self) -> str:
        """The pattern, as of RE2, of a text that may be in another spelling."""
        ranges = "".join(f"\\x{{{span.first:x}}}-\\x{{{span.last:x}}}" for span in self._kept)
        edges = {None: "", "trim": "^ | $|", "collapse": "^ | $|  |"}[self.blanks]
        return f"{edges}[^{ranges}]"

    def _of_ascii(self, array: "pa.Array") -> "pa.Array":
        if self.case:
            array = pc.ascii_lower(array)
        if self.blanks == "collapse":
            array = pc.replace_substring_regex(array, f"[{_ASCII_BLANKS}]+", " ")
        return pc.ascii_trim(array, characters=_ASCII_BLANKS) if self.blanks else array

    def _rewritten(self, texts: "pa.Array") -> "pa.Array":
        """Return texts, without nulls, each in this spelling."""
        if repeats(texts):
            encoded = texts.dictionary_encode()
            return self._rewritten(encoded.dictionary).take(encoded.indices)
        try:
            if self.invisible:
                texts = pc.replace_substring_regex(texts, _class_of(INVISIBLE), "")
            if self.form or self.case:
                texts = self._with_letters(texts)
            if self.blanks == "collapse":
                texts = pc.replace_substring_regex(texts, f"{_class_of(BLANKS)}+", " ")
            return pc.utf8_trim(texts, characters=BLANKS) if self.blanks else texts
        except (UnicodeDecodeError, pa.ArrowException):
            return self._of_bytes(texts)

    def _with_letters(self, texts: "pa.Array") -> "pa.Array":
        """Return texts with their case folded and in their normal form, all at once: as one text, NUL between them.

        Arrow's own normal form (`utf8_normalize` of Arrow 25) is not NFC but NFD.
        """
        any_unassigned = pc.any(pc.match_substring_regex(texts, _unassigned_in_re2())).as_py()  # faster than Python's
        letters = self._letters if any_unassigned else self._assigned
        if pc.any(pc.match_substring(texts, _NUL)).as_py():
            return pa.array([letters(text) for text in texts.to_pylist()], texts.type)
        long = texts.cast(pa.large_string())
        joined = pc.binary_join(pa.LargeListArray.from_arrays([0, len(long)], long), pa.scalar(_NUL, long.type))
        whole = pa.array([letters(joined[0].as_py())], long.type)
        return pc.split_pattern(whole, _NUL).values.cast(texts.type)

    def _of_bytes(self, texts: "pa.Array") -> "pa.Array":
        """Return texts of which some are not UTF-8, which stay as they are."""
        is_long = pa.types.is_large_string(texts.type)

        def spelt(word: bytes) -> bytes:
            try:
                return self.apply(word.decode()).encode()
            except UnicodeDecodeError:
                return word

        words = [spelt(word) for word in texts.cast(pa.large_binary()).to_pylist()]
        return pa.array(words, pa.large_binary() if is_long else pa.binary()).view(texts.type)


def _any_within(used: NDArray[np.uint8], first: int, last: int) -> bool:
    """Return whether any byte is in a range; at an end of all bytes, the least or the largest byte tells."""
    if not used.size:
        return False
    if first == 0:
        return int(used.min()) <= last
    if last == 0xFF:
        return int(used.max()) >= first
    return bool((used - np.uint8(first) <= last - first).any())


def _any_pair(used: NDArray[np.uint8]) -> bool:
    """Return whether a blank follows a blank: two bytes are compared at a time, from the first and the second on."""
    pairs = (used[shift : shift + (used.size - shift) // 2 * 2].view(np.uint16) for shift in (0, 1))
    return any(bool((pair == _BLANK << 8 | _BLANK).any()) for pair in pairs)


def _class_of(characters: str) -> str:
    """Return characters as a class of RE2."""
    return "[" + "".join(f"\\x{{{ord(character):x}}}" for character in characters) + "]"


def _classes(form: str) -> list[str]:
    """Return the ranges of unassigned code points, below and from U+10000 on, as of a class of regular expressions."""
    ranges = unassigned_ranges()
    low, high = ([span for span in ranges if (span[0] < _ASTRAL) is is_low] for is_low in (True, False))
    return ["".join(f"{form.format(first)}-{form.format(last)}" for first, last in part) for part in (low, high)]


@functools.cache
def _unassigned() -> re.Pattern[str]:
    """Return the pattern of runs of code points that Unicode 14.0 does not assign, as one group."""
    low, high = _classes("\\U{:08x}")  # Python looks at ranges from U+10000 on one by one, so not for other code points
    return re.compile(f"((?:[{low}]|(?=[\\U{_ASTRAL:08x}-\\U0010ffff])[{high}])+)")


@functools.cache
def _unassigned_in_re2() -> str:
    return "[" + "".join(_classes(r"\x{{{:x}}}")) + "]"
