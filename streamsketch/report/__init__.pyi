from .bounds import picture_of
from .page import page_of

__all__ = [
    "page_of",
    "picture_of",
]
