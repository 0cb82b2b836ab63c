"""The directive ``commands``: what the command line says of itself, as sections."""

import re
from importlib import import_module
from typing import cast

import typer
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from streamsketch.cli.app import app as streamsketch


def whole(command: TyperCommand) -> TyperCommand:
    """Return a command with its parameters, which the group leaves out until it is run."""
    name = str(command.name).replace("-", "_")
    alone = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    alone.command()(getattr(import_module(f"streamsketch.cli.{command.file}"), name))
    return cast("TyperCommand", typer.main.get_command(alone))


def usage(command: TyperCommand, path: list[str], context: typer.Context) -> str:
    """Return the line of what is needed: arguments, options without a default, and that there are others."""
    words = ["streamsketch", *path]
    for each in command.params:
        if isinstance(each, TyperArgument):
            name = each.metavar or str(each.name).upper()
            words += [f"{name} …" if each.nargs == -1 else name]
        elif each.required:
            words += [described(each, context)[0].split(", ")[-1]]
    return " ".join([*words, "[OPTIONS]"])


def described(each: TyperArgument | TyperOption, context: typer.Context) -> tuple[str, str]:
    """Return the names of a parameter with what it takes, and what is said of it."""
    names, said = each.get_help_record(context) or ("", "")
    names = re.sub(r"<(list\[)?(\w+)\]?>", lambda kind: kind[2].upper(), names)
    return names.replace("<", "").replace(">", ""), re.sub(r"\s+\[([^][]*)\]$", r" (\1)", said)


class Commands(SphinxDirective):
    """Write a section for each command, in the order of ``--help``."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        group = cast("TyperGroup", typer.main.get_command(streamsketch))
        lines: list[str] = []
        for name, command in group.commands.items():
            if isinstance(command, TyperGroup):
                lines += [f"## {name}", "", command.help or "", "", *self.more(command)]
                for inner, one in command.commands.items():
                    lines += self.section("###", one, [name, inner])
            else:
                lines += [*self.section("##", command, [name]), *self.more(command)]
        return self.parse_text_to_nodes(StringList(lines, source="streamsketch --help"), allow_section_headings=True)

    def more(self, command: TyperCommand | TyperGroup) -> list[str]:
        """Return a link to the page that the help names, unless that is this one."""
        page = re.search(r"docs/(\S+)\.md", command.epilog or "")
        there = page is not None and page[1] in self.env.found_docs and page[1] != self.env.current_document.docname
        return [f"More: [](/{page[1]}.md).", ""] if page and there else []

    @staticmethod
    def section(level: str, command: TyperCommand, path: list[str]) -> list[str]:
        """Return a command's section, in Markdown."""
        full = whole(command)
        context = typer.Context(full, info_name=path[-1])
        said = [f"{level} {' '.join(path)}", "", "```sh", usage(full, path, context), "```", ""]
        said += [re.sub(r"\n[ ]+", "\n", full.help or ""), ""]
        for each in full.params:
            names, text = described(each, context)
            said += [f"`{names}`", f": {text}", ""]
        return said


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
