"""Scanned digits found again by 256 signs: how often the nearest one shows the same digit."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import streamsketch as ss

images, digits = load_digits(return_X_y=True)
images = images / 16 - 6 / 16  # black or white, by a level that is public
published, asked = slice(0, 1500), slice(1500, None)
projection = ss.projections.OPORP(dim=64, sketch_dim=64, seed=3, resolution="1/16")
one_pixel = ss.OneCoordinate(1, unit="pixel")

epsilons = [1, 2, 4, 8, 16]
shares = []
for epsilon in epsilons:
    publish = ss.signs.DPSignOPORPRRSmooth(epsilon=float(epsilon), neighbours=one_pixel)
    signs = publish.release_rows(projection, images)
    found = ss.signs.nearest(signs[asked], signs[published], top=9).places
    votes = [np.bincount(digits[published][row]).argmax() for row in found]
    shares.append(np.mean(votes == digits[asked]))

figure, axes = plt.subplots(figsize=(6, 3.6))
axes.semilogx(epsilons, shares, "o-", label="64 flipped signs")
axes.axhline(0.1, linestyle=":", color="gray", label="a guess")
axes.set(xlabel="ε of one pixel", ylabel="right digits", ylim=(0, 1), xticks=epsilons, xticklabels=epsilons)
axes.legend()
plt.show()
