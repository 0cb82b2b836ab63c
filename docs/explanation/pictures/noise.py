"""The cells of one airline before and after noise."""

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

import streamsketch as ss

flights = pq.read_table("pipelines/data/flights.parquet", columns=["carrier", "route", "scheduled_hour"]).to_pandas()
projection = ss.CountSketch(sketch_dim=64, seed=5)
sketch = projection.sketch()
american = flights[flights.carrier == "AA"][:3000]
sketch.update((american.route.astype(str) + american.scheduled_hour.dt.strftime(" %H")).to_list())
released = sketch.release(epsilon=0.05, neighbours=ss.L1(1, unit="flight"))
figure, (left, right) = plt.subplots(1, 2, figsize=(7, 2.8), width_ratios=[3, 2])
cells = np.arange(64)
left.bar(cells, sketch.state(), color="C0", label="secret sketch")
left.plot(cells, released.values, "o", color="C1", markersize=3.5, label="release")
left.set(xlabel="cell", ylabel="value")
left.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
drawn = np.concatenate([projection.sketch().release(epsilon=0.05, neighbours=ss.L1(1)).values for _ in range(400)])
right.hist(drawn, bins=60, range=(-120, 120), density=True, color="C1", alpha=0.6)
steps = np.arange(-120, 121)
q = np.exp(-0.05)
right.plot(steps, (1 - q) / (1 + q) * q ** np.abs(steps), color="C0")
right.set(xlabel="noise on a cell at ε = 0.05", yticks=[])
plt.show()
