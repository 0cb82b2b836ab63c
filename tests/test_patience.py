"""No test waits for a number of seconds that suits one machine, or one that nobody shares."""

import re
from pathlib import Path

FIXED = re.compile(r"monotonic\(\) \+ \d|\btimeout=\d\d|\.(?:wait|join|result)\(\d\d")
HERE = Path(__file__).parent


def test_tests_wait_as_patience_says() -> None:
    texts = {path.relative_to(HERE): path.read_text(encoding="utf-8") for path in sorted(HERE.rglob("*.py"))}
    assert len(texts) > 600
    found = {str(path): match[0] for path, text in texts.items() if (match := FIXED.search(text))}
    assert found == {}, "wait_until, or PATIENCE of tests/patience.py"
