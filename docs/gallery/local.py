"""The mean of 1,797 scanned digits: exact, with one trusted server, and from reports of people who trust nobody."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import streamsketch as ss
from streamsketch.local import MeanAggregator

people = load_digits().data.astype(float)
people /= np.linalg.norm(people, axis=1, keepdims=True)  # each person's picture, of length 1
count, dim = people.shape

pictures = {"exact": people.mean(axis=0)}
sums = ss.projections.Identity(dim=dim, resolution="1/1024").sketch()
sums.update(np.tile(np.arange(dim), count), people.ravel())
central = sums.release(epsilon=1.0, delta=1e-6, neighbours=ss.L2(1, unit="person"))
pictures["one server, ε = 1"] = central.values / 1024 / count
for epsilon in (1.0, 4.0, 8.0):
    mechanism = ss.local.PrivUnitG(dim=dim, epsilon=epsilon)
    server = MeanAggregator(mechanism)
    server.add(mechanism.randomize_many(people))
    pictures[f"reports, ε = {epsilon:g}"] = server.mean()

figure, rows = plt.subplots(1, len(pictures), figsize=(8, 2))
for axes, (title, mean) in zip(rows, pictures.items(), strict=True):
    axes.imshow(mean.reshape(8, 8), cmap="gray", vmin=0, vmax=pictures["exact"].max())
    axes.set_title(title, fontsize=9)
    axes.set_axis_off()
plt.show()
