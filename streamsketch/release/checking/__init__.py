"""Whether a release, perhaps from somebody else, can be what it states of its noise."""
