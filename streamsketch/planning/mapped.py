"""What all options of plans have that choose a map: its size, and its fields without the seed."""

import dataclasses
import json

from streamsketch.core.documents import Json
from streamsketch.projections.base import Projection
from streamsketch.projections.identity import Identity


@dataclasses.dataclass(frozen=True)
class MappedOption:
    """An option with a map.

    Parameters
    ----------
    projection
        The map, with seed 0.
    """

    projection: Projection

    @property
    def cells(self) -> int:
        """Number of cells of a sketch."""
        return self.projection.sketch_dim

    @property
    def nonzeros(self) -> int:
        """Number of cells that one update touches."""
        return self.projection.nonzeros

    @property
    def is_raw(self) -> bool:
        """Whether this option is noise on the raw histogram, without a projection."""
        return isinstance(self.projection, Identity)

    @property
    def fields_of_map(self) -> Json:
        """The fields of the projection except the seed, which a plan does not choose."""
        fields: Json = json.loads(self.projection.to_json())
        return {name: value for name, value in fields.items() if name != "seed"}
