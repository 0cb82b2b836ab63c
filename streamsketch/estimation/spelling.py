"""Whether parties spell alike: what a public dictionary explains, and which other spelling of it would explain more."""

import dataclasses
import html
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from itertools import permutations

import numpy as np

from streamsketch.agreement.agreement import Agreement
from streamsketch.core.libraries import pa
from streamsketch.core.notebooks import facts
from streamsketch.core.numbers import Floats, Ints
from streamsketch.data.columns import is_text_type, value_type
from streamsketch.errors import InvalidInputError
from streamsketch.estimation.blocks import AnySketch, check_comparable
from streamsketch.estimation.intervals import quantile
from streamsketch.estimation.items import item_table, items_of
from streamsketch.estimation.largest import top
from streamsketch.estimation.points import points_of

_MISTAKES = 0.001  # the probability that a call names any way without a reason
_DECOYS = 4096  # names that nobody has, by which the errors of estimates are measured
_FEWEST, _COLLISIONS = 6, 2  # names that have another spelling, and of these, terms that are not counted
_LEAST = 0.02  # a cosine that rises by less is no concern


def _accents_dropped(text: str) -> str:
    return "".join(
        character for character in unicodedata.normalize("NFD", text) if not unicodedata.combining(character)
    )


def _misread(text: str) -> str:
    return text.encode().decode("cp1252", errors="ignore")


def _of_integers(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: change(text) if text.isascii() and text.isdigit() else text


_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"})
_WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F)} | {0x20: 0x3000}
WAYS: dict[str, Callable[[str], str]] = {
    "accents as marks of their own (NFD)": lambda text: unicodedata.normalize("NFD", text),
    "composed accents (NFC)": lambda text: unicodedata.normalize("NFC", text),
    "upper case": str.upper,
    "lower case": str.lower,
    "capitals at words": str.title,
    "a blank at the end": lambda text: f"{text} ",
    "a blank at the beginning": lambda text: f" {text}",
    "a carriage return at the end": lambda text: f"{text}\r",
    "no-break spaces": lambda text: text.replace(" ", "\xa0"),
    "two blanks for each": lambda text: text.replace(" ", "  "),
    "no blanks": lambda text: text.replace(" ", ""),
    "underscores for blanks": lambda text: text.replace(" ", "_"),
    "hyphens for blanks": lambda text: text.replace(" ", "-"),
    "blanks for hyphens": lambda text: text.replace("-", " "),
    "full width": lambda text: text.translate(_WIDE),
    "a zero-width space at the end": lambda text: f"{text}\u200b",
    "a byte order mark at the beginning": lambda text: f"\ufeff{text}",
    "no accents": _accents_dropped,
    "umlauts as two letters": lambda text: text.translate(_UMLAUTS),
    "UTF-8 that was read as Windows-1252": _misread,
    "curly apostrophes": lambda text: text.replace("'", "\u2019"),
    "entities of HTML": html.escape,
    "double quotes around it": lambda text: f'"{text}"',
    "no zeros at the beginning": _of_integers(lambda text: text.lstrip("0") or "0"),
    "a decimal place behind whole numbers": _of_integers(lambda text: f"{text}.0"),
}
"""Other spellings of a text that `spelling` looks for, by what they are called."""


@dataclasses.dataclass(frozen=True)
class Explained:
    """How much of one stream a dictionary explains: a share of its squared norm, with a conservative interval."""

    share: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.share:.0f} %, {100 * self.low:.0f} to {100 * self.high:.0f} %"


@dataclasses.dataclass(frozen=True)
class SpeltOtherwise:
    """Two streams that look alike once the names of one are spelt in another way.

    Parameters
    ----------
    first, second
        Their names. ``second`` has the other spelling.
    way
        What it is called, such as ``"upper case"``, or ``"columns swapped"``.
    cosine, folded
        Estimated cosines over the dictionary: as it is, and with that of ``second`` in the other spelling as well.
    errors
        By how many standard errors the second exceeds the first.
    """

    first: str
    second: str
    way: str
    cosine: float
    folded: float
    errors: float

    def __str__(self) -> str:
        return (
            f"{self.second} seems to have {self.way}, and {self.first} has not: their cosine over the dictionary is "
            f"{self.cosine:.2f}, and {self.folded:.2f} if both spellings are one name"
        )


