"""Before any data: which sketch to agree on, and how far off its estimates will be."""
