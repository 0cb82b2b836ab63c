from .budget import Budget
from .counting import Counting
from .guarantee import Guarantee
from .l1 import L1
from .l2 import L2
from .mechanism import Mechanism
from .neighbours import Neighbours
from .one_coordinate import OneCoordinate
from .sketch_l2 import SketchL2

__all__ = ["L1", "L2", "Budget", "Counting", "Guarantee", "Mechanism", "Neighbours", "OneCoordinate", "SketchL2"]
