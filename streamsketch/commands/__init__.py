"""The subcommands of ``streamsketch``, one in a module."""
