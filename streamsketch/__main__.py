"""``python -m streamsketch``: the command, without its executable."""

from streamsketch.cli.app import main

main()
