from .bounds import picture_of
from .changes import picture_of_changes
from .differences import Dictionary, picture_of_differences
from .federation import Drift, Federation, federation_of
from .federation_page import page_of_federation
from .keys import picture_of_keys
from .page import page_of
from .site_plans import picture_of_sites
from .viewer import viewer_page

__all__ = [
    "Dictionary",
    "Drift",
    "Federation",
    "federation_of",
    "page_of",
    "page_of_federation",
    "picture_of",
    "picture_of_changes",
    "picture_of_differences",
    "picture_of_keys",
    "picture_of_sites",
    "viewer_page",
]
