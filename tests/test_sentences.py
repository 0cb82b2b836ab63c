"""Sentences that both languages say are written once, in `streamsketch.core.sentences`, and filled in alike."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest
from jinja2 import nodes

import streamsketch
from streamsketch.report.text import templates as templates_of_pages
from tests.generated.sentences import fields_of, templates

PACKAGE = Path(streamsketch.__file__).parent
WEB = Path(__file__).parents[1] / "web" / "src"
SENTENCES = templates()
LONG, WORDS = 48, 5  # characters, and blanks in them, that two languages do not write by chance
MARK = "\0"
_NAME = re.compile(r"\bsentences\.([A-Z0-9_]+)")


def _named(node: ast.AST) -> set[str]:
    """Return the sentences that an expression names."""
    return {
        one.attr
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id == "sentences"
    }


def said_in(source: str) -> Iterator[tuple[str, set[str]]]:
    """Yield each sentence that a module names, with the fields it fills in there; tables are filled in where read."""
    tree = ast.parse(source)
    tables: dict[str, set[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            tables |= {target.id: _named(node.value)} if isinstance(target, ast.Name) else {}
    filled: dict[str, int] = {}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format"):
            continue
        text = node.func.value
        of_table = isinstance(text, ast.Subscript) and isinstance(text.value, ast.Name) and text.value.id in tables
        for name in tables[text.value.id] if of_table else _named(text):  # type: ignore[attr-defined]
            filled[name] = filled.get(name, 0) + 1
            yield name, {word.arg or "**" for word in node.keywords} | {"*" for _ in node.args}
    for name in _NAME.findall(source):
        filled[name] = filled.get(name, 0) - 1
        if filled[name] < 0:
            yield name, set()


def said_in_template(source: str) -> Iterator[tuple[str, set[str]]]:
    """Yield each sentence that a template of the report names, with the fields it fills in there."""
    tree = templates_of_pages().parse(source)
    filled = set()
    for call in tree.find_all(nodes.Call):
        if isinstance(call.node, nodes.Getattr) and call.node.attr == "format":
            filled.add(call.node.node)
            if _is_sentence(call.node.node):
                yield call.node.node.attr, {word.key for word in call.kwargs} | {"*" for _ in call.args}
    yield from ((one.attr, set()) for one in tree.find_all(nodes.Getattr) if _is_sentence(one) and one not in filled)


def _is_sentence(node: nodes.Node) -> TypeGuard[nodes.Getattr]:
    return isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name) and node.node.name == "sentences"


@functools.cache
def _said(name: str) -> list[tuple[str, set[str]]]:
    source = (PACKAGE / name).read_text(encoding="utf-8")
    return list(said_in(source) if name.endswith(".py") else said_in_template(source))


PYTHON = [  # parsed by the process that tests it, not by all that collect tests
    path.relative_to(PACKAGE).as_posix()
    for path in sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.j2")])
    if _NAME.search(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("file", PYTHON)
def test_python_fills_in_the_fields_of_each_sentence(file: str) -> None:
    said = _said(file)
    assert said == [(name, fields_of(SENTENCES[name])) for name, _ in said] != []


def test_other_fields_are_noticed() -> None:
    """As `str.format` ignores a field too many, and a table is filled in far from where it is written."""
    source = "_T = {1: sentences.CLIP_SCALE}\n_T[1].format(unt=1)\nsentences.ROW.format(window=1, x=2)\nsentences.L2\n"
    assert sorted(said_in(source)) == [("CLIP_SCALE", {"unt"}), ("L2", set()), ("ROW", {"window", "x"})]
    page = "{{ sentences.ROW.format(x=sentences.L2) }}{{ sentences.ROW }}{{ '{:,}'.format(3) }}"
    assert sorted(said_in_template(page)) == [("L2", set()), ("ROW", set()), ("ROW", {"x"})]


def test_both_languages_say_each_sentence() -> None:
    """One that Python alone says stays where it is said."""
    python = {name for file in PYTHON for name, _ in _said(file)}
    typescript = {name for path in WEB.rglob("*.ts") for name in _NAME.findall(path.read_text(encoding="utf-8"))}
    assert python == typescript == set(SENTENCES)


def _windows(text: str) -> Iterator[str]:
    return (text[at : at + LONG] for at in range(len(text) - LONG + 1))


def _runs(text: str) -> set[str]:
    """Return all runs of `LONG` characters and some words, with a mark for each field."""
    return {run for run in _windows(text) if run.count(" ") >= WORDS}


def texts_of_python(source: str) -> Iterator[str]:
    """Yield what a module of Python says: its strings with a mark for each field, but for its docstrings."""
    tree = ast.parse(source)
    docs = {one.value for one in ast.walk(tree) if isinstance(one, ast.Expr)}
    parts = {part for one in ast.walk(tree) if isinstance(one, ast.JoinedStr) for part in one.values}
    for one in ast.walk(tree):
        if isinstance(one, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else MARK for part in one.values)
        elif isinstance(one, ast.Constant) and isinstance(one.value, str) and one not in docs | parts:
            yield re.sub(r"\{\w+\}", MARK, one.value)


def text_of_typescript(source: str) -> str:
    """Return a module of TypeScript without comments, with a mark for each field of its strings."""
    text = re.sub(r"/\*.*?\*/|^\s*//[^\n]*", "", source, flags=re.DOTALL | re.MULTILINE).replace("\\u00a0", "\u00a0")
    while (shorter := re.sub(r"\$\{(?:[^{}]|\{[^{}]*\})*\}", MARK, text)) != text:
        text = shorter
    return text


def test_no_sentence_is_written_in_both_languages() -> None:
    typescript = {
        run: path.name
        for path in sorted(WEB.rglob("*.ts"))
        if path.name not in {"sentences.ts", "unicode14.ts"}  # which Python wrote
        for run in _runs(text_of_typescript(path.read_text(encoding="utf-8")))
    }
    said = [
        (path.name, text)
        for path in PACKAGE.rglob("*.py")
        for text in texts_of_python(path.read_text(encoding="utf-8"))
    ]
    for path in PACKAGE.rglob("*.j2"):
        page = re.sub(r"\{\{.*?\}\}|\{%.*?%\}", MARK, path.read_text(encoding="utf-8")).replace("&nbsp;", "\u00a0")
        said.append((path.name, page))
    twice = [(name, typescript[run], run) for name, text in said for run in _windows(text) if run in typescript]
    assert twice == []


def test_a_sentence_written_twice_is_noticed() -> None:
    python = 'f"the {noise} of its mechanism, {one} of at most {two}, of that noise"'
    typescript = "out.push(`so the ${noise[`a`]} of its mechanism, ${f({ a })} of at most ${bound}, of that noise.`)"
    (text,) = texts_of_python(python)
    assert _runs(text)
    assert _runs(text) <= _runs(text_of_typescript(typescript))
    assert list(texts_of_python('"""Not this."""')) == []
    assert text_of_typescript(f"/** {typescript} */\n// {typescript}\nlet a;").split() == ["let", "a;"]


@pytest.mark.parametrize("text", ["{}", "{0}", "{a:,}", "{a!r}", "{a.b}", "{a[0]}", "{{a}}", "a}}"])
def test_fields_are_names_alone(text: str) -> None:
    """TypeScript fills in nothing else."""
    with pytest.raises(ValueError, match="fields of a sentence are names"):
        fields_of(text)
    assert fields_of("{b} of {a}, {b}") == {"a", "b"}
