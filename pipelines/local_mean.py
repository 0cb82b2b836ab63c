r"""Means of vectors that are never collected: an Apache Beam pipeline of locally private reports.

Each row is one person, who has a vector and sends one ε-LDP report of its direction. The reports of each key are added
up, and its mean direction is estimated. The job plays both parts, people and server, for several mechanisms and ε, and
draws the errors of the means.

    python -m pipelines.local_mean --input digits --output out
    python -m pipelines.local_mean --input faces.parquet --key album --vector embedding --mechanism proj-unit,sqkr \
        --sketch-dim 200 --epsilon 1,4,10 --output out

``digits`` are the 1797 scanned digits that come with scikit-learn: 64 grey values each. Options after ``--`` go to
Beam.
"""

import argparse
import hashlib
import io
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape

import streamsketch as ss
from pipelines.error_curve import error_curve, show_errors
from streamsketch.beam import MeanPerKey, read_batches, run_secret
from streamsketch.jobs import RunSecrets, beam_options
from streamsketch.jobs.results import write
from streamsketch.privacy.samplers import KeyedBits

Vectors = NDArray[np.float64]
Part = tuple[str, int, Vectors]  # key, number of the part, unit vectors

MECHANISMS = ("priv-unit-g", "proj-unit", "re-priv-hs", "sqkr", "priv-hs", "gaussian")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job with command-line arguments; return the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    console = Console()
    try:
        parts = list(digits() if options.input == "digits" else read_vectors(options))
        if not parts:
            raise ss.InvalidInputError(f"there are no vectors in {options.input}; name a file that has rows")
        dim = parts[0][2].shape[1]
        mechanisms = [
            mechanism_of(kind, epsilon, dim, options) for kind in options.mechanism for epsilon in options.epsilon
        ]
        with console.status("Reporting and averaging (Apache Beam)"):
            build(parts, mechanisms, options).run().wait_until_finish()
        means = read_means(options.output)
        errors = errors_of(means, parts)
        write(options.output, "errors.png", error_curve(errors, f"{len(means)} means of {dim} coordinates"))
    except ss.StreamsketchError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        return 2
    show_errors(console, errors, options.output)
    return 0


def build(parts: list[Part], mechanisms: list[ss.local.Mechanism], arguments: argparse.Namespace) -> beam.Pipeline:
    """Return the pipeline: vectors → reports → sums of each key → files, for every mechanism."""
    pipeline, secrets = beam.Pipeline(options=beam_options(arguments.beam)), RunSecrets(arguments.claims)
    secrets.configure(pipeline)
    vectors = pipeline | "Vectors" >> beam.Create(parts)
    run = run_secret(pipeline)
    means = [
        vectors
        | f"Report {name}" >> beam.Map(reported, mechanism, run)
        | f"Add up {name}" >> MeanPerKey(mechanism, drop_malformed=True)
        for name, mechanism in ((f"{mechanism.kind} at {mechanism.epsilon!r}", mechanism) for mechanism in mechanisms)
    ]
    together = means | beam.Flatten() | beam.combiners.ToList()
    secrets.finish(together | "Write means" >> beam.Map(write_means, arguments.output))
    return pipeline


def write_means(means: Iterable[tuple[str, ss.local.MeanAggregator]], folder: str) -> None:
    """Write the means of any mechanisms as ``means.parquet``, sorted by mechanism, ε and key."""
    rows = [
        {
            "mechanism": server.mechanism.kind,
            "epsilon": server.mechanism.epsilon,
            "key": key,
            "reports": server.count,
            "mean": server.mean(),
            "standard_error": server.standard_error(),
            "expected_squared_error": server.mechanism.expected_squared_error(server.count),
        }
        for key, server in means
    ]
    rows.sort(key=lambda row: (row["mechanism"], row["epsilon"], row["key"]))
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), content)
    write(folder, "means.parquet", content.getvalue())


def read_means(folder: str) -> pa.Table:
    """Return the table that `write_means` wrote."""
    with FileSystems.open(FileSystems.join(folder, "means.parquet")) as file:
        return pq.read_table(pa.BufferReader(file.read()))


def reported(part: Any, mechanism: ss.local.Mechanism, run: Any) -> tuple[str, Any]:
    """Return the reports of a part's people: the same ones if Beam repeats the bundle, new ones for other vectors."""
    key, number, vectors = part
    digest = hashlib.blake2b(np.ascontiguousarray(vectors).tobytes(), digest_size=32).digest()
    context = b"\0".join([mechanism.to_json().encode(), key.encode(), number.to_bytes(8, "little"), digest])
    return key, mechanism.randomize_many(vectors, bits=KeyedBits(run.derive("reports", ""), context))


