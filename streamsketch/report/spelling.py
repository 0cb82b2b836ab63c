"""What a page says of names: whether streams spell alike, from a public dictionary or from cosines near zero."""

from collections.abc import Mapping, Sequence

import numpy as np

from streamsketch.core.documents import Json
from streamsketch.estimation.blocks import block_of
from streamsketch.estimation.estimators import squared_norm
from streamsketch.estimation.measures import compare_blocks
from streamsketch.estimation.noise_effect import OutputNoise
from streamsketch.estimation.spelling import spelling
from streamsketch.release.private_sketch import PrivateSketch
from streamsketch.report.choice import Chosen
from streamsketch.report.differences import Dictionary
from streamsketch.report.text import shorten

_MOST = 40  # streams, whose 1,560 ordered pairs take about a second
_NEXT_TO_NOTHING = 0.2  # a cosine


def spelling_section(releases: Mapping[str, PrivateSketch], dictionary: Dictionary) -> Json:
    """Return what the section on spelling shows: of up to 40 streams, those of the largest norms.

    Raises
    ------
    InvalidInputError, IncompatibleAgreementsError
        As in `streamsketch.spelling`.
    """
    names = sorted(releases, key=lambda name: -float(squared_norm(releases[name]).value))[:_MOST]
    looked_at = {name: release for name, release in releases.items() if name in set(names)}
    spellings = spelling(looked_at, dictionary.items, agreement=dictionary.agreement)
    return {
        "names": spellings.names,
        "left_out": len(releases) - len(looked_at),
        "explained": [(shorten(name), share) for name, share in spellings.explained.items()],
        "otherwise": [
            {
                "first": shorten(pair.first),
                "second": shorten(pair.second),
                "way": pair.way,
                "cosine": pair.cosine,
                "folded": pair.folded,
            }
            for pair in spellings.otherwise
        ],
    }


def unlike_all(names: Sequence[str], releases: Sequence[PrivateSketch], chosen: Chosen) -> list[str]:
    """Return the streams whose cosine with each other one is near zero, by 95 % intervals that hold for all pairs.

    Such streams have next to nothing in common with any other, or spell it otherwise: their cells cannot tell which.
    ``releases`` are the streams that are drawn, with their ``names``; the interval of one that is noise is no bound.
    """
    block = block_of(releases)
    if not isinstance(block.effect, OutputNoise):
        return []
    highs = compare_blocks(block, block, "cosine", same=True).selected_interval(chosen.among)[1].copy()
    np.fill_diagonal(highs, -np.inf)
    return [name for name, high in zip(names, highs.max(axis=1).tolist(), strict=True) if high < _NEXT_TO_NOTHING]
