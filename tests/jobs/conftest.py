"""What streams' jobs share with the tests of their transforms."""

from tests.beam.streams.conftest import no_noise, prism, root_key

__all__ = ["no_noise", "prism", "root_key"]