def mechanism_of(kind: str, epsilon: float, dim: int, arguments: argparse.Namespace) -> ss.local.Mechanism:
    """Return a mechanism by its name."""
    if kind == "proj-unit":
        k = max(1, dim // 2) if arguments.sketch_dim is None else min(arguments.sketch_dim, dim)
        return ss.local.ProjUnit(dim=dim, epsilon=epsilon, sketch_dim=k, shared=True, seed=arguments.seed)
    if kind == "gaussian":
        return ss.local.GaussianMechanism(dim=dim, epsilon=epsilon, delta=arguments.delta)
    if kind == "priv-unit-g":
        return ss.local.PrivUnitG(dim=dim, epsilon=epsilon)
    family: type[Any] = {"priv-hs": ss.local.PrivHS, "re-priv-hs": ss.local.RePrivHS, "sqkr": ss.local.SQKR}[kind]
    mechanism: ss.local.Mechanism = family(dim=dim, epsilon=epsilon, seed=arguments.seed)
    return mechanism


def errors_of(means: pa.Table, parts: list[Part]) -> pa.Table:
    """Return the mean squared error of each mechanism and ε over the keys, beside the expected one."""
    truth: dict[str, list[Vectors]] = {}
    for key, _, vectors in parts:
        truth.setdefault(key, []).append(vectors)
    errors: dict[tuple[str, float], list[tuple[float, float]]] = {}
    for row in means.to_pylist():
        exact = np.concatenate(truth[row["key"]]).mean(axis=0)
        error = float(((np.array(row["mean"]) - exact) ** 2).sum())
        errors.setdefault((row["mechanism"], row["epsilon"]), []).append((error, row["expected_squared_error"]))
    rows = [
        {"mechanism": kind, "epsilon": epsilon, "squared_error": error, "expected": expected}
        for (kind, epsilon), pairs in sorted(errors.items())
        for error, expected in [np.mean(pairs, axis=0).tolist()]
    ]
    return pa.Table.from_pylist(rows)


def digits() -> Iterator[Part]:
    """Yield scikit-learn's digits, one part a digit, as unit vectors."""
    from sklearn.datasets import load_digits  # noqa: PLC0415 - for this input only

    images, labels = load_digits(return_X_y=True)
    yield from _parts([str(label) for label in labels], images, 0)


def read_vectors(arguments: argparse.Namespace) -> Iterator[Part]:
    """Yield the vectors of Parquet files, by key, as unit vectors."""
    if arguments.vector is None:
        raise ss.InvalidInputError("name the column of vectors: --vector COLUMN")
    columns = [arguments.vector, *([arguments.key] if arguments.key else [])]
    dim: int | None = None
    for number, batch in enumerate(read_batches([arguments.input], columns, text=columns[1:])):
        if not batch.num_rows:
            continue
        matrix = _matrix(batch.column(arguments.vector), arguments.vector)
        if dim not in (None, matrix.shape[1]):
            raise ss.InvalidInputError(
                f"--vector {arguments.vector} must hold vectors of one length, got {dim} numbers and {matrix.shape[1]}"
            )
        dim = matrix.shape[1]
        keys = ["all"] * len(matrix)
        if arguments.key:
            column = batch.column(arguments.key)
            if column.null_count:
                raise ss.InvalidInputError(f"--key {arguments.key} must not hold nulls: fill or drop them first")
            keys = [str(key) for key in column.to_pylist()]
        yield from _parts(keys, matrix, number)


def _matrix(column: pa.Array, name: str) -> Vectors:
    kind = column.type
    described = kind.value_type if pa.types.is_dictionary(kind) else kind
    listed = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not listed or not (pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type)):
        raise ss.InvalidInputError(f"--vector {name} must hold lists of numbers, not {described}")
    cells = column.to_numpy(zero_copy_only=False)
    if column.null_count or len({np.size(cell) for cell in cells}) != 1 or column.flatten().null_count:
        raise ss.InvalidInputError(f"--vector {name} must hold vectors of one length, without nulls")
    return np.stack(cells).astype(np.float64)


def _parts(keys: Iterable[str], vectors: Vectors, number: int) -> Iterator[Part]:
    matrix = np.asarray(vectors, dtype=np.float64)
    if np.isfinite(matrix).all():
        matrix = matrix / np.maximum(np.abs(matrix).max(axis=1, keepdims=True, initial=0), np.finfo(float).tiny)
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not ((lengths > 0) & np.isfinite(lengths)).all():
        raise ss.InvalidInputError("a vector is zero, infinite or not a number, and has no direction; drop it first")
    labels = np.array(list(keys))
    for key in sorted(set(labels.tolist())):
        yield key, number, (matrix / lengths)[labels == key]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.local_mean",
        description="Means of vectors from locally private reports, and how far they are off.",
        allow_abbrev=False,
    )
    data = parser.add_argument_group("data")
    data.add_argument("--input", required=True, metavar="FILE", help="Parquet file or glob, or digits")
    data.add_argument("--vector", metavar="COLUMN", help="column of vectors (lists of numbers of one length)")
    data.add_argument("--key", metavar="COLUMN", help="column to average by, which is public")
    data.add_argument("--output", required=True, metavar="DIR", help="folder for the results")
    privacy = parser.add_argument_group("privacy")
    privacy.add_argument("--mechanism", type=_kinds, default=list(MECHANISMS), metavar="NAME[,…]", help="(default all)")
    privacy.add_argument("--epsilon", type=_numbers, default=[1.0, 2.0, 4.0, 8.0, 16.0], metavar="ε[,…]")
    privacy.add_argument("--delta", type=float, default=1e-6, help="of the Gaussian baseline (default 1e-6)")
    privacy.add_argument("--sketch-dim", type=int, metavar="K", help="numbers that ProjUnit sends (default dim / 2)")
    privacy.add_argument("--seed", type=int, default=2023, help="public seed (default 2023)")
    parser.add_argument("--claims", metavar="DIR", help="folder that all workers share; needed on Flink and Spark")
    parser.add_argument("beam", nargs="*", metavar="-- BEAM OPTION", help="options of Apache Beam, after --")
    return parser


def _kinds(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in MECHANISMS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(MECHANISMS)}")
    return list(dict.fromkeys(names))


def _numbers(text: str) -> list[float]:
    try:
        return sorted({float(number) for number in text.split(",")})
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers such as 1,4,10") from None


if __name__ == "__main__":
    # a worker's exception comes back to main, which makes a sentence of it
    logging.getLogger("apache_beam.runners").setLevel(logging.CRITICAL)
    sys.exit(main())
