"""Asi et al. 2023, Figure 3: running time of one report against the dimension, by mechanism, at ε = 10 and 16.

One person and the server: a report made, added, and the mean taken. k = 1000. All mechanisms of a dimension run in
turn, secret bits from the operating system included. As in the paper lines end where a mechanism exceeds a cut-off:
twenty seconds a report here, where it was an hour for each mechanism.
"""

import math

import numpy as np
from matplotlib.figure import Figure

from benchmarks.data import Data
from benchmarks.figures.afnnt import costs, parts
from benchmarks.rows import Effort
from benchmarks.study import Study, Table
from benchmarks.verdicts import Check
from streamsketch.local import CompPrivUnitG

EPSILONS = (10.0, 16.0)
LINES = (
    parts.PRIV_UNIT_G,
    parts.PROJ_UNIT,
    parts.FAST,
    parts.FAST_CORR,
    parts.COMP,
    parts.SQKR_LINE,
    parts.RE_PRIV_HS,
    parts.PRIV_HS,
)
LIMIT = {"full": 20.0, "quick": 0.15, "tiny": 0.1}  # seconds
_RUNS, _HOUR = 10, 3600.0  # the paper's runs of each, and its cut-off in seconds

Sweeps = dict[float, costs.Costs]


def run(effort: Effort, data: Data) -> Study:
    """Measure and draw."""
    del data  # times do not depend on the vectors
    k = effort.size(1000, least=32)
    least, most = (k - 1).bit_length(), parts.power_of_two(effort.size(1 << 18, least=128)).bit_length() - 1
    dims = [1 << power for power in range(least, most + 1, 1 if effort.shrink == 1 else 2)]
    limit = LIMIT[effort.name]
    sweeps = {epsilon: costs.sweep(LINES, dims, epsilon, k, effort, people=1, limit=limit) for epsilon in EPSILONS}
    rows = [
        (name, epsilon, dim, 1e3 * cost.client, 1e3 * (cost.add + cost.finish), 1e3 * cost.total)
        for epsilon, sweep in sweeps.items()
        for (name, dim), cost in sorted(sweep.items(), key=lambda item: item[0][1])
    ]
    title = f"Running time of one report, k = {k}, ms; {effort.name} effort, cut off at {limit:g} s"
    table = Table(title, ("mechanism", "ε", "d", "client", "server", "together"), rows)
    return Study(
        [table, slopes(sweeps)],
        finding(sweeps, dims, k, limit),
        {"": picture(sweeps, k, limit)},
        source="Asi et al. 2023, Figure 3",
        checks=checks(sweeps),
        shortened=shortened(sweeps, dims, limit),
    )


def checks(sweeps: Sweeps) -> list[Check]:
    """Return what Section 4.1 says, beside ratios of times in the largest dimension that both mechanisms reach."""

    def ratio(claim: str, mechanism: str, other: str, epsilon: float, low: float, high: float) -> Check:
        sweep = sweeps[epsilon]
        dim = max({*costs.dims_of(sweep, mechanism)} & {*costs.dims_of(sweep, other)}, default=0)
        quotient = sweep[mechanism, dim].total / sweep[other, dim].total if dim else math.nan
        return Check(f"{claim}: ratio of times", quotient, low, high, data=f"ε = {epsilon:g}, d = {dim}")

    haar, fast, optimal = parts.PROJ_UNIT.name, parts.FAST.name, parts.PRIV_UNIT_G.name
    verdicts = []
    for epsilon in EPSILONS:
        claim = f"{haar} using random rotations is noticeably slower than {optimal}"
        verdicts.append(ratio(claim, haar, optimal, epsilon, 2, math.inf))
        verdicts.append(ratio(f"{fast} is substantially faster than {haar}", fast, haar, epsilon, 0, 0.5))
        claim = f"{fast} has a comparable run-time to {optimal} (no more than twice)"
        verdicts.append(ratio(claim, fast, optimal, epsilon, 0, 2))
    claim = "for large ε and d compressed PrivUnitG becomes too costly compared to our algorithms"
    verdicts.append(ratio(claim, parts.COMP.name, fast, EPSILONS[-1], 10, math.inf))
    return verdicts


def shortened(sweeps: Sweeps, dims: list[int], limit: float) -> str:
    """Return what the cut-off left out, and what the paper's runs of it would cost if times grow like d."""
    seconds, points = 0.0, 0
    for sweep in sweeps.values():
        for line in LINES:
            reached = costs.dims_of(sweep, line.name)
            for dim in dims:
                if reached and dim > reached[-1]:
                    seconds += min(_RUNS * sweep[line.name, reached[-1]].total * dim / reached[-1], _HOUR)
                    points += 1
    return (
        f"cut off at {limit:g} s a report, where the paper stops after an hour. The {points} points that it leaves out "
        f"up to d = {dims[-1]}, ten runs each and an hour at most, would take {seconds / _HOUR:.1f} hours of one core."
    )


