"""Warnings of releases whose noise cannot be what they state."""

from collections.abc import Iterable

from streamsketch.core import warn_outside
from streamsketch.errors import NoiseMismatchWarning
from streamsketch.release.checking.noise import NoiseCheck
from streamsketch.release.checking.release import check_release
from streamsketch.release.private_sketch import PrivateSketch

QUICK_ENTRIES = 1 << 22
"""Of a random matrix, to be read for a warning: a quarter of a second, once. Explanations read larger ones."""


def warn_of_mismatches(releases: Iterable[PrivateSketch]) -> None:
    """Warn of each release that states too little noise for its guarantee, or whose cells contradict the noise stated.

    What cannot be checked, as where a large random matrix would have to be read, raises no warning.
    """
    for release in releases:
        check = check_release(release, most_entries=QUICK_ENTRIES)
        if check.verdict == "too little":
            warn_of(f"release {release.release_ids[0].hex()}", check)


def warn_of(name: str, check: NoiseCheck) -> None:
    """Warn that the check of a release failed, at the line outside this package that asked for an estimate."""
    warn_outside(mismatch(name, check), NoiseMismatchWarning)


def mismatch(name: str, check: NoiseCheck) -> str:
    """Return a sentence about a release whose check failed."""
    return (
        f"{name} states too little noise for its guarantee, so neither its guarantee nor the error bars of estimates "
        f"from it can be relied on: {check.reason}"
    )
