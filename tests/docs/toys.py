"""What the small site documents."""

from typing import Literal, TypeAlias


class Toy:
    """A thing, as Theory 1.1 has it."""

    @property
    def size(self) -> int:
        """The size, in cells: how many there are."""
        return 1

    def resize(self, width: int, *, height: int = 1) -> None:
        """Make it larger."""


Kind: TypeAlias = Literal["small", "large"]
"""How large a toy is."""