@dataclasses.dataclass(frozen=True)
class SpellingReport:
    """Whether streams spell alike, as `streamsketch.spelling` finds it.

    Parameters
    ----------
    explained
        Of each stream, how much of it the dictionary explains.
    otherwise
        Pairs that look like the same things in another spelling, the clearest first.
    names
        The number of different names in the dictionary.
    """

    explained: dict[str, Explained]
    otherwise: tuple[SpeltOtherwise, ...]
    names: int

    def __str__(self) -> str:
        lines = [f"{name}: the dictionary explains {share}" for name, share in self.explained.items()]
        return "\n".join([*lines, *(f"{finding}." for finding in self.otherwise)])

    def _repr_html_(self) -> str:
        rows = [(name, f"explained: {share}") for name, share in self.explained.items()]
        return facts("Spelling", [*rows, *((finding.way, str(finding)) for finding in self.otherwise)])


def spelling(releases: object, dictionary: object, *, agreement: Agreement | None = None) -> SpellingReport:
    """Say whether streams name the same things alike, from their releases and a public dictionary.

    Names that are spelt otherwise are other items, and nobody can see it in the rows of others. A share that is small
    in one stream, and not in others, is a sign of other names. And of each two streams, the estimates of the names of
    the first are multiplied with those of the same names of the second in each of 25 other spellings, as far as the
    agreement does not call them the same: if both have the same names, the sum is noise. A way is named if the sum
    exceeds what the errors of names that nobody has explain, with a probability of a mistake of 0.001 for all streams
    and ways of a call together, as far as such sums are normal. The two largest terms (or one in 32) are left out then,
    as they may be of names that share cells. Also, the cosine has to rise by 0.02 or more, and at least six names to
    have this spelling. Nothing is spent: it is postprocessing.

    Parameters
    ----------
    releases
        Releases or sketches by name: a dict, or a table by key; a dict of tables has their keys behind its names.
        Answers from a `Sketch` are as secret as it is.
    dictionary
        Names that may occur, as in `top`. It must be public.
    agreement
        As in `frequency`.

    Returns
    -------
    SpellingReport
        What the dictionary explains of each, and the pairs that are spelt otherwise.

    Raises
    ------
    InvalidInputError
        As in `top`; and for an empty collection of releases.
    TypeError, IncompatibleAgreementsError
        As in `frequency`.

    Examples
    --------
    >>> import streamsketch as ss
    >>> names = ["green tea", "black tea", "white bread", "sea salt", "brown rice", "olive oil"]
    >>> north, south = (ss.CountSketch(sketch_dim=512, seed=7).sketch() for _ in range(2))
    >>> north.update(names, [90, 80, 70, 60, 50, 40])
    >>> south.update([name.upper() for name in names], [90, 80, 70, 60, 50, 40])
    >>> report = ss.spelling({"north": north, "south": south}, names)
    >>> report.otherwise[0].way, [round(share.share, 1) for share in report.explained.values()]
    ('upper case', [1.0, 0.0])
    """
    streams = dict(_named(releases))
    if not streams:
        raise InvalidInputError("spelling needs releases by name, such as {'north': release}, and got none")
    check_comparable(list(streams.values()))
    explained = {name: _explained(stream, dictionary, agreement) for name, stream in streams.items()}
    any_stream = next(iter(streams.values()))
    agreed = agreement if agreement is not None else getattr(any_stream, "agreement", None)
    table = item_table(dictionary, agreed if isinstance(agreed, Agreement) else None)
    plain = items_of(table, any_stream, agreement).indices
    _, first = np.unique(plain, return_index=True)
    table, plain = table.take(pa.array(np.sort(first))), plain[np.sort(first)]
    ways = dict(_otherwise(table, plain, any_stream, agreement)) if len(streams) > 1 else {}
    findings: list[SpeltOtherwise] = []
    if ways:
        decoys = _decoys(table, any_stream, agreement)
        read = {name: _Read.of(stream, plain, ways, decoys) for name, stream in streams.items()}
        tests = len(ways) * len(streams) * (len(streams) - 1)
        least = quantile(2 * _MISTAKES / tests, "normal")  # of one side
        for pair in permutations(streams, 2):
            findings += _clearest(*pair, read[pair[0]], read[pair[1]], ways, least)
    findings.sort(key=lambda finding: -finding.errors)
    return SpellingReport(explained, tuple(findings), int(plain.size))


def _named(releases: object, before: str = "") -> Iterator[tuple[str, AnySketch]]:
    if not isinstance(releases, Mapping):
        raise TypeError(
            f"releases must be a dict of names to releases, or a table by key, got a {type(releases).__name__}"
        )
    for name, release in releases.items():
        if isinstance(release, Mapping):
            yield from _named(release, f"{before}{name} ")
        else:
            yield f"{before}{name}", release


