"""Pin a new projection: ``python -m tests.golden.append_pin JSON [INDEX …]`` appends it to projections.json.

The columns are those of the twin in ``tests/oracles/naive_maps.py``, never of the library, and the fingerprint is
hashlib's. What is pinned already never changes: a projection that is in the file is refused.
"""

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

from tests.golden import kit_reader

PINS = Path(__file__).parent / "projections.json"


def pin_of(text: str, indices: list[int]) -> dict[str, Any]:
    """Return the pin of a projection, given as JSON, with its canonical text, its fingerprint and some columns."""
    fields = json.loads(text)
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    dim = fields["dim"]
    beyond = [index for index in indices if not 0 <= index < dim]
    if beyond:
        raise ValueError(f"indices are 0 to {dim - 1}, not {beyond[0]}")
    columns = indices or sorted({0, min(1, dim - 1), dim // 2, dim - 1})
    return {
        "json": text,
        "fingerprint": hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
        "columns": {str(index): kit_reader.nonzeros_of(text, index) for index in columns},
    }


def appended(pins: str, pin: dict[str, Any]) -> str:
    """Return the text of the file with one more pin at its end; the lines before stay as they are."""
    if any(old["json"] == pin["json"] for old in json.loads(pins)):
        raise ValueError(f"a projection with the fingerprint {pin['fingerprint']} is pinned: pins never change")
    return f"{pins.rstrip().removesuffix(']').rstrip()},\n{json.dumps(pin)}\n]\n"


def main() -> None:
    """Append the pin to the file."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden.append_pin", description="Pin a new projection.")
    parser.add_argument("json", help="the projection, as its to_json() returns it")
    parser.add_argument("indices", nargs="*", type=int, help="columns to pin; the first two, the middle and the last")
    asked = parser.parse_args()
    try:
        pin = pin_of(asked.json, asked.indices)
        text = appended(PINS.read_text(encoding="utf-8"), pin)
    except ValueError as error:
        parser.error(str(error))
    PINS.write_text(text, encoding="utf-8")
    print(f"pinned {pin['fingerprint']}, {len(pin['columns'])} columns: run `make generated`")  # noqa: T201 - a command


if __name__ == "__main__":
    main()
