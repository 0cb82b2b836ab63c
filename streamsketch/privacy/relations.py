"""The library's neighbour relations, registered."""

from streamsketch.privacy.l1 import L1
from streamsketch.privacy.l2 import L2
from streamsketch.privacy.neighbours import register_relation
from streamsketch.privacy.one_coordinate import OneCoordinate
from streamsketch.privacy.sketch_l2 import SketchL2

for _relation in (L1, L2, SketchL2, OneCoordinate):
    register_relation(_relation)
