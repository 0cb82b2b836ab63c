"""Pages with code: what their blocks say, and how a reader would run them.

Blocks of a page run in order, in one folder that holds ``pipelines/data``; those of Python share their names. A
``text`` block is what the block before it prints, to the letter. What differs is said in the line before a block, by a
comment that no reader of the page sees:

``<!-- not run: REASON -->``  its commands and options exist, and that is all
``<!-- fails -->``            it ends in an error, which the text block after it says
``<!-- file: NAME -->``       it is the content of a file that later blocks read
``<!-- numbers vary -->``     of a text block: the words are these, the numbers others (noise is new each time)
``<!-- part -->``             of a text block: these lines, in this order, among others
"""

import ast
import contextlib
import doctest
import functools
import glob
import io
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from tests.cli.running import ENVIRONMENT, ROOT, Forks

_BLOCK = re.compile(r"(?:^<!-- ([a-z ]+)(?:: (.*?))? -->\n)?^(`{3,})(\w+)\n(.*?)^\3$", re.MULTILINE | re.DOTALL)
_MARKS = {None, "not run", "fails", "file", "numbers vary", "part"}
_OPTION = re.compile(r"--[a-z][\w-]*")


class Block(NamedTuple):
    mark: str | None
    argument: str
    language: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    """Return a page's blocks of code, without the directives of the site."""
    found = [Block(mark or None, said, kind, text) for mark, said, _, kind, text in _BLOCK.findall(page.read_text())]
    assert {block.mark for block in found} <= _MARKS, page
    return found


def commands_of(text: str) -> list[str]:
    """Return the commands of a block for a shell: lines, those that end in a backslash with what follows."""
    lines = text.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


class Reader:
    """Runs the blocks of one page, in the folder it stands in."""

    def __init__(self, page: Path, forks: Forks) -> None:
        self.page = page
        self.forks = forks
        self.names: dict[str, object] = {"__name__": page.stem}
        self.said: list[str] = []
        """What each block printed, in order."""

    def read(self, block: Block) -> None:
        """Do what the block says, and remember what it prints; a text block must be what was printed last."""
        if block.mark == "file":
            Path(block.argument).write_text(block.text, encoding="utf-8")
        elif block.language == "text":
            self.compare(block)
        elif block.mark == "not run":
            self.check(block)
            self.said.append("")
        elif block.language in {"python", "pycon", "sh"}:
            self.said.append(getattr(self, block.language)(block))
        else:
            self.check(block)

    def compare(self, block: Block) -> None:
        """Assert that a text block shows what the block before it printed."""
        said = self.said[-1]
        if block.mark == "numbers vary":
            number, padding = re.compile(r"[ ─]+|-?\d[\d,.]*(e-?\d+)?"), re.compile(r" +$", re.MULTILINE)
            printed, shown = (number.sub("#", padding.sub("", text.strip())) for text in (said, block.text))
            assert printed == shown
        elif block.mark == "part":
            lines = iter(line.strip() for line in said.splitlines())
            for line in filter(None, map(str.strip, block.text.splitlines())):
                assert line in ("…", "...") or line in lines, f"{line!r} is not printed (any more): {said}"
        else:
            assert said.strip() == block.text.strip()

    def python(self, block: Block) -> str:
        """Run a block of Python, and return what it prints, or of an error what a traceback ends with."""
        printed = io.StringIO()
        code = compile(block.text, str(self.page), "exec", dont_inherit=True)
        try:
            with contextlib.redirect_stdout(printed):
                exec(code, self.names)  # noqa: S102 - that is the test
        except Exception as error:
            if block.mark != "fails":
                raise
            return f"{type(error).__name__}: {error}"
        assert block.mark != "fails", "the page says that this fails"
        return printed.getvalue()

    def pycon(self, block: Block) -> str:
        """Run examples with their results between."""
        example = doctest.DocTestParser().get_doctest(block.text, self.names, str(self.page), str(self.page), 0)
        example.globs = self.names
        assert doctest.DocTestRunner().run(example, clear_globs=False).failed == 0
        return ""

    def sh(self, block: Block) -> str:
        """Run commands one by one, and return what they print."""
        fails = block.mark == "fails"
        said = []
        for line in commands_of(block.text):
            before, piped, last = line.rpartition(" | streamsketch ")
            program, *arguments = shlex.split("streamsketch " + last if piped else line, comments=True)
            plain = re.sub(r"'[^']*'", "", last)
            if program == "make" or line.startswith("pip install"):
                check_command(line, self.forks)
            elif program == "streamsketch" and not re.search(r"[|<>$;&()]", plain):
                if re.search(r"[*?]", plain):  # names of files, as a shell finds them
                    arguments = [name for word in arguments for name in sorted(glob.glob(word)) or [word]]  # noqa: PTH207
                done = self.forks.run(*arguments, stdin=_shell(before).stdout.encode() if piped else b"")
                assert (done.returncode != 0) == fails, (line, done)
                said.append(done.stderr if fails else done.stdout)
            elif program == "python" and arguments[0] == "-m" and arguments[1].startswith("pipelines") and not fails:
                said.append(run_module(*arguments[1:]))
            else:
                ended = _shell(line)
                assert (ended.returncode != 0) == fails, (line, ended)
                said.append(ended.stderr if fails else ended.stdout)
        return "".join(said)

    def check(self, block: Block) -> None:
        """Assert that a block which is not run is sound of its kind."""
        if block.language == "python":
            ast.parse(block.text)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "sh":
            for line in commands_of(block.text):
                check_command(line, self.forks)


