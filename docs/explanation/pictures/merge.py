"""Three workers' sketches add up to the sketch of the whole stream."""

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

import streamsketch as ss

flights = pq.read_table("pipelines/data/flights.parquet", columns=["route"])
projection = ss.SJLT(sketch_dim=64, sparsity=4, seed=7)
parts = []
for worker in range(3):
    sketch = projection.sketch()
    sketch.update(flights["route"].combine_chunks()[worker::3])
    parts.append(sketch)
whole = projection.sketch()
whole.update(flights["route"])
total = parts[0] + parts[1] + parts[2]
if total != whole:
    raise SystemExit("the sum of the parts is not the whole")
rows = np.array([sketch.state() for sketch in (*parts, total)])
figure, axes = plt.subplots(figsize=(7, 2.4))
limit = np.abs(rows).max()
shown = np.insert(rows.astype(float), 3, np.nan, axis=0)
axes.imshow(shown, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
axes.set_yticks([0, 1, 2, 4], ["worker 1", "worker 2", "worker 3", "their sum"])
axes.set_xlabel("cell; red is negative, blue is positive")
axes.tick_params(length=0)
for spine in axes.spines.values():
    spine.set_visible(False)
plt.show()
