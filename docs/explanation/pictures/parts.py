"""The core, and what stands on it: products, engines and what is for people, each with its folders and its lines."""

import sys
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt

import streamsketch

ROOT = Path(streamsketch.__file__).parent
sys.path.insert(0, str(ROOT.parent))

from tests.removal import ENGINES, PEOPLE, PRODUCTS, part_of  # noqa: E402 - the table that the tests enforce


def lines() -> dict[str, int]:
    """Return the number of lines of each part, in thousands, at least 1."""
    found: dict[str, int] = {}
    for path in ROOT.rglob("*.py"):
        part = part_of(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
        found[part] = found.get(part, 0) + len(path.read_text(encoding="utf-8").splitlines())
    return {part: max(1, round(number / 1000)) for part, number in found.items()}


def core() -> list[str]:
    """Return the folders of the core."""
    return sorted(path.parent.name for path in ROOT.glob("*/__init__.py") if part_of(path.parent.name) == "core")


def folders(modules: tuple[str, ...]) -> str:
    """Return the folders of a part, and in which others it has files."""
    own = [module for module in modules if "." not in module and not module.startswith("_")]
    shared = sorted({module.partition(".")[0] for module in modules if "." in module} - set(own))
    return ", ".join(own) + (f"; files in {', '.join(shared)}" if shared else "")


size = lines()
bands = [("people", PEOPLE, "C3"), ("engines", ENGINES, "C1"), ("products", PRODUCTS, "C2")]
figure, axes = plt.subplots(figsize=(7.5, 5.5))
for floor, (name, parts, colour) in enumerate(bands):
    y = 3 - floor
    axes.text(-0.02, y + 0.4, name, ha="right", va="center", fontsize=10)
    width = 1 / len(parts)
    for place, (part, modules) in enumerate(parts.items()):
        x = place * width
        (box,) = axes.fill(
            [x, x + width - 0.01, x + width - 0.01, x], [y, y, y + 0.8, y + 0.8], color=colour, alpha=0.2
        )
        box.set_gid(f"part-{part}")
        title = name if part == name else part
        axes.text(x + width / 2, y + 0.66, f"{title}  {size[part]}k", ha="center", va="center", fontsize=10)
        said = textwrap.fill(folders(modules), round(92 * width))
        axes.text(x + width / 2, y + 0.3, said, ha="center", va="center", fontsize=7)
(box,) = axes.fill([0, 0.99, 0.99, 0], [0, 0, 0.8, 0.8], color="C0", alpha=0.2)
box.set_gid("part-core")
axes.text(-0.02, 0.4, "core", ha="right", va="center", fontsize=10)
axes.text(0.5, 0.66, f"core  {size['core']}k lines", ha="center", va="center", fontsize=10)
axes.text(0.5, 0.3, textwrap.fill(", ".join(core()), 92), ha="center", va="center", fontsize=8)
axes.set_xlim(-0.16, 1)
axes.set_ylim(-0.05, 3.9)
axes.axis("off")
plt.show()
