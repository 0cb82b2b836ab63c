"""NVIDIA FLARE: what a client runs. It answers the task ``release`` with its signed release, others by training."""

import argparse
from pathlib import Path

import numpy as np
import nvflare.client as flare
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType

from pipelines.federated import hospitals
from pipelines.federated.nvflare_controller import ARRAY, RELEASE
from pipelines.federated.updates import patients_of
from streamsketch.parties import Key


def main() -> None:
    """Answer tasks until the job ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True, help="rows and keys")
    parser.add_argument("--practices", type=int, help="how many practices there are, of which this client is one")
    options = parser.parse_args()
    folder = options.folder
    flare.init()
    name = flare.get_site_name()
    if options.practices:
        rows = patients_of(folder, int(name.removeprefix("practice-")), options.practices)
    else:
        rows = hospitals.rows_of(folder, name)
    while flare.is_running():
        task = flare.receive()
        if task is None:
            break
        if flare.get_task_name() == RELEASE:
            sent = hospitals.publish(rows, Key.load(folder / name / "key.pem"), folder / name)
            parts = {key: np.frombuffer(part, np.uint8) for key, part in sent._asdict().items()}
            flare.send(FLModel(params=parts, params_type=ParamsType.FULL))
            continue
        weights = task.params[ARRAY]
        trained = hospitals.trained(weights, *hospitals.examples(rows))
        flare.send(FLModel(params={ARRAY: trained - weights}, params_type=ParamsType.DIFF))


if __name__ == "__main__":
    main()
