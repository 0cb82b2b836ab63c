"""Speed benchmarks: one module each, with a ``run(effort)`` that returns rows, or a `Study`."""

# Name at the command line → module in this folder, which loads only when it runs.
NAMES: dict[str, str] = {
    name: name
    for name in (
        "update",
        "events",
        "startup",
        "commands",
        "noise",
        "growth",
        "table",
        "bounding",
        "features",
        "files",
        "delimited",
        "pairwise",
        "points",
        "ranges",
        "signs",
        "hadamard",
        "matrices",
        "local",
        "wire",
        "parties",
    )
}