def _explained(release: AnySketch, dictionary: object, agreement: Agreement | None) -> Explained:
    largest = top(release, dictionary, 1, agreement=agreement)
    whole, missed = largest.squared_norm, largest.missed
    low, high = missed.interval()
    least, most = whole.interval()
    share = 1 - missed.value / whole.value if whole.value > 0 else 0.0
    ends = 1 - high / least if least > 0 else 0.0, 1 - low / most if most > 0 else 1.0
    clipped = [min(max(value, 0.0), 1.0) for value in (share, *ends)]
    return Explained(*clipped)


def _otherwise(
    table: "pa.Table", plain: Ints, sketch: AnySketch, agreement: Agreement | None
) -> Iterator[tuple[str, tuple[Ints, Ints]]]:
    """Yield the ways that change some names: places of these, (m,), and their indices, (m,), that no name has."""
    texts = [name for name in table.column_names if is_text_type(value_type(table.column(name)))]
    for way, change in WAYS.items():
        changed = table
        for name in texts:
            words = [None if text is None else change(text) for text in table.column(name).to_pylist()]
            changed = changed.set_column(changed.column_names.index(name), name, pa.array(words, pa.string()))
        yield from _other_names(way, changed, plain, sketch, agreement)
    if len(texts) == 2:
        first, second = texts
        columns = [table.column({first: second, second: first}.get(name, name)) for name in table.column_names]
        swapped = pa.table(columns, names=table.column_names)
        yield from _other_names("columns swapped", swapped, plain, sketch, agreement)


def _other_names(
    way: str, table: "pa.Table", plain: Ints, sketch: AnySketch, agreement: Agreement | None
) -> Iterator[tuple[str, tuple[Ints, Ints]]]:
    indices = items_of(table, sketch, agreement).indices
    _, first = np.unique(indices, return_index=True)
    places = np.setdiff1d(first, np.flatnonzero(np.isin(indices, plain)))
    if places.size >= _FEWEST:
        yield way, (places, indices[places])


def _decoys(table: "pa.Table", sketch: AnySketch, agreement: Agreement | None) -> Ints:
    """Return indices of names that nobody has: those of the dictionary with noncharacters around them, many times."""
    rounds = -(-_DECOYS // len(table))
    parts = []
    for number in range(rounds):
        changed = table
        for place, name in enumerate(table.column_names):
            if is_text_type(value_type(table.column(name))):
                words = [f"\ufdd0{number}\ufdd1{text}" for text in table.column(name).to_pylist()]
                changed = changed.set_column(place, name, pa.array(words, pa.string()))
        parts.append(items_of(changed, sketch, agreement).indices)
    return np.concatenate(parts)[:_DECOYS]


@dataclasses.dataclass(frozen=True)
class _Read:
    """What one release says of the dictionary in its own spelling, in others, and of names that nobody has."""

    plain: Floats
    ways: dict[str, Floats]
    deviation: float
    norm: float

    @staticmethod
    def of(release: AnySketch, plain: Ints, ways: dict[str, tuple[Ints, Ints]], decoys: Ints) -> "_Read":
        indices = np.concatenate([plain, decoys, *(indices for _, indices in ways.values())])
        values = points_of(release, indices, "mean").value
        sizes = np.cumsum([plain.size, decoys.size, *(indices.size for _, indices in ways.values())])
        own, nobody, *others, _ = np.split(values, sizes)
        deviation = float(np.sqrt(np.mean(nobody**2)))
        norm = max(float(own @ own) - own.size * deviation**2, 0.0)
        return _Read(own, dict(zip(ways, others, strict=True)), deviation, norm)


def _clearest(
    first: str, second: str, ours: _Read, theirs: _Read, ways: dict[str, tuple[Ints, Ints]], least: float
) -> list[SpeltOtherwise]:
    """Return the way of the second that rises most against the first; none if all are noise."""
    findings = []
    for way, (places, _) in ways.items():
        own, other = ours.plain[places], theirs.ways[way]
        terms = own * other
        error = theirs.deviation * float(np.sqrt(own @ own))
        most = max(_COLLISIONS, terms.size // 32)  # the largest terms may be those of names that share cells
        without = float(np.sort(terms)[:-most].sum())
        if error <= 0 or without < least * error:
            continue
        both = float(other @ other) - other.size * theirs.deviation**2
        length = float(np.sqrt(ours.norm * max(theirs.norm + both, 0.0)))
        if length <= 0:
            continue
        together = float(ours.plain @ theirs.plain)
        rise = float(terms.sum()) / length
        before = min(max(together / length, -1.0), 1.0)
        after = min(max(together / length + rise, -1.0), 1.0)
        if rise >= _LEAST:
            findings.append(SpeltOtherwise(first, second, way, before, after, float(terms.sum()) / error))
    return sorted(findings, key=lambda finding: -finding.errors)[:1]
