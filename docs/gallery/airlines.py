"""Cosines of sixteen airlines, from releases with ε = 1 for one flight."""

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

import streamsketch as ss

flights = pq.read_table("pipelines/data/flights.parquet", columns=["carrier", "route", "scheduled_hour"])
agreement = ss.Agreement(
    ss.CountSketch(sketch_dim=1024, seed=2024),
    key="carrier",
    index={"route": "text", "scheduled_hour": "timestamp"},
    neighbours=ss.L1(1, unit="flight"),
)
released = ss.sketch(flights, agreement).release(epsilon=1.0, neighbours=ss.L1(1, unit="flight"), keys_are_public=True)
loud = {name: each for name, each in released.items() if ss.squared_norm(each).value > 5000}

cosines = ss.pairwise(list(loud.values()), by="cosine").value
np.fill_diagonal(cosines, np.nan)
figure, axes = plt.subplots(figsize=(5, 4))
shown = axes.imshow(cosines, cmap="viridis", vmin=0)
axes.set_xticks(range(len(loud)), loud, rotation=90)
axes.set_yticks(range(len(loud)), loud)
figure.colorbar(shown, label="cosine")
plt.show()
