"""NVIDIA FLARE: the server asks for signed releases first, and trains with the hospitals that are alike."""

from pathlib import Path

import numpy as np
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.workflows.model_controller import ModelController

import streamsketch as ss
from pipelines.data.make_sites import SITES, sites
from pipelines.federated import hospitals
from streamsketch.parties import PublicKey

RELEASE = "release"
"""The name of the task that asks for a release."""
ARRAY = "numpy_key"
"""What FLARE calls the only array of a model of NumPy."""


class AlikeFirst(ModelController):
    """Ask every hospital for its release, verify it, print which are alike, and train twice: with all, and with those.

    Parameters
    ----------
    folder
        Holds the public keys, which the server knows in advance, in ``keys``; releases are kept in ``server``.
    rounds
        Of each training.
    """

    def __init__(self, folder: str, rounds: int) -> None:
        super().__init__(persistor_id="")
        self.folder, self.rounds = folder, rounds

    def run(self) -> None:
        """Run the whole job."""
        releases = self._releases()
        decision = hospitals.admission(releases)
        print(decision, flush=True)
        public = sites(4000, seed=1)  # invented patients of all five hospitals, on which anyone may test
        inputs, labels = hospitals.examples(public.filter(np.isin(public["site"].to_pylist(), decision.admitted)))
        losses = {}
        for who, names in {"all": list(releases), "admitted": decision.admitted}.items():
            weights = np.zeros(hospitals.PARAMETERS)
            for number in range(self.rounds):
                model = FLModel(params={ARRAY: weights}, params_type=ParamsType.FULL, current_round=number)
                results = self.send_model_and_wait(targets=names, data=model)
                weights = weights + np.mean([result.params[ARRAY] for result in results], axis=0)
            losses[who] = hospitals.log_loss(weights, inputs, labels)
        hospitals.keep_losses(Path(self.folder), losses)

    def _releases(self) -> dict[str, ss.PrivateSketch]:
        """Return the release of each hospital whose signature is valid; FLARE states who sent a result."""
        folder, releases = Path(self.folder), {}
        asked = FLModel(params={ARRAY: np.zeros(1)}, params_type=ParamsType.FULL)  # FLARE sends no empty model
        for result in self.send_model_and_wait(task_name=RELEASE, data=asked):
            name = result.meta["client_name"]
            try:
                if name not in SITES:
                    raise ss.InvalidInputError(f"{name!r} is no hospital of the agreement")
                signer = PublicKey.from_text((folder / "keys" / f"{name}.pub").read_text())
                sent = hospitals.Sent(*(result.params[part].tobytes() for part in hospitals.Sent._fields))
                releases[name] = hospitals.received(sent, name, signer, folder / "server")
            except (ss.StreamsketchError, KeyError, AttributeError, OSError) as error:
                print(f"{name} is left out: {error}", flush=True)
            else:
                print(f"{name}: signed by {signer}; {releases[name].guarantee}", flush=True)
        return {name: releases[name] for name in SITES if name in releases}
