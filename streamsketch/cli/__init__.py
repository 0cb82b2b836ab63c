"""The command ``streamsketch``: one file a command; files that begin with an underscore serve several."""
