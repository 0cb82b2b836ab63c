"""What both frameworks' examples share: the public agreement, one signed release of each hospital, and the model.

Nothing here knows a framework. `publish` runs at a hospital and returns what leaves it. `received` and `admission` run
at the server: signatures are verified, and hospitals that are too far from the others are refused by a rule that was
fixed in advance.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

import streamsketch as ss
from streamsketch.features import Category, Number
from streamsketch.parties import Key, PublicKey, sign

EPSILON, DELTA, NEIGHBOURS = 1.0, 1e-6, ss.SketchL2(1, unit="person_id", max_keys=1)
LIMIT = 0.008
"""A hospital is admitted if the whole 95 % interval of its discrepancy from the central one is below this, of 4.

Whoever has few patients, or adds more noise than agreed, is refused: their interval is wide.
"""

FEATURES = ss.Features(
    {
        "age": Number(0, 110),
        "sex": Category(["F", "M"]),
        "smoker": Category(["yes", "no"]),
        "systolic": Number(60, 240),  # mmHg
        "haemoglobin": Number(4, 20),  # g/dL
        "creatinine": Number(20, 400),  # µmol/L
        "glucose": Number(2, 25),  # mmol/L
        "diagnosis": Category(hashed=64),
    },
    seed=2028,
)
SCALES = {
    "age": (50.0, 20.0),
    "systolic": (130.0, 15.0),
    "haemoglobin": (14.0, 1.5),
    "creatinine": (75.0, 20.0),
    "glucose": (6.0, 2.0),
}
"""What is usual of each measurement, and how far it varies: from textbooks, not from data. Inputs of the model."""

PARAMETERS = len(SCALES) + 3  # sex, smoker and a constant
DIABETES = "E11"
_FARTHEST = 4.0  # of an input

Weights = NDArray[np.float64]


class Sent(NamedTuple):
    """The bytes that leave a hospital before training."""

    release: bytes
    signature: bytes


class Verdict(NamedTuple):
    """The judgement of the server on one hospital."""

    patients: ss.estimation.Estimate
    discrepancy: ss.estimation.Estimate | None
    """The discrepancy from the central hospital; None for that one itself."""
    p_value: float
    """The p-value of the hypothesis that both have samples of one population."""
    columns: list[str]
    """Columns that differ clearly, the clearest first."""
    admitted: bool


class Admission(NamedTuple):
    """Who may train, and why."""

    central: str
    verdicts: dict[str, Verdict]

    @property
    def admitted(self) -> list[str]:
        """Names of the hospitals that may train, in order."""
        return [name for name, verdict in self.verdicts.items() if verdict.admitted]

    def __str__(self) -> str:
        lines = [f"Compared with {self.central}, with most others like it; admitted if below {LIMIT:g}:"]
        for name, verdict in self.verdicts.items():
            line = f"{name:8}{verdict.patients.value:6,.0f} patients"
            if verdict.discrepancy is not None:
                low, high = verdict.discrepancy.interval()
                line += f", discrepancy {max(low, 0.0):.4f} to {high:.4f}, p = {verdict.p_value:.1g}"
                line += f", differs in {', '.join(verdict.columns)}" if verdict.columns else ""
            lines.append(f"{line}: {'admitted' if verdict.admitted else 'REFUSED'}")
        return "\n".join(lines)


def agreement() -> ss.Agreement:
    """Return the agreement that all hospitals and the server have; it is public and needs no data."""
    types = {"age": "int16", "systolic": "int16", "haemoglobin": "float64", "creatinine": "float64"}
    text = dict.fromkeys(["sex", "smoker", "diagnosis"], "string")
    columns = {"person_id": "int64"} | types | text | {"glucose": "float64"}
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in columns.items()])
    return ss.agree(schema, features=FEATURES, unit="person_id", title="hospitals before training")


def publish(rows: pa.Table, key: Key, folder: Path) -> Sent:
    """Return the hospital's release and its signature, and keep both in a folder of the hospital.

    A release that is there is sent again as it is: another one would spend ε again.
    """
    path = folder / "features.sketch"
    if not path.exists():
        sums = ss.bound(rows, agreement())  # exact, and secret
        sums.release(epsilon=EPSILON, delta=DELTA, neighbours=NEIGHBOURS).save(path)
        sign(path, key)
    return Sent(path.read_bytes(), path.with_name(f"{path.name}.intoto.jsonl").read_bytes())


def received(sent: Sent, name: str, signer: PublicKey, folder: Path) -> ss.PrivateSketch:
    """Return a hospital's release, once it is known to be of the agreement and signed by its key; keep both files.

    Raises
    ------
    StreamsketchError
        If the signature is not by this hospital, or the bytes are no release of the agreement.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.sketch"
    path.write_bytes(sent.release)
    path.with_name(f"{path.name}.intoto.jsonl").write_bytes(sent.signature)
    release = ss.load(path, expect=agreement(), signer=signer)
    if not isinstance(release, ss.PrivateSketch):
        raise ss.InvalidInputError(f"{name} sent a {type(release).__name__}, where one sketch was agreed on")
    return release


