"""The error of a squared distance by the number of cells."""

import matplotlib.pyplot as plt
import numpy as np

import streamsketch as ss

x, y = np.random.default_rng(1).poisson(3.0, size=(2, 2000))
true = ((x - y) ** 2).sum()
cells = 2 ** np.arange(5, 14)
measured, stated = [], []
for k in cells:
    errors, found = [], []
    for seed in range(30):
        projection = ss.CountSketch(dim=2000, sketch_dim=int(k), seed=seed)
        both = [projection.sketch(), projection.sketch()]
        for sketch, counts in zip(both, (x, y), strict=True):
            sketch.update(np.repeat(np.arange(2000), counts))
        estimate = ss.squared_distance(*(each.release(epsilon=0.5, neighbours=ss.L1(1)) for each in both))
        errors.append(estimate.value - true)
        found.append(estimate.standard_error)
    measured.append(np.sqrt(np.mean(np.square(errors))) / true)
    stated.append(np.mean(found) / true)

figure, axes = plt.subplots(figsize=(6, 3.6))
axes.loglog(cells, np.sqrt(2 / cells), ":", label="projection alone, √(2/k)")
axes.loglog(cells, stated, label="stated standard error, ε = 0.5")
axes.loglog(cells, measured, "o", label="measured, 30 projections")
axes.set(xlabel="cells k", ylabel="relative error of a squared distance")
axes.legend()
plt.show()
