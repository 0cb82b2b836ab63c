"""Releases of rows on a cluster, by Apache Beam."""

import logging
from dataclasses import dataclass
from pathlib import Path

import streamsketch as ss
from streamsketch import jobs
from streamsketch.cli._inputs import Reading
from streamsketch.cli._jobs import extras
from streamsketch.cli._options import given_options
from streamsketch.cli._showing import guarantee_fields, plural, show_result
from streamsketch.estimation.blocks import block_of
from streamsketch.estimation.cosines import below_noise_floor


def split_beam(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the words of a call before and after ``--``, which the parser takes away: options of Beam begin so."""
    first = next((place for place, word in enumerate(words) if str(word).startswith("--")), len(words))
    return words[:first], words[first:]


@dataclass(frozen=True, kw_only=True)
class ClusterRelease:
    """How ``streamsketch release`` is called with options of Beam after ``--``.

    Parameters
    ----------
    beam
        Options of Beam, such as ``--runner=FlinkRunner``.
    output
        The folder for the results.
    claims, run_id, root_key
        Where the secret of the run is kept (`jobs.RunSecrets`).
    """

    beam: list[str]
    output: str | None
    claims: str | None
    run_id: str | None
    root_key: Path | None

    def run(
        self, patterns: list[str], agreement: Path | None, reading: Reading, others: dict[str, object], *, as_json: bool
    ) -> None:
        """Release the rows of files; refuse ``others``, if given."""
        if names := given_options(others):
            raise ss.InvalidInputError(f"{names}: not for releases on a cluster; leave it out")
        if reading.format is not None or reading.multiline is not None:
            raise ss.InvalidInputError("--set format and multiline: not for releases on a cluster; leave it out")
        if agreement is None or self.output is None:
            raise ss.InvalidInputError("on a cluster, rows are released by --agreement FILE, into --output FOLDER")
        agreed = ss.Agreement.load(agreement)
        terms = agreed.terms
        if terms is None or not terms.is_noise or not (isinstance(agreed.keys, tuple) or agreed.keys == "public"):
            raise ss.InvalidInputError(
                f"on a cluster, {agreement} must state ε, noise that is added, and which keys are published: make it "
                "with `streamsketch agree … --key COLUMN --epsilon 1` and --public-key or --keys-are-public"
            )
        with extras():
            job = jobs.FilesJob(
                patterns=patterns,
                agreement=agreed,
                epsilon=float(terms.epsilon),
                delta=float(terms.delta),
                mechanism=terms.mechanism,
                output=self.output,
                public_keys=agreed.keys if isinstance(agreed.keys, tuple) else None,
                secrets=jobs.RunSecrets(self.claims, self.run_id, self.root_key),
                delimiter=reading.delimiter,
                encoding=reading.encoding,
                decimal=reading.decimal,
                thousands=reading.thousands,
                null_values=reading.null_values,
            )
        runners = logging.getLogger("apache_beam.runners")
        level = runners.level
        runners.setLevel(logging.CRITICAL)  # a worker's exception comes back, and becomes a sentence
        try:
            releases = job.run(self.beam)
        finally:
            runners.setLevel(level)
        lost = below_noise_floor(block_of(list(releases.values())), len(releases))
        below = sorted(str(key) for key, gone in zip(releases, lost, strict=True) if gone)
        guarantee = next(iter(releases.values())).guarantee
        facts = {"releases": plural(len(releases), "key"), "guarantee": str(guarantee)}
        facts |= {"below the noise floor": ", ".join(below)} if below else {}
        facts["files"] = "sketches.parquet, sketches/*.sketch, cosines.parquet, distances.parquet, both as .csv"
        fields = {"folder": job.output, "keys": len(releases), "below_noise": below, **guarantee_fields(guarantee)}
        show_result(job.output, facts, fields, as_json=as_json)
