"""NVIDIA FLARE: the two jobs, which run in its simulator.

    python -m pipelines.federated.nvflare_jobs sites FOLDER
    python -m pipelines.federated.nvflare_jobs updates FOLDER

``sites`` compares hospitals by signed releases before it trains. ``updates`` trains practices, each of which sends
private reports of its updates. The simulator runs a process for each client, so there are eight; so few need a large ε.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from nvflare.app_common.np.recipes import NumpyFedAvgRecipe
from nvflare.client.config import TransferType
from nvflare.fuel.utils.constants import FrameworkType
from nvflare.job_config.api import FedJob
from nvflare.job_config.script_runner import ScriptRunner
from nvflare.recipe import SimEnv
from nvflare.recipe.spec import Recipe

from pipelines.data.make_sites import SITES
from pipelines.federated import hospitals
from pipelines.federated.nvflare_controller import ARRAY, AlikeFirst
from pipelines.federated.updates import accounted, public_loss, updates_of
from streamsketch.integrations.nvflare import ReadReports, ReportUpdates

HERE = Path(__file__).parent
SCRIPT = str(HERE / "nvflare_client.py")
PRACTICES, ROUNDS = 8, 4
UPDATES = updates_of(epsilon=8.0)
BUDGET = ROUNDS * 8.0


def sites(folder: Path) -> None:
    """Compare hospitals, and train with those that are alike."""
    job = FedJob(name="sites", min_clients=len(SITES))
    job.to_server(AlikeFirst(str(folder), rounds=10))
    job.to_clients(ScriptRunner(SCRIPT, f"--folder {folder}", framework=FrameworkType.RAW))
    Recipe(job).execute(SimEnv(clients=list(SITES), workspace_root=str(folder / "nvflare")))


def updates(folder: Path) -> None:
    """Train practices by private reports of their updates, in as many rounds as their budget allows."""
    recipe = NumpyFedAvgRecipe(
        name="updates",
        model=[0.0] * hospitals.PARAMETERS,
        min_clients=PRACTICES,
        num_rounds=ROUNDS,
        train_script=SCRIPT,
        train_args=f"--folder {folder} --practices {PRACTICES}",
        params_transfer_type=TransferType.DIFF,
    )
    agreed: dict[str, Any] = {
        "mechanism": UPDATES.mechanism.agreed_fields(),
        "clip": UPDATES.clip,
        "parameters": {ARRAY: [hospitals.PARAMETERS]},
        "unit": UPDATES.unit,
    }
    recipe.add_client_output_filter(ReportUpdates(**agreed, budget=BUDGET), tasks=["train"])
    recipe.add_server_input_filter(ReadReports(**agreed), tasks=["train"])
    names = [f"practice-{place}" for place in range(PRACTICES)]
    run = recipe.execute(SimEnv(clients=names, workspace_root=str(folder / "nvflare")))
    weights = np.load(Path(run.get_result()) / "server" / "simulate_job" / "models" / "server.npy")
    hospitals.keep_losses(folder, {f"after round {ROUNDS}": public_loss(weights)})
    print(accounted(UPDATES, ROUNDS))


if __name__ == "__main__":
    {"sites": sites, "updates": updates}[sys.argv[1]](Path(sys.argv[2]))
