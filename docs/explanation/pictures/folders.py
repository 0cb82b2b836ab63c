"""The folders of the package as its imports order them: a line goes up to what a folder imports directly."""

import ast
from pathlib import Path

import matplotlib.pyplot as plt

import streamsketch

ROOT = Path(streamsketch.__file__).parent


def folders() -> set[str]:
    """Return the folders of code."""
    return {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"conformance"}  # which holds data


def imports(folder: str) -> set[str]:
    """Return the folders that one imports when it loads; imports inside of functions are left out."""
    found = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("streamsketch."):
                found.add((node.module or "").split(".")[1])
    return (found & folders()) - {folder}


def direct_imports() -> dict[str, set[str]]:
    """Return the imports of each folder without those that another of its imports has, too."""
    graph = {folder: imports(folder) for folder in folders()}

    def above(folder: str) -> set[str]:
        return graph[folder].union(*map(above, graph[folder]))

    return {folder: found - set().union(*map(above, found)) for folder, found in graph.items()}


def places(graph: dict[str, set[str]]) -> dict[str, tuple[float, int]]:
    """Return x and floor of each folder: one floor below the lowest that it imports."""

    def floor(folder: str) -> int:
        return 1 + max(map(floor, graph[folder]), default=-1)

    floors: dict[int, list[str]] = {}
    for folder in sorted(graph):
        floors.setdefault(floor(folder), []).append(folder)
    found: dict[str, tuple[float, int]] = {}
    for level in sorted(floors):
        centres = {
            folder: sum(found[each][0] for each in graph[folder]) / max(1, len(graph[folder]))
            for folder in floors[level]
        }
        row = sorted(centres, key=centres.__getitem__)
        found |= {folder: (place - (len(row) - 1) / 2, level) for place, folder in enumerate(row)}
    return found


graph = direct_imports()
at = places(graph)
figure, axes = plt.subplots(figsize=(7.5, 7))
for folder, (x, level) in at.items():
    axes.text(x, -level, folder, ha="center", va="center", fontsize=10, gid=f"folder-{folder}", zorder=2)
    for other in sorted(graph[folder]):
        other_x, above = at[other]
        (line,) = axes.plot(
            [other_x, x], [-above - 0.25, -level + 0.25], color="C0", linewidth=0.8, alpha=0.7, zorder=1
        )
        line.set_gid(f"import-{folder}-{other}")
axes.set_xlim(min(x for x, _ in at.values()) - 0.6, max(x for x, _ in at.values()) + 0.6)
axes.axis("off")
plt.show()
