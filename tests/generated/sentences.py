"""The sentences of `streamsketch.core.sentences` as constants of the TypeScript package."""

import json
import string

from streamsketch.core import sentences

_HEAD = "/** The sentences that Python says, too: `streamsketch/core/sentences.py`. Written by `make generated`. */\n"


def templates() -> dict[str, str]:
    """Return each sentence by its name."""
    return {name: text for name, text in vars(sentences).items() if name.isupper()}


def fields_of(text: str) -> set[str]:
    """Return the fields of a sentence; `ValueError` for one that both languages would not fill in alike."""
    parts = list(string.Formatter().parse(text))
    names = {name for _, name, _, _ in parts if name is not None}
    plain = "".join(literal + ("" if name is None else f"{{{name}}}") for literal, name, _, _ in parts)
    if plain != text or not all(name.isidentifier() for name in names):
        raise ValueError(f"fields of a sentence are names in braces, and it has no other braces, got {text!r}")
    return names


def typescript() -> str:
    """Return the source of the constants, which a bundle has only where they are used."""
    lines = [_HEAD]
    for name, text in templates().items():
        fields_of(text)
        shown = json.dumps(text, ensure_ascii=False).replace("\u00a0", "\\u00a0")
        lines.append(f"export const {name} = {shown};\n")
    return "".join(lines)
