"""Files that scripts write: ``python -m tests.generated`` writes all of them, ``--check`` compares."""