def admission(releases: Mapping[str, ss.PrivateSketch], limit: float = LIMIT) -> Admission:
    """Return who may train: those whose discrepancy from the central hospital is surely below a limit.

    The central hospital is the one from which most others are surely closer than the limit; of several, the one with
    most patients. It may train.
    """
    agreed, names = agreement(), list(releases)
    far = {
        (a, b): ss.estimation.mmd(releases[a], releases[b], agreed)
        for place, a in enumerate(names)
        for b in names[place + 1 :]
    }
    between = {pair: discrepancy for (a, b), discrepancy in far.items() for pair in ((a, b), (b, a))}

    def alike(name: str) -> int:
        return sum(between[name, other].interval()[1] <= limit for other in names if other != name)

    central = max(names, key=lambda name: (alike(name), releases[name].units.value))
    verdicts = {}
    for name in names:
        if name == central:
            verdicts[name] = Verdict(releases[name].units, None, 1.0, [], admitted=True)
            continue
        pair, discrepancy = (releases[central], releases[name]), between[central, name]
        columns = ss.estimation.column_differences(*pair, agreed).filter(pc.field("low") > limit)["column"].to_pylist()
        p_value = ss.sameness(*pair, by="mean", samples=True).p_value
        admitted = discrepancy.interval()[1] <= limit
        verdicts[name] = Verdict(releases[name].units, discrepancy, p_value, columns, admitted)
    return Admission(central, verdicts)


def rows_of(folder: Path, name: str) -> pa.Table:
    """Return a hospital's own rows, as `pipelines.data.make_sites` writes them."""
    return pq.read_table(folder / f"{name}.parquet")


def examples(rows: pa.Table) -> tuple[Weights, Weights]:
    """Return inputs, (n, PARAMETERS), and whether each patient's main diagnosis is diabetes, (n,); nulls are usual."""
    columns = []
    for name, (usual, spread) in SCALES.items():
        values = pc.fill_null(pc.cast(rows[name], "float64"), usual).to_numpy()
        columns.append(np.clip((values - usual) / spread, -_FARTHEST, _FARTHEST))
    for name, value in {"sex": "F", "smoker": "yes"}.items():
        columns.append(_equal(rows[name], value))
    columns.append(np.ones(rows.num_rows))
    return np.stack(columns, axis=1), _equal(rows["diagnosis"], DIABETES)


def trained(weights: Weights, inputs: Weights, labels: Weights, *, steps: int = 20, rate: float = 0.5) -> Weights:
    """Return the weights of a logistic regression after some steps of gradient descent."""
    fitted = weights.copy()
    for _ in range(steps):
        fitted += rate * inputs.T @ (labels - _chances(fitted, inputs)) / len(labels)
    return fitted


def log_loss(weights: Weights, inputs: Weights, labels: Weights) -> float:
    """Return the mean logarithmic loss of the model, in nats: 0 is perfect."""
    chances = np.clip(_chances(weights, inputs), 1e-12, 1 - 1e-12)
    return float(-np.mean(labels * np.log(chances) + (1 - labels) * np.log1p(-chances)))


def keep_losses(folder: Path, losses: Mapping[str, float]) -> None:
    """Write the log losses of an example's models into its folder, and print them: frameworks hide how a run ended."""
    (folder / "losses.json").write_text(json.dumps(losses))
    for name, loss in losses.items():
        print(f"{name}: log loss {loss:.4f}", flush=True)


def _equal(column: pa.ChunkedArray, value: str) -> Weights:
    equal: Weights = pc.fill_null(pc.equal(pc.cast(column, "string"), value), fill_value=False).to_numpy() * 1.0
    return equal


def _chances(weights: Weights, inputs: Weights) -> Weights:
    chances: Weights = 1 / (1 + np.exp(-inputs @ weights))
    return chances
