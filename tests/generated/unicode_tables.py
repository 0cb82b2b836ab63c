"""Tables of Unicode 14.0 for the TypeScript package, whose language has no case folding: ``make generated``.

Foldings of code points that Unicode 14.0 assigns are the same in every later version, so each Python writes this file.
"""

from collections.abc import Iterator

from streamsketch.data.unicode_14 import VERSION, unassigned_ranges
from tests.generated.namespaces import ROOT

FILE = ROOT / "web" / "src" / "unicode14.ts"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_WIDTH = 150
_SURROGATES = range(0xD800, 0xE000)


def current_text() -> str:
    """Return the file's text."""
    return (
        "/** Tables of Unicode 14.0, which `make generated` writes: in base 36, as `spelling.ts` reads them. */\n"
        f'export const UNICODE = "{VERSION}";\n\n'
        "/** Unassigned ranges: how far the first is from the end of the last range, and the last from it. */\n"
        f"export const UNASSIGNED =\n{_lines(' '.join(_gaps()))};\n\n"
        "/** Case foldings: first, count, step and the first's folding; or one code point, 0 and its folding. */\n"
        f"export const FOLDED =\n{_lines(' '.join(_foldings()))};\n"
    )


def _gaps() -> Iterator[str]:
    last = 0
    for first, end in unassigned_ranges():
        yield f"{_number(first - last)},{_number(end - first)}" if end > first else _number(first - last)
        last = end


def _foldings() -> Iterator[str]:
    unassigned = {code for first, last in unassigned_ranges() for code in range(first, last + 1)}
    folded = {
        code: chr(code).casefold() for code in range(0x110000) if code not in unassigned and code not in _SURROGATES
    }
    changed = {code: text for code, text in folded.items() if text != chr(code)}
    single = {code: ord(text) for code, text in changed.items() if len(text) == 1}
    for code, text in changed.items():
        if code not in single:
            yield ",".join(map(_number, [code, 0, *map(ord, text)]))
    while single:
        first = min(single)
        runs = {
            step: next(n for n in range(1, 0x110000) if single.get(first + n * step) != single[first] + n * step)
            for step in (1, 2)
        }
        step = max(runs, key=runs.__getitem__)
        yield ",".join(map(_number, [first, runs[step], step, single[first]]))
        for place in range(runs[step]):
            del single[first + place * step]


def _number(number: int) -> str:
    text = ""
    while number or not text:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text


def _lines(text: str) -> str:
    lines, line = [], ""
    for word in text.split(" "):
        if len(line) + len(word) >= _WIDTH:
            lines.append(line)
            line = ""
        line += f"{word} "
    lines.append(line.rstrip(" "))
    return " +\n".join(f'  "{line}"' for line in lines)
