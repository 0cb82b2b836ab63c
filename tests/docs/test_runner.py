"""The marks of blocks mean what `tests.docs.pages` says, and a page that is wrong is found."""

from pathlib import Path

import pytest

from tests.cli.running import Forks
from tests.docs.pages import Reader, blocks_of

GOOD = """
<!-- file: rows.csv -->
```csv
a,b
```
<!-- fails -->
```python
from pathlib import Path

assert Path("rows.csv").read_text() == "a,b\\n"
int("x")
```
<!-- part -->
```text
ValueError: invalid literal for int() with base 10: 'x'
```
```python
print("12.5 ± 3 in all")
```
<!-- numbers vary -->
```text
14.25 ± 2 in all
```
<!-- not run: it needs a cluster -->
```sh
# a comment
streamsketch merge north.sketch \\
  south.sketch --populations disjoint -o sum.sketch
make flink-demo
python -m pipelines.parties_demo --input flights.parquet
pip install '.[beam]'
```
"""
WRONG = {
    "other text": '```python\nprint("one")\n```\n```text\ntwo\n```\n',
    "other words": '```python\nprint("1 cat")\n```\n<!-- numbers vary -->\n```text\n2 dogs\n```\n',
    "a line that is not printed": '```python\nprint("one")\n```\n<!-- part -->\n```text\ntwo\n```\n',
    "no failure": "<!-- fails -->\n```python\n1\n```\n",
    "no such option": "<!-- not run: slow -->\n```sh\nstreamsketch merge --quick\n```\n",
    "no such target": "<!-- not run: slow -->\n```sh\nmake coffee\n```\n",
    "no such option of a pipeline": (
        "<!-- not run: slow -->\n```sh\npython -m pipelines.parties_demo --coffee 1 --input a.parquet\n```\n"
    ),
    "no such extra": "```sh\npip install '.[coffee]'\n```\n",
}


def read(page: Path, text: str, forks: Forks) -> None:
    page.write_text(text, encoding="utf-8")
    reader = Reader(page, forks)
    for block in blocks_of(page):
        reader.read(block)


def test_a_page_that_is_right_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forks: Forks) -> None:
    monkeypatch.chdir(tmp_path)
    read(tmp_path / "page.md", GOOD, forks)


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_a_page_that_is_wrong_fails(text: str, tmp_path: Path, forks: Forks) -> None:
    with pytest.raises(AssertionError):
        read(tmp_path / "page.md", text, forks)
