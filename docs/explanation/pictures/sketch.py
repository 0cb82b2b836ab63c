"""How an event reaches the cells of a sketch."""

import matplotlib.pyplot as plt
import numpy as np

import streamsketch as ss

CELLS = 32
projection = ss.SJLT(sketch_dim=CELLS, sparsity=4, seed=3)
figure, axes = plt.subplots(figsize=(7, 2.6))
for place, (event, value) in enumerate([("JFK–LAX", 1), ("BOS–MIA", 1)]):
    alone = projection.sketch()
    alone.update(event, value)
    x, colour = 9.5 + 12 * place, f"C{place}"
    axes.text(x, 2.6, f"index {event}\nvalue {value}", ha="center", va="bottom", color=colour)
    for cell in np.flatnonzero(alone.state()):
        sign = "+" if alone.state()[cell] > 0 else "-"
        axes.annotate("", (cell, 0.6), (x, 2.5), arrowprops={"arrowstyle": "->", "color": colour})
        axes.text(cell, 0.0, sign, ha="center", va="center", color=colour, fontsize=14, fontweight="bold")
for cell in range(CELLS):
    axes.add_patch(
        plt.Rectangle((cell - 0.5, -0.5), 1, 1, fill=False, edgecolor=plt.rcParams["text.color"], linewidth=0.6)
    )
axes.text(CELLS / 2 - 0.5, -1.0, f"a sketch of {CELLS} cells", ha="center", va="top")
axes.set(xlim=(-1, CELLS), ylim=(-1.8, 4.2))
axes.axis("off")
plt.show()
