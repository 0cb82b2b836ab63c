"""What a bound clips, and the noise that it takes: a squared distance between two airlines by aircraft."""

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.parquet as pq

import streamsketch as ss

flights = pq.read_table("pipelines/data/flights.parquet", columns=["carrier", "route", "tailnum"]).drop_null()
columns = [flights[name].combine_chunks().dictionary_decode() for name in ("carrier", "route", "tailnum")]
projection = ss.SJLT(sketch_dim=1024, sparsity=1, seed=2024)
ones = np.ones(flights.num_rows, dtype=np.int64)
totals = ss.bounding.unit_totals([(columns[0], columns[1], ones, columns[2])], projection)  # secret
bounds = np.unique(np.geomspace(1, 600, 30).astype(int)).tolist()
plan = ss.bounding.plan_bounds(totals, bounds, projection, squared_distance=1.5e8, epsilon=1.0, unit="aircraft")

figure, axes = plt.subplots(figsize=(6, 3.6))
for name, label in [("bias", "bias, by clipping"), ("noise", "noise"), ("error", "both")]:
    axes.loglog(bounds, [getattr(option, name) / 1.5e8 for option in plan.options], label=label)
axes.axvline(float(plan.least.bound), linestyle=":", color="gray")
axes.set(xlabel="flights of one aircraft, at most", ylabel="share of the squared distance", ylim=(1e-3, 30))
axes.legend()
plt.show()
