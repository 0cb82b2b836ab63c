"""``python -m streamsketch``: the command, without its executable."""

from streamsketch.cli import main

main()
