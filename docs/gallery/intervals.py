"""Fifty releases of one pair of streams: 95 % of the intervals hold the exact distance."""

import matplotlib.pyplot as plt
import numpy as np

import streamsketch as ss

x, y = np.random.default_rng(2).poisson(2.0, size=(2, 5000))
true = ((x - y) ** 2).sum()
figure, axes = plt.subplots(figsize=(6, 3.6))
for seed in range(50):
    projection = ss.SJLT(dim=5000, sketch_dim=512, sparsity=4, seed=seed)
    released = []
    for counts in (x, y):
        sketch = projection.sketch()
        sketch.update(np.repeat(np.arange(5000), counts))
        released.append(sketch.release(epsilon=1.0, neighbours=ss.L1(1)))
    estimate = ss.squared_distance(*released)
    low, high = estimate.interval(0.95)
    colour = "C0" if low <= true <= high else "C3"
    axes.plot([seed, seed], [low, high], color=colour)
    axes.plot(seed, estimate.value, "o", color=colour, markersize=3)
axes.axhline(true, color="gray", linestyle=":")
axes.set(xlabel="projection and noise", ylabel="squared distance")
plt.show()
