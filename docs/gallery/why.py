"""What separates two airlines: the routes in which their numbers of flights differ most, from releases with ε = 1."""

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

import streamsketch as ss

flights = pq.read_table("pipelines/data/flights.parquet", columns=["carrier", "route"])
table = ss.SJLT(sketch_dim=2560, sparsity=5, seed=2024).table()
table.update_rows(flights, key="carrier", index="route")
released = table.release(epsilon=1.0, neighbours=ss.L1(1, unit="flight"), keys_are_public=True)

routes = pc.unique(flights["route"])  # stands for a public list of routes
found = ss.top_differences(released["DL"], released["UA"], routes, 26)
shown = found.table.to_pandas()
middle = (shown.low + shown.high) / 2
apart = (shown.low > 0) | (shown.high < 0)

figure, axes = plt.subplots(figsize=(5, 6))
axes.barh(shown.item, shown.estimate, color=np.where(~apart, "0.55", np.where(shown.estimate > 0, "C0", "C1")))
ink = plt.rcParams["text.color"]
axes.errorbar(middle, shown.item, xerr=(shown.high - shown.low) / 2, fmt="none", ecolor=ink, capsize=2)
axes.axvline(0, color=ink, lw=0.8)
axes.locator_params(axis="x", nbins=6)
axes.invert_yaxis()
axes.set_xlabel("flights of Delta less those of United")
plt.show()
