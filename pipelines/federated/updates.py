"""What both frameworks' examples of private updates share: the mechanism, accounting, and who has which rows."""

from pathlib import Path

import numpy as np
import pyarrow as pa

import streamsketch as ss
from pipelines.data.make_sites import sites
from pipelines.federated import hospitals


def updates_of(epsilon: float) -> ss.local.ModelUpdates:
    """Return how practices report their updates: one report of a round has this ε, for all data of one practice."""
    mechanism = ss.local.ProjUnit(
        dim=hospitals.PARAMETERS, sketch_dim=8, epsilon=epsilon, ball=True, shared=True, seed=2029
    )
    return ss.local.ModelUpdates(mechanism=mechanism, clip=1.0, unit="practice")


def accounted(updates: ss.local.ModelUpdates, reports: int) -> str:
    """Return what one report guarantees, and so many of one practice together."""
    guarantee = updates.guarantee
    together = ss.compose([guarantee] * reports, populations="overlapping").budget
    return f"One report: {guarantee}\n{reports} reports of one practice: {together}"


def public_loss(weights: hospitals.Weights) -> float:
    """Return the model's loss on invented patients of the north, which are public."""
    public = sites(4000, seed=1)
    inputs, labels = hospitals.examples(public.filter(np.equal(public["site"].to_pylist(), "north")))
    return hospitals.log_loss(weights, inputs, labels)


def patients_of(folder: Path, place: int, practices: int) -> pa.Table:
    """Return the rows of one of so many practices: patients of the north, each at one practice."""
    rows = hospitals.rows_of(folder, "north")
    return rows.take(list(range(place, rows.num_rows, practices)))
