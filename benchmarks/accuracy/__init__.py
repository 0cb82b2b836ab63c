"""Studies of accuracy: one module each, with a ``run(effort, data)`` that returns a `Study`."""

# Name at the command line → module in this folder, which loads only when it runs.
NAMES: dict[str, str] = {
    "standard-error": "standard_error",
    "coverage": "coverage",
    "coverage-units": "coverage_units",
    "clipped-sums": "clipped_sums",
    "coverage-points": "coverage_points",
    "coverage-own": "coverage_own",
    "own-signs": "own_signs",
    "histogram-sums": "histogram_sums",
    "coverage-all": "coverage_all",
    "coverage-why": "coverage_why",
    "same": "same",
    "populations": "populations",
    "crossover": "crossover",
    "planner": "planner",
    "comparison": "comparison",
    "bounding": "bounding",
    "people": "people",
    "keys": "keys",
    "ranges": "ranges",
    "together": "together",
    "together-coverage": "joint_coverage",
    "together-months": "joint_months",
    "together-columns": "joint_columns",
    "together-maps": "joint_maps",
}
