"""From rows of files and messages to bounded, windowed sketches by key."""
