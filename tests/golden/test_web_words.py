"""What the TypeScript package says in words is compared with a file of this library's words; here, that it is current.

`python -m tests.golden.test_web_words` writes the file again.
"""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from streamsketch.explanation import explain_release
from tests.golden import make_kit

WORDS = Path(__file__).parents[2] / "web/tests/words.json"
HEADINGS = ("Guarantee", "Protected", "Only if", "Meaning", "How", "Check")


def made() -> list[dict[str, Any]]:
    """Return what the library says of each release of the kit."""
    found = []
    for case in json.loads((make_kit.KIT / "releases.json").read_text(encoding="utf-8")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said = explain_release(ss.PrivateSketch.from_bytes(bytes.fromhex(case["bytes"])))
        sections = {name: sentences for name, sentences in said.sections if name in HEADINGS}
        found.append(
            {"name": case["name"], "verdict": said.check.verdict} | sections | {"Not protected": said.not_protected}
        )
    return found


def text() -> str:
    """Return the file's text."""
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in made())
    return f"[\n{lines}\n]\n"


@pytest.mark.tools
def test_the_words_are_current() -> None:
    assert WORDS.read_text(encoding="utf-8") == text(), "run python -m tests.golden.test_web_words"


if __name__ == "__main__":
    WORDS.write_text(text(), encoding="utf-8")
