"""Flower: each hospital sends one signed release before training, and the server trains with those that are alike.

``flwr run pipelines/federated/flower/sites`` runs it, as `pipelines.federated.run` does. A hospital is a SuperNode; in
the simulation its place among the hospitals is its ``partition-id``, elsewhere ``--node-config "site='north'"`` says
which it is.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

import streamsketch as ss
from pipelines.data.make_sites import SITES, sites
from pipelines.federated import hospitals
from streamsketch.parties import Key, PublicKey

client = ClientApp()
server = ServerApp()


# --- at each hospital -------------------------------------------------------------------------------------------


def name_of(context: Context) -> str:
    """Return the name of the hospital whose node this is."""
    return str(context.node_config.get("site") or list(SITES)[int(context.node_config["partition-id"])])


@client.query()
def publish(message: Message, context: Context) -> Message:
    """Answer with the hospital's release and its signature: the first thing that leaves it."""
    name, folder = name_of(context), Path(context.run_config["folder"])
    own = folder / name
    sent = hospitals.publish(hospitals.rows_of(folder, name), Key.load(own / "key.pem"), own)
    record = ConfigRecord({"site": name, "release": sent.release, "signature": sent.signature})
    return Message(RecordDict({"sent": record}), reply_to=message)


@client.train()
def train(message: Message, context: Context) -> Message:
    """Train on the hospital's rows; all admitted hospitals weigh the same, so no exact number of patients is sent."""
    (weights,) = message.content["arrays"].to_numpy_ndarrays()
    inputs, labels = hospitals.examples(hospitals.rows_of(Path(context.run_config["folder"]), name_of(context)))
    arrays = ArrayRecord([hospitals.trained(weights, inputs, labels)])
    return Message(RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 1})}), reply_to=message)


# --- at the server ----------------------------------------------------------------------------------------------


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Ask for releases, verify them, print which are alike, and train twice: with all, and with those admitted."""
    folder, rounds = Path(context.run_config["folder"]), int(context.run_config["rounds"])
    nodes, releases = releases_of(grid, folder / "server", folder / "keys")
    decision = hospitals.admission(releases)
    print(decision)
    public = sites(4000, seed=1)  # invented patients of all five hospitals, on which anyone may test
    inputs, labels = hospitals.examples(public.filter(np.isin(public["site"].to_pylist(), decision.admitted)))
    losses = {}
    for who, names in {"all": list(releases), "admitted": decision.admitted}.items():
        strategy = Chosen([nodes[name] for name in names], fraction_evaluate=0.0)
        start = ArrayRecord([np.zeros(hospitals.PARAMETERS)])
        (weights,) = strategy.start(grid, start, num_rounds=rounds).arrays.to_numpy_ndarrays()
        losses[who] = hospitals.log_loss(weights, inputs, labels)
    hospitals.keep_losses(folder, losses)


def releases_of(grid: Grid, folder: Path, keys: Path) -> tuple[dict[str, int], dict[str, ss.PrivateSketch]]:
    """Return the node and the release of each hospital whose signature is valid; its key is known in advance."""
    asked = [Message(RecordDict(), dst_node_id=node, message_type=MessageType.QUERY) for node in connected(grid)]
    nodes, releases = {}, {}
    for reply in grid.send_and_receive(asked):
        node = reply.metadata.src_node_id
        try:
            record = reply.content["sent"]
            name = str(record["site"])
            if name not in SITES or name in releases:
                raise ss.InvalidInputError(f"{name!r} is no hospital of the agreement, or has sent a release already")
            signer = PublicKey.from_text((keys / f"{name}.pub").read_text())
            sent = hospitals.Sent(record["release"], record["signature"])
            nodes[name], releases[name] = node, hospitals.received(sent, name, signer, folder)
        except (ss.StreamsketchError, KeyError, TypeError, ValueError) as error:  # a reply without content too
            print(f"node {node} is left out: {error}")
        else:
            print(f"{name}: signed by {signer}; {releases[name].guarantee}")
    return nodes, {name: releases[name] for name in SITES if name in releases}


def connected(grid: Grid) -> list[int]:
    """Return the nodes, once all hospitals are there."""
    for _ in range(600):
        nodes = sorted(grid.get_node_ids())
        if len(nodes) >= len(SITES):
            return nodes
        time.sleep(0.1)
    raise TimeoutError("not all hospitals are connected")


class Chosen(FedAvg):
    """``FedAvg`` with the nodes that were admitted, and no others."""

    def __init__(self, nodes: list[int], **options: Any) -> None:
        super().__init__(**options)
        self._nodes = nodes

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Send the model to the chosen nodes."""
        del grid
        config["server-round"] = server_round
        content = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        return [Message(content, dst_node_id=node, message_type=MessageType.TRAIN) for node in self._nodes]
