"""Releases that say of themselves what is not so."""

import dataclasses
from typing import Any

from streamsketch.privacy import Mechanism
from streamsketch.release.private_sketch import PrivateSketch


def tampered(release: PrivateSketch, **changes: Any) -> PrivateSketch:
    """Return a release with another guarantee or noise than it has; of a mechanism in text, with that text alone."""
    if isinstance(changes.get("mechanism"), str):
        changes["mechanism"] = Mechanism.stated(changes["mechanism"])
    return PrivateSketch(
        release.projection,
        release.values,
        changes.pop("noise", release.noise),
        dataclasses.replace(release.guarantee, **changes),
        noise_place=release.noise_place,
        release_ids=release.release_ids,
    )
