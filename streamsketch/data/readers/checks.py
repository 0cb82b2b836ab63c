"""What is wrong with a file that was read."""

from streamsketch.errors import InvalidInputError


def raise_if_of_the_file_system(error: Exception) -> None:
    """Raise errors that have a number: those of a file's contents have none."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error


def check_columns(path: str, columns: list[str], there: list[str]) -> None:
    """Raise `InvalidInputError` unless a file has all columns."""
    missing = [name for name in columns if name not in there]
    if missing:
        raise InvalidInputError(f"{path} has no column {', '.join(missing)}, only {', '.join(there)}")
