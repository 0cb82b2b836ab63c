"""Who sees what."""

import matplotlib.pyplot as plt

ink = plt.rcParams["text.color"]
figure, axes = plt.subplots(figsize=(7.5, 3.4))


def box(x: float, y: float, text: str, colour: str) -> None:
    """Write something in a frame."""
    axes.text(
        *(x, y, text),
        ha="center",
        va="center",
        color=colour,
        fontsize=9.5,
        bbox={"boxstyle": "round,pad=0.5", "facecolor": "none", "edgecolor": colour},
    )


def arrow(x: float, y: float, to_x: float, to_y: float, text: str = "") -> None:
    """Draw an arrow with something above it."""
    axes.annotate("", (to_x, to_y), (x, y), arrowprops={"arrowstyle": "->", "color": ink})
    axes.text((x + to_x) / 2, (y + to_y) / 2 + 0.22, text, ha="center", fontsize=8.5, color=ink)


for y, name in ((3.0, "north"), (1.0, "south")):
    box(0.9, y, f"events\nof {name}", "C1")
    box(3.5, y, "exact sketch", "C1")
    box(6.6, y, "release", "C0")
    arrow(1.6, y, 2.6, y, "bound, add up")
    arrow(4.4, y, 5.95, y, "noise")
    arrow(7.25, y, 8.35, 2.0 + (0.35 if y > 2 else -0.35))
box(9.3, 2.0, "distance,\nwith error", "C0")
axes.plot([5.7, 5.7], [0.1, 3.9], color=ink, linestyle=":")
axes.text(5.5, 3.95, "secret, inside each party", ha="right", va="bottom", color="C1")
axes.text(5.9, 3.95, "public, for anyone", ha="left", va="bottom", color="C0")
axes.text(5.15, -0.15, "the projection and its seed are public", ha="center", va="top", fontsize=8.5, color=ink)
axes.set(xlim=(0, 10.3), ylim=(-0.7, 4.5))
axes.axis("off")
plt.show()
