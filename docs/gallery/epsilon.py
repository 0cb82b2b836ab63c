"""The noise's part of the error between close streams, by ε, for Laplace and for Gaussian noise."""

import matplotlib.pyplot as plt
import numpy as np

import streamsketch as ss

epsilons = np.geomspace(0.1, 10, 25)
figure, axes = plt.subplots(figsize=(6, 3.6))
for sparsity, delta, noise in [(8, 0.0, "laplace"), (8, 1e-6, "gaussian"), (1, 0.0, "laplace")]:
    projection = ss.SJLT(sketch_dim=1024, sparsity=sparsity, seed=1)
    errors = []
    for epsilon in epsilons.tolist():
        offered = ss.accounting.mechanisms(projection, epsilon=epsilon, delta=delta, neighbours=ss.L1(1))
        (found,) = [one for one in offered if one.mechanism == noise]
        errors.append(np.sqrt(found.variance))
    axes.loglog(epsilons, errors, label=f"s = {sparsity}, δ = {delta:g}: {noise.title()} noise")
axes.set(xlabel="ε for one event", ylabel="error of a small squared distance")
axes.legend()
plt.show()
