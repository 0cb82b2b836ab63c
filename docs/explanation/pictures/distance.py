"""Estimates of one distance, with other projections and other noise each time."""

import matplotlib.pyplot as plt
import numpy as np

import streamsketch as ss

x, y = np.random.default_rng(2).poisson(2.0, size=(2, 5000))
true = ((x - y) ** 2).sum()
estimates = []
for seed in range(2000):
    projection = ss.CountSketch(dim=5000, sketch_dim=512, seed=seed)
    released = [projection.sketch() for _ in range(2)]
    for sketch, counts in zip(released, (x, y), strict=True):
        sketch.update(np.repeat(np.arange(5000), counts))
    estimates.append(ss.squared_distance(*(each.release(epsilon=1.0, neighbours=ss.L1(1)) for each in released)))
values = np.array([estimate.value for estimate in estimates])
held = np.mean([low <= true <= high for low, high in (estimate.interval(0.95) for estimate in estimates)])
figure, axes = plt.subplots(figsize=(7, 2.8))
axes.hist(values, bins=60, color="C0", alpha=0.7)
axes.axvline(true, color="C1", linewidth=2)
axes.set_ylim(0, 115)
axes.text(true, 114, f"  exact: {true:,}", color="C1", va="top")
axes.set(
    xlabel=f"estimated squared distance; {100 * held:.0f} % of the 95 % intervals contain the exact one",
    ylabel="estimates",
)
plt.show()
