"""Every function of the package that reads bytes or files, and which reader of the tests changes what it gets."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import streamsketch

_ROOT = Path(streamsketch.__file__).parent
_NAMES = re.compile(
    r"(?!_)(from_(bytes|json|text)|load\w*|decod\w*|read\w*|parse\w*|opened|unseal|\w*batch|\w*batches|csv_\w+|restored?|"
    r"verify|kind_of|parts_of|combine|go_on)"
)
_TAKES = {
    "data",
    "text",
    "encoded",
    "content",
    "path",
    "paths",
    "payload",
    "file",
    "message",
    "messages",
    "lines",
    "line",
}
_TAKES |= {"parts", "place", "windows", "contributions"}

READERS: dict[str, tuple[str, ...]] = {
    "agreement": ("agreement/agreement Agreement.from_json", "agreement/agreement load_agreement"),
    "claim": ("beam/run/claims Claim.decode",),
    "coder": ("sketching/partials decode_partial",),
    "contribution": ("parties/contributions decode_contribution", "parties/rounds Round.combine"),
    "envelope": ("parties/envelope unseal", "parties/envelope parse"),
    "avro message": ("data/readers/avro Records.read",),
    "events in avro": ("data/readers/avro batches",),
    "events in csv": ("data/readers/delimited batches",),
    "events in jsonl": ("data/readers/json_lines batches",),
    "events in log": ("data/readers/text_lines batches",),
    "events in parquet": ("data/readers/formats batches", "data/readers/formats parts_of",
                          "data/readers/parquet batches", "data/readers/parquet read_parquet"),
    "features": ("features/features Features.from_json",),
    "lines of csv": ("data/readers/delimited csv_header", "data/readers/delimited csv_piece",
                     "intake/lines Lines.read"),
    "lines of jsonl": ("data/readers/json_lines json_batch",),
    "load": ("wire/registry decode_any", "wire/registry load", "wire/releases decode_release"),
    "mean": ("local/aggregation MeanAggregator.from_bytes",
             "wire/local_reports decode_aggregator"),
    "mechanism": ("local/mechanism Mechanism.from_json",),
    "messages in arrow": ("data/arrow_messages message_batches",),
    "messages in json": ("beam/streams/messages read_plain",),
    "job": ("streams/job Job.from_json", "streams/job Job.load"),
    "private key": ("parties/keys Key.load",),
    "projection": ("projections/base Projection.from_json",),
    "public key": ("parties/keys PublicKey.from_text",),
    "raw": ("storage/database opened", "storage/raw_files load_raw"),
    "raw header": ("storage/raw_files read_header",),
    "raw of version 2": ("storage/old_formats read_old_sketch",),
    "release": ("beam/run/coders ExchangeCoder.decode", "release/published Published.from_bytes",
                "wire/parsing parse", "wire/registry decode"),
    "report of sqkr": ("local/report Report.from_bytes", "wire/local_reports decode_report"),
    "round": ("parties/rounds Round.from_json",),
    "sign index": ("signs/index_file read_index", "signs/sign_index SignIndex.load"),
    "signatures": ("parties/signing verify", "parties/statements decode_statement"),
    "signs": ("wire/signs decode_individual_signs",
              "wire/signs decode_signs"),
    "state of rows": ("sketching/bounding/admission Admission.restored", "once/rows Rows.restored",
                      "schedules/rows RowSums.restored"),
    "state of units": ("streams/state read_state", "streams/open_windows Windows.restore",
                       "streams/open_windows Windows.restored"),
    "table": ("wire/registry kind_of", "wire/tables decode_table", "wire/tables kind_of",
              "wire/tables read_table"),
}  # fmt: skip
"""Functions by the reader of the tests that changes the bytes they get."""

ELSEWHERE: dict[str, tuple[str, ...]] = {
    "bytes and no more, within a limit": (
        "beam/run/claims read_claim",
        "core/limits read_bounded",
        "core/limits read_open",
    ),
    "workers of one job, whose coders are Beam's, which run what they decode": (
        "beam/streams/slots decoded_key",
        "sketching/bounding/shards decoded",
    ),
    "what the person at the command types": (
        "agreement/rows_of_unit RowsOfUnit.parse",
        "agreement/text TextRule.parse",
        "cli/_releasing parse_receipt",
    ),
    "steps of readers above": (
        "agreement/agreement Agreement.load_release",
        "beam/intake/read read_batches",
        "cli/_agreeing load_projection",
        "cli/_features load_agreement",
        "cli/_features load_features",
        "cli/_reading load_files",
        "cli/_reading load_published",
        "cli/_reading load_raw_file",
        "cli/_reading load_signs",
        "cli/_reading load_sketches",
        "cli/_reading load_windows",
        "cli/party_round combine",
        "core/limits read_json",
        "intake/files RowReader.batches",
        "intake/files RowReader.read",
        "release/agreed load_agreed",
        "release/published load_published",
        "sketching/bounding/units bound_batches",
        "wire/parquet_pages read_footer",
    ),
}
"""Functions that read what another reader checks, by why they need none of their own."""


def found() -> Iterator[str]:
    """Yield functions whose name and parameters are those of a reader, as ``folder/file name``."""
    for path in sorted(_ROOT.rglob("*.py")):
        module = path.relative_to(_ROOT).with_suffix("").as_posix()
        text = path.read_text(encoding="utf-8")
        if not any(map(_NAMES.fullmatch, re.findall(r"\bdef (\w+)", text))):
            continue  # most files have none, and take longer to parse
        tree = ast.parse(text)
        classes = [one for one in tree.body if isinstance(one, ast.ClassDef) and one.name[0] != "_"]
        scopes: list[ast.Module | ast.ClassDef] = [tree, *classes]
        for scope in scopes:
            for function in scope.body:
                if isinstance(function, ast.FunctionDef) and _NAMES.fullmatch(function.name):
                    given = function.args
                    if _TAKES & {one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)}:
                        owner = f"{scope.name}." if isinstance(scope, ast.ClassDef) else ""
                        yield f"{module} {owner}{function.name}"
