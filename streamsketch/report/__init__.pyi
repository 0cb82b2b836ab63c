from .page import page_of

__all__ = [
    "page_of",
]
