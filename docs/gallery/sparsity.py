"""How often a distance in few items is far off, by how many cells each item touches."""

import matplotlib.pyplot as plt
import numpy as np

import streamsketch as ss

items = np.arange(8)  # the streams differ in these, by 100 each
true = 8 * 100**2
figure, axes = plt.subplots(figsize=(6, 3.6))
for sparsity in (1, 2, 4, 8):
    errors = []
    for seed in range(1500):
        projection = ss.SJLT(dim=1 << 20, sketch_dim=64, sparsity=sparsity, seed=seed)
        difference = projection.sketch()
        difference.update(items, 100)
        errors.append(abs(ss.squared_norm(difference).value - true) / true)
    sizes = np.sort(errors)
    axes.semilogy(sizes, 1 - np.arange(len(sizes)) / len(sizes), drawstyle="steps-post", label=f"s = {sparsity}")
axes.set(xlabel="relative error", ylabel="share of projections beyond", xlim=(0, 1.3), ylim=(1e-3, 1))
axes.legend()
plt.show()
