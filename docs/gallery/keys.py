"""Which keys will stand out from the noise, before any data."""

import matplotlib.pyplot as plt
import numpy as np

import streamsketch as ss

customers = {f"country {place}": 2000 / place**1.3 for place in range(1, 31)}
typical = ss.planning.TypicalUnit(items=[5, 10, 20, 40], match=0.004)

figure, axes = plt.subplots(figsize=(6, 3.6))
for epsilon in (0.5, 1.0, 2.0):
    plan = ss.planning.plan_units(typical, units=customers, unit="customer", epsilon=epsilon, delta=1e-6, max_cells=256)
    axes.semilogx(
        [key.units for key in plan.keys],
        [100 * key.below for key in plan.keys],
        ".-",
        label=f"ε = {epsilon}: 50 % at {plan.least_units():.0f} customers",
    )
axes.set(xlabel="customers of a country", ylabel="below the noise floor, %", yticks=np.arange(0, 101, 25))
axes.legend(loc="center right")
plt.show()
