"""A collection of published signs in one matrix of codes, ready to be searched."""

from pathlib import Path

import streamsketch as ss
from streamsketch.cli._keys import public_keys
from streamsketch.cli._reading import find_duplicate, holds_signs, warn_of_mismatches
from streamsketch.cli._showing import show_result
from streamsketch.cli._writing import new_file
from streamsketch.signs.sign_index import SignIndex

INDEX = ".index"


def write_index(files: list[Path], output: Path, signer: list[Path] | None, *, as_json: bool) -> None:
    """Write the index of files of published signs, which takes one bit for each sign and little else."""
    new_file(output, INDEX, "an index")
    if twice := find_duplicate(files):
        raise ss.InvalidInputError(f"{twice}; an index takes each release once")
    for path in files:
        if not holds_signs(path):
            raise ss.InvalidInputError(f"{path} holds no published signs; an index holds signs only")
    made = SignIndex.from_files(files, signer=public_keys(signer))
    warn_of_mismatches(files[0], {None: made.first})
    made.save(output)
    size = output.stat().st_size
    fields = {
        "index": str(output),
        "releases": len(made),
        "sketch_dim": made.first.projection.sketch_dim,
        "bytes": size,
    }
    facts = {
        "releases": f"{len(made):,}",
        "signs of each": f"{made.first.projection.sketch_dim:,}",
        "guarantee": str(made.first.guarantee),
        "bytes": f"{size:,}",
    }
    show_result(str(output), facts, fields, as_json=as_json)
