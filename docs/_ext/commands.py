"""The directive ``commands``: the help of the command line, as sections."""

import re
from typing import Any, cast

import typer
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.core import TyperGroup

from streamsketch.cli._help import Help, call_lines, help_of
from streamsketch.cli._pages import PAGES
from streamsketch.cli.app import app as streamsketch


def help_at(command: Any, path: list[str]) -> Help:
    """Return the help of a command, whose parameters the group leaves out until it is run."""
    full = command if isinstance(command, TyperGroup) else command.loaded()
    return help_of(full, typer.Context(full, info_name=" ".join(["streamsketch", *path])))


def coded(text: str) -> str:
    """Return text in Markdown, in which options are code, as what is between backticks is already."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if part[:1] == "`" else re.sub(r"(?<![\w-])--[a-z][a-z0-9-]*", r"`\g<0>`", part) for part in parts
    )


class Commands(SphinxDirective):
    """Write a section for each command, in the order of ``--help``."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        group = cast("TyperGroup", typer.main.get_command(streamsketch))
        lines = self.sections(group, [])
        return self.parse_text_to_nodes(StringList(lines, source="streamsketch --help"), allow_section_headings=True)

    def sections(self, group: TyperGroup, path: list[str]) -> list[str]:
        """Return the sections of all commands in a group, and in the groups inside."""
        lines: list[str] = []
        level = "#" * min(len(path) + 2, 3)
        for name, command in group.commands.items():
            inside = [*path, name]
            if isinstance(command, TyperGroup):
                lines += [f"{level} {' '.join(inside)}", "", command.help or "", "", *self.more(command)]
                lines += self.sections(command, inside)
            else:
                lines += self.section(level, help_at(command, inside), " ".join(inside))
                lines += [] if path else self.more(command)
        return lines

    def more(self, command: Any) -> list[str]:
        """Return a link to the page that the help names."""
        page = PAGES[str(command.epilog).rpartition(" ")[2]].removesuffix(".md")
        return [f"More: [](/{page}.md).", ""] if page in self.env.found_docs else []

    @staticmethod
    def section(level: str, found: Help, name: str) -> list[str]:
        """Return a command's section, in Markdown."""
        lines = [f"{level} {name}", "", "```sh", found.usage, "```", ""]
        for paragraph in found.paragraphs:
            lines += [coded(paragraph), ""]
        if found.examples:
            lines += ["```sh", *(line for call in found.examples for line in call_lines(call, 100, "")), "```", ""]
        for heading, entries in found.groups.items():
            if heading == "General":  # --json and --help, which the page describes
                continue
            lines += [f"**{coded(heading)}**", ""]
            for entry in entries:
                text = re.sub(r"\s*\[([^][]*)\]$", r" (\1)", entry.text)
                lines += [f"`{entry.names}`", f": {coded(text)}", ""]
        return lines


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
