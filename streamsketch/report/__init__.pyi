from .bounds import picture_of
from .keys import picture_of_keys
from .page import page_of

__all__ = [
    "page_of",
    "picture_of",
    "picture_of_keys",
]
