"""Releases without noise, for tests that compare exact sums."""

from tests.beam.streams.conftest import no_noise

__all__ = ["no_noise"]
