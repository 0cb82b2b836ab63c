"""Each week's distance from the week before, of a stream that is released hour by hour, by three schedules."""

import matplotlib.pyplot as plt
import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

import streamsketch as ss
from streamsketch.continual import Factorisation, History, Separate, Tree, release

flights = pq.read_table("pipelines/data/flights.parquet", columns=["carrier", "scheduled_hour"])
hours = flights["scheduled_hour"].to_numpy().astype("datetime64[h]").astype(int) - 376944
carriers = pc.rank(flights["carrier"].cast("string"), tiebreaker="dense").to_numpy() - 1
counts = np.zeros((8760, 16), dtype=np.int64)
np.add.at(counts, (hours, carriers), 1)

projection = ss.projections.Identity(dim=16)
windows = [projection.sketch() for _ in counts]
for window, row in zip(windows, counts, strict=True):
    window.update(np.repeat(np.arange(16), row))
weeks = counts[: 52 * 168].reshape(52, 168, 16).sum(axis=1)
truth = (np.diff(weeks, axis=0) ** 2).sum(axis=1)

figure, (top, bottom) = plt.subplots(2, 1, figsize=(7, 5), sharex=True, height_ratios=[2, 1])
schedules = {"separate hours": Separate, "tree": Tree, "square root": Factorisation}
for colour, (name, kind) in enumerate(schedules.items()):
    publish = ss.AdditiveNoise(
        epsilon=1.0, delta=1e-6, mechanism="gaussian", neighbours=ss.L1(1, unit="flight"), schedule=kind(horizon=8760)
    )
    found = History(release(windows, publish)).changes(168).table.to_pandas()
    axes = bottom if name == "square root" else top
    axes.fill_between(found.index + 1, found["low"], found["high"], color=f"C{colour}", alpha=0.3, label=name)
    axes.plot(found.index + 1, found["estimate"], color=f"C{colour}", linewidth=1)
for axes in (top, bottom):
    axes.plot(np.arange(1, 52), truth, "k.", markersize=4, label="truth")
    axes.legend(loc="upper center", ncols=3)
    axes.set_ylabel("squared distance")
bottom.set_xlabel("week of 2013, compared with the week before")
plt.show()
