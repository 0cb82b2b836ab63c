"""What an agreement knows of features: their columns and their map. `streamsketch.features` makes them."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from streamsketch.core.documents import Json
from streamsketch.core.numbers import Cells
from streamsketch.projections.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from streamsketch.agreement.text import TextRule
    from streamsketch.core.libraries import pa

LONGEST_ROW = 1 + 1 / 512
"""A length that no row of features exceeds: cells are rounded."""


class AgreedFeatures(ABC):
    """Vectors that are made of columns of rows, whatever these hold, and summed."""

    columns: Any
    """What each column is, by its name."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """How many features a row has, D."""

    @property
    @abstractmethod
    def projection(self) -> Identity:
        """The map that sums features."""

    @property
    @abstractmethod
    def lenient(self) -> dict[str, bool]:
        """Its columns, in which rows may hold anything, and whether each holds lists."""

    @property
    @abstractmethod
    def numeric(self) -> list[str]:
        """Its columns of numbers."""

    @property
    @abstractmethod
    def texts(self) -> list[str]:
        """Its columns of categories, whose text has a spelling."""

    @abstractmethod
    def check_spelling(self, rule: "TextRule") -> None:
        """Raise `InvalidInputError` if two listed values of a category are the same name under a rule."""

    @abstractmethod
    def spelt(self, columns: "Mapping[str, pa.Array]", rule: "TextRule") -> "dict[str, pa.Array]":
        """Return columns with text of categories in the spelling of a rule; listed values as they are listed."""

    @abstractmethod
    def cells(self, columns: "Mapping[str, pa.Array]") -> Cells:
        """Return the features of rows in grid steps: int32, (n, D). No row is refused for what it holds."""

    @abstractmethod
    def to_dict(self) -> Json:
        """Return the features as what JSON can hold."""
