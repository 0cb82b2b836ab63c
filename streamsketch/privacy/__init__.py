"""Guarantees, calibration, exact samplers and noise. Knows nothing of projections beyond their sensitivities."""
