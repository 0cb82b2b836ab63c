from .columns import Category, Embedding, Number
from .features import Block, Features

__all__ = ["Block", "Category", "Embedding", "Features", "Number"]
