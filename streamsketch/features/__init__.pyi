from .columns import Category, Embedding, FeatureColumn, Number
from .cosines import TURN_BITS, cosine_table
from .features import JOINT, LONGEST_ROW, REST, Block, Features
from .kernels import Cells

__all__ = [
    "JOINT",
    "LONGEST_ROW",
    "REST",
    "TURN_BITS",
    "Block",
    "Category",
    "Cells",
    "Embedding",
    "FeatureColumn",
    "Features",
    "Number",
    "cosine_table",
]