def slopes(sweeps: Sweeps) -> Table:
    """Return how times grow with d."""
    rows = [
        (line.name, epsilon, dims[-1], costs.exponent(sweep, line.name, "total"))
        for epsilon, sweep in sweeps.items()
        for line in LINES
        if (dims := costs.dims_of(sweep, line.name))
    ]
    return Table("Growth of the time with d", ("mechanism", "ε", "largest d", "exponent"), rows)


def finding(sweeps: Sweeps, dims: list[int], k: int, limit: float) -> str:
    """Return what the figure shows beyond the checks."""
    sweep = sweeps[10.0]
    last = [max(costs.dims_of(sweep, line.name), default=0) for line in (parts.FAST, parts.PRIV_UNIT_G)]
    dim = min(last)
    haar_dim = min(dim, max(costs.dims_of(sweep, parts.PROJ_UNIT.name), default=0))
    if not haar_dim:
        return f"The cut-off of {limit:g} s left nothing to compare: another machine, or a quiet one, would."
    fast, optimal = sweep[parts.FAST.name, dim].total, sweep[parts.PRIV_UNIT_G.name, dim].total
    haar, there = sweep[parts.PROJ_UNIT.name, haar_dim].total, sweep[parts.PRIV_UNIT_G.name, haar_dim].total
    text = (
        f"At d = {dim} and ε = 10 FastProjUnit takes {1e3 * fast:.3g} ms where PrivUnitG takes {1e3 * optimal:.3g} ms"
        + (
            f", {optimal / fast:.1f} times as long: PrivUnitG draws d Gaussians and FastProjUnit k = {k}, and "
            'butterflies cost less than that: the paper\'s "comparable" understates its algorithm. Its published code '
            "is slower than PrivUnitG instead (Theory 8, item 9): the code is the cause. "
            if optimal > 1.5 * fast
            else ". "
        )
        + f"At d = {haar_dim}, the last that the cut-off of {limit:g} s leaves to ProjUnit, a rotation makes it "
        f"{haar / there:,.0f} times PrivUnitG's time. "
    )
    text += _compressed(sweeps, dims)
    text += (
        "Absolute times are this machine's and this code's, and include secret bits from the operating system; "
        "a report at a time also pays some tens of microseconds of Python that a batch does not, which flattens the "
        "exponents of the fastest."
    )
    return text


def _compressed(sweeps: Sweeps, dims: list[int]) -> str:
    name = parts.COMP.name
    ends = {epsilon: max(costs.dims_of(sweep, name), default=0) for epsilon, sweep in sweeps.items()}
    caps = {epsilon: CompPrivUnitG(dim=dims[0], epsilon=epsilon).cap for epsilon in sweeps}
    tries = {epsilon: cap.inside / cap.mass for epsilon, cap in caps.items()}
    reached = [
        f"{f'reaches d = {end}' if end else 'finishes in no dimension'} at ε = {epsilon:g} (on average "
        f"p/q₁ = {tries[epsilon]:,.0f} tries)"
        for epsilon, end in ends.items()
    ]
    others = [max(costs.dims_of(sweeps[16.0], line.name), default=0) for line in LINES if line is not parts.COMP]
    early = ends[16.0] < min(others) and ends[16.0] < ends[10.0]
    low, high = (sweeps[epsilon].get((name, dims[0])) for epsilon in (10.0, 16.0))
    text = (
        f"{name} {parts.listed(reached)}"
        + (", where all others get further: as in the paper it is the first to end. " if early else ". ")
        + f"Tries grow {tries[16.0] / tries[10.0]:,.0f}-fold from one to the other, less than e⁶ = {np.exp(6):.0f}: "
        "the paper's e^ε d is an upper bound. "
    )
    if low is not None and high is not None:
        text += (
            f"The time at d = {dims[0]} grows {high.total / low.total:,.0f}-fold; tries are random, so the mean of "
            "a few reports is off by half. "
        )
    return text


def picture(sweeps: Sweeps, k: int, limit: float) -> Figure:
    """Return a panel for each ε, on log axes."""
    figure = Figure(figsize=(10.5, 4.6), layout="constrained")
    panels = figure.subplots(1, len(sweeps), sharey=True)
    for panel, (epsilon, sweep) in zip(panels, sweeps.items(), strict=True):
        for line in LINES:
            dims = costs.dims_of(sweep, line.name)
            times = [1e3 * sweep[line.name, dim].total for dim in dims]
            panel.plot(dims, times, color=line.colour, marker=line.marker, markersize=5, linewidth=1.2, label=line.name)
        panel.axhline(1e3 * limit, color="black", linewidth=0.6, linestyle=":")
        panel.set_xscale("log", base=2)
        panel.set(yscale="log", xlabel="dimension d")
        panel.set_title(f"ε = {epsilon:g}", fontsize=10, loc="left")
        panel.grid(visible=True, which="major", linewidth=0.3)
        parts.plain_ticks(panel.yaxis, thin=True)
    panels[0].set_ylabel("time of one report, client and server [ms]")
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, fontsize=8, loc="outside right center")
    figure.suptitle(f"Running time of one report, k = {k} (dotted: cut-off)", fontsize=11)
    return figure
