"""Whether the noise of a release, perhaps of another party, can be what the release states."""
