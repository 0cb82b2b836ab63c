"""What holds for every test."""

from hypothesis import settings

# No test asserts a time: an example may be the one that compiles a kernel.
settings.register_profile("any speed", parent=settings.default, deadline=None)
settings.load_profile("any speed")
