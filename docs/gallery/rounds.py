"""The error of a sum by the number of parties: releases that are merged, and a round with one noise."""

import matplotlib.pyplot as plt
import numpy as np

import streamsketch as ss

projection = ss.CountSketch(sketch_dim=256, seed=5)
hidden = ss.L1(1, unit="sale")
parties = [2, 4, 8, 16]
spread: dict[str, list[float]] = {"merged releases": [], "a round": []}
for number in parties:
    sketches = [projection.sketch() for _ in range(number)]
    released = [sketch.release(epsilon=0.1, neighbours=hidden) for sketch in sketches]
    merged = released[0]
    for each in released[1:]:
        merged = merged.combine(each, populations="disjoint")
    keys = [ss.parties.Key.generate(f"party {place}") for place in range(number)]
    agreed = ss.parties.Round(projection, epsilon=0.1, neighbours=hidden, parties=[key.public for key in keys])
    one = agreed.combine([agreed.contribute(*each) for each in zip(sketches, keys, strict=True)])
    for name, result in (("merged releases", merged), ("a round", one)):
        spread[name].append(np.std(result.values))

figure, axes = plt.subplots(figsize=(6, 3.6))
for name, found in spread.items():
    axes.plot(parties, found, "o-", label=name)
axes.set(xlabel="parties", ylabel="noise of a cell at ε = 0.1", ylim=(0, None), xticks=parties)
axes.legend()
plt.show()
