"""Releases that say of themselves what is not so."""

import dataclasses
from typing import Any

from streamsketch.release.private_sketch import PrivateSketch


def tampered(release: PrivateSketch, **changes: Any) -> PrivateSketch:
    """Return a release with another guarantee or noise than it has."""
    return PrivateSketch(
        release.projection,
        release.values,
        changes.pop("noise", release.noise),
        dataclasses.replace(release.guarantee, **changes),
        noise_place=release.noise_place,
        release_ids=release.release_ids,
    )