def _shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line as a shell does."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(  # noqa: S603 - that is the test
        ["bash", "-euo", "pipefail", "-c", line],  # noqa: S607
        env={**ENVIRONMENT, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def check_command(line: str, forks: Forks) -> None:
    """Assert that what a command names is there: targets of make, extras of pip, subcommands and options of ours."""
    words = shlex.split(line, comments=True)
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert {word for word in words[1:] if "=" not in word} <= set(targets), line
    elif words[:2] == ["pip", "install"]:
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        named = re.findall(r"\[([\w,-]+)\]", line)
        assert {extra for extras_named in named for extra in extras_named.split(",")} <= set(extras), line
    elif words[0] == "streamsketch":
        words = words[1 : words.index("|")] if "|" in words else words[1:]
        ours, beams = (words[: words.index("--")], words[words.index("--") :]) if "--" in words else (words, [])
        done = forks.run(*ours, "--help")
        assert done.returncode == 0, (line, done.stderr)
        unknown = {word.partition("=")[0] for word in beams if word.startswith("--")} - _BEAM
        assert not unknown, (line, unknown)
    elif words[:2] == ["python", "-m"] and words[2].startswith("pipelines"):
        ours = words[3 : words.index("--")] if "--" in words else words[3:]
        unknown = {word.partition("=")[0] for word in ours if word.startswith("--")} - options_of(words[2])
        assert not unknown, (line, unknown)


@functools.cache
def options_of(module: str) -> set[str]:
    """Return the options that ``python -m module --help`` tells of."""
    return set(_OPTION.findall(run_module(module, "--help")))


def run_module(module: str, *arguments: str) -> str:
    """Return what ``python -m module arguments`` prints, run in this process, which has imported Beam."""
    told = io.StringIO()
    with (
        contextlib.redirect_stdout(told),
        mock.patch.object(sys, "argv", [module, *arguments]),
        warnings.catch_warnings(action="ignore", category=RuntimeWarning),  # it may be imported already
    ):
        try:
            runpy.run_module(module, run_name="__main__")
        except SystemExit as ended:
            if ended.code:
                raise AssertionError(f"python -m {module} {arguments} ends with status {ended.code}") from ended
    return told.getvalue()


_BEAM = {
    "--",
    *("--runner", "--direct_running_mode", "--direct_num_workers", "--prism_location", "--experiments", "--project"),
    *("--region", "--temp_location", "--staging_location", "--flink_master", "--environment_type", "--streaming"),
    *("--environment_config", "--requirements_file", "--sdk_container_image", "--setup_file", "--parallelism"),
    *("--flink_version", "--checkpointing_interval", "--job_endpoint", "--service_account_email", "--num_workers"),
    *("--max_num_workers", "--autoscaling_algorithm", "--save_main_session", "--extra_package", "--job_name"),
    *("--faster_copy", "--finish_bundle_before_checkpointing", "--state_backend", "--savepoint_path"),
    *("--state_backend_storage_path", "--max_bundle_size", "--max_bundle_time_mills", "--auto_watermark_interval"),
    *("--worker_machine_type", "--machine_type", "--subnetwork", "--no_use_public_ips", "--dataflow_kms_key"),
}
"""Options of Beam's own, which jobs pass on."""
