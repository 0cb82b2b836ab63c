"""What the small site documents."""


class Toy:
    """A thing, as Theory 1.1 has it."""

    @property
    def size(self) -> int:
        """The size, in cells: how many there are."""
        return 1
