"""Flower: a hundred practices train a model, and each sends private reports of its updates, until a budget is spent.

``flwr run pipelines/federated/flower/updates`` runs it, as `pipelines.federated.run` does. What is protected is **one
practice**: all data that it has. In each round it sends one report, which is ε-LDP; its ledger adds the rounds up, and
refuses the report that would exceed the budget.
"""

from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

import streamsketch as ss
from pipelines.federated import hospitals
from pipelines.federated.updates import accounted, patients_of, public_loss, updates_of
from streamsketch.integrations.flower import FedAvgOfReports, UpdateMod

UPDATES = updates_of(epsilon=2.0)
BUDGET = 8.0
"""The ε of all reports of one practice: four rounds."""

client = ClientApp()
server = ServerApp()


def ledger_of(context: Context) -> ss.Ledger:
    """Return the practice's ledger, which is its own and not the server's."""
    place = int(context.node_config["partition-id"])
    ledger = ss.Ledger(Path(context.run_config["folder"]) / f"practice-{place}.sqlite")
    ledger.dataset("updates", unit=UPDATES.unit, epsilon=BUDGET)
    return ledger


@client.train(mods=[UpdateMod(UPDATES, ledger=ledger_of)])
def train(message: Message, context: Context) -> Message:
    """Train as if there were no mod, which turns the reply into a report."""
    (weights,) = message.content["arrays"].to_numpy_ndarrays()
    node = context.node_config
    rows = patients_of(Path(context.run_config["folder"]), int(node["partition-id"]), int(node["num-partitions"]))
    arrays = ArrayRecord([hospitals.trained(weights, *hospitals.examples(rows))])
    metrics = MetricRecord({"num-examples": rows.num_rows})  # which the mod drops
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Average the reports of some rounds, and print the ε spent and the loss of the model after each."""
    rounds, losses = int(context.run_config["rounds"]), {}

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        (weights,) = arrays.to_numpy_ndarrays()
        losses[f"after round {number}"] = public_loss(weights)
        return MetricRecord({"log-loss": losses[f"after round {number}"]})

    strategy = FedAvgOfReports(UPDATES, fraction_evaluate=0.0)
    strategy.start(grid, ArrayRecord([np.zeros(hospitals.PARAMETERS)]), num_rounds=rounds, evaluate_fn=evaluate)
    hospitals.keep_losses(Path(context.run_config["folder"]), losses)
    print(accounted(UPDATES, int(BUDGET / UPDATES.mechanism.epsilon)))
