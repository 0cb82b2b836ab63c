"""Two airlines month by month: how far apart what they fly is, in each month."""

import matplotlib.pyplot as plt
import pyarrow.compute as pc
import pyarrow.parquet as pq

import streamsketch as ss

flights = pq.read_table("pipelines/data/flights.parquet", columns=["carrier", "route", "scheduled_hour"])
month = pc.month(flights["scheduled_hour"])
projection = ss.CountSketch(sketch_dim=256, seed=7)
hidden = ss.L1(1, unit="flight")

figure, axes = plt.subplots(figsize=(6, 3.6))
for pair, shift in [(("UA", "VX"), -0.1), (("UA", "DL"), 0.1)]:
    for number in range(1, 13):
        released = []
        for carrier in pair:
            rows = flights.filter(pc.and_(pc.equal(month, number), pc.equal(flights["carrier"], carrier)))
            sketch = projection.sketch()
            sketch.update(rows["route"])
            released.append(sketch.release(epsilon=1.0, neighbours=hidden))
        found = ss.profile_distance(*released)
        low, high = found.interval(0.95)
        colour = "C0" if pair[1] == "VX" else "C1"
        axes.plot([number + shift] * 2, [low, high], color=colour)
        axes.plot(number + shift, found.value, "o", color=colour, label=" – ".join(pair) if number == 1 else None)
axes.set(xlabel="month", ylabel="distance of profiles", ylim=(0, 2.2), xticks=range(1, 13))
axes.legend(loc="lower right")
plt.show()
