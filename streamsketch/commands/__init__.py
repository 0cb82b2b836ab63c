"""The commands of ``streamsketch``, one module each: plain functions that the command line registers."""
