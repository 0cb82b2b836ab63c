"""``streamsketch index``: a collection of published signs, ready to be searched."""

from pathlib import Path
from typing import Annotated

import typer

import streamsketch as ss
from streamsketch.cli._keys import Signers, public_keys
from streamsketch.cli._reading import find_duplicate, holds_signs, new_file, warn_of_mismatches
from streamsketch.cli._showing import Json, show_result
from streamsketch.signs.sign_index import SignIndex

INDEX = ".index"


def index(
    files: Annotated[
        list[Path],
        typer.Argument(help="Tables (.parquet) of signs, or .signs files.", metavar="FILE", show_default=False),
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write, .index.")],
    signer: Signers = None,
    as_json: Json = False,
) -> None:
    """Put published signs into one matrix of codes, which `nearest --index` searches.

    The file takes one bit for each sign, and for each release eight bytes and its key. Use the file only on the
    machines that search it. Send others the releases themselves.

    $ streamsketch index answers.parquet -o answers.index
    """
    new_file(output, INDEX, "an index")
    if twice := find_duplicate(files):
        raise ss.InvalidInputError(f"{twice}; index takes each release once")
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
