"""Claims: files that a run creates once, to keep what a recomputed step must find again."""

import importlib
import json
import re
import secrets
from pathlib import Path
from typing import NamedTuple

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from streamsketch.core.files import create_file, write_whole
from streamsketch.errors import InvalidInputError

NONCE_BYTES = 32
_FORMAT = "streamsketch claim 2"
_EARLIER = "streamsketch claim 1"  # of runs whose secrets follow from the nonce in another way
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_MAX_BYTES = 1 << 12


class Claim(NamedTuple):
    """What a claim file holds.

    Parameters
    ----------
    launch
        Random bytes of the submission that made the claim; public.
    root_key
        Fingerprint of the root key; empty without one.
    nonce
        The run's nonce; None once the run has finished.
    """

    launch: bytes
    root_key: bytes
    nonce: bytes | None

    def encode(self) -> bytes:
        """Return the file's content."""
        nonce = None if self.nonce is None else self.nonce.hex()
        fields = {"format": _FORMAT, "launch": self.launch.hex(), "root_key": self.root_key.hex(), "nonce": nonce}
        return json.dumps(fields).encode()

    @staticmethod
    def decode(content: bytes, path: str) -> "Claim":
        """Return the claim in a file's content; raise `InvalidInputError` if there is none."""
        try:
            fields = json.loads(content)
            nonce = None if fields["nonce"] is None else bytes.fromhex(fields["nonce"])
            claim = Claim(bytes.fromhex(fields["launch"]), bytes.fromhex(fields["root_key"]), nonce)
            earlier = fields["format"] == _EARLIER
            valid = fields["format"] == _FORMAT and len(nonce or bytes(NONCE_BYTES)) == NONCE_BYTES
        except (ValueError, TypeError, KeyError, RecursionError):
            valid = earlier = False
        if earlier:
            raise InvalidInputError(
                f"the run that claimed {path} was begun by an earlier version, whose secrets follow from its nonce in "
                "another way; pass another run_id for a new run"
            )
        if not valid:
            raise InvalidInputError(f"{path} is not a claim of a run; pass another run_id")
        return claim


def claim_path(folder: str, run_id: str) -> str:
    """Return the path of a run's claim; raise `InvalidInputError` for an id that is not a file name."""
    if not isinstance(run_id, str) or not _NAME.fullmatch(run_id):
        raise InvalidInputError(
            "a run id must be 1 to 128 letters, digits, '.', '_' or '-', and not begin with '.' or '-', got "
            f"{run_id!r:.80}"
        )
    return str(FileSystems.join(folder, f"{run_id}.claim"))


def claimed_nonce(path: str, launch: bytes, root_key: bytes) -> bytes:
    """Return the nonce of a run: a new one if the path is not claimed yet, the old one for the same launch.

    Parameters
    ----------
    path
        Where the claim is.
    launch
        Random bytes of this submission of the job.
    root_key
        Fingerprint of the root key; empty without one.

    Raises
    ------
    InvalidInputError
        If another launch claimed the path, the run has finished or had another root key, or the file system cannot
        create a file exclusively.
    """
    fresh = Claim(launch, root_key, secrets.token_bytes(NONCE_BYTES))
    if create_once(path, fresh.encode()):
        return fresh.nonce  # type: ignore[return-value] # just drawn
    held = Claim.decode(read_claim(path), path)
    if held.launch != launch:
        raise InvalidInputError(f"another launch of a job has claimed {path}; pass another run_id")
    if held.nonce is None:
        raise InvalidInputError(f"the run that claimed {path} has finished; pass another run_id for a new run")
    if held.root_key != root_key:
        raise InvalidInputError(
            f"the run that claimed {path} has another root key; pass the root key that it began with"
        )
    return held.nonce


def finish(path: str) -> None:
    """Remove the nonce from a claim, so that it can no longer be read or used; a second call changes nothing."""
    held = Claim.decode(read_claim(path), path)
    if held.nonce is not None:
        _replace(path, held._replace(nonce=None).encode())


def create_once(path: str, content: bytes, *, mode: int = 0o600) -> bool:
    """Create a file with all of its content in one step; return False if the file already exists.

    Parameters
    ----------
    path
        The file's path.
    content
        The whole content.
    mode
        Permissions of a local file, of which the process's umask takes some away.

    Raises
    ------
    InvalidInputError
        If the file system has no operation that fails when the file exists.
    OSError
        If the file cannot be written.
    """
    if is_local(path):
        return create_file(local_path(path), content, mode=mode)
    scheme = FileSystems.get_scheme(path)
    if scheme == "gs":
        return _create_gcs(path, content)
    if scheme == "s3":
        return _create_s3(path, content)
    raise InvalidInputError(
        f"claims need a file system that can create a file only if it does not exist, got {scheme}://; pass a folder "
        "that all workers share, or a gs:// or s3:// URL"
    )


def is_local(path: str) -> bool:
    """Return whether a Beam path is on a local or mounted file system."""
    return FileSystems.get_scheme(path) in (None, "file")


def local_path(path: str) -> Path:
    """Return a Beam path on a local file system as a `pathlib.Path`."""
    return Path(path.removeprefix("file://"))


def _create_gcs(path: str, content: bytes) -> bool:
    from apache_beam.io.gcp import gcsio  # noqa: PLC0415 - with apache-beam[gcp] only

    options = FileSystems.get_filesystem(path)._pipeline_options  # noqa: SLF001 - no public way
    bucket, name = gcsio.parse_gcs_path(path)
    blob = gcsio.GcsIO(pipeline_options=options).client.bucket(bucket).blob(name)
    try:
        blob.upload_from_string(content, if_generation_match=0)
    except importlib.import_module("google.api_core.exceptions").PreconditionFailed:
        return False
    return True


def _create_s3(path: str, content: bytes) -> bool:
    from apache_beam.io.aws import s3io  # noqa: PLC0415 - with apache-beam[aws] only

    options = FileSystems.get_filesystem(path)._options  # noqa: SLF001 - no public way
    bucket, name = s3io.parse_s3_path(path)
    try:
        s3io.S3IO(options=options).client.client.put_object(Bucket=bucket, Key=name, Body=content, IfNoneMatch="*")
    except importlib.import_module("botocore.exceptions").ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] == 412:  # precondition failed
            return False
        raise
    return True


def read_claim(path: str) -> bytes:
    """Return the content of a file that was created once."""
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        return bytes(file.read(_MAX_BYTES))


def _replace(path: str, content: bytes) -> None:
    if is_local(path):
        write_whole(local_path(path), content, secret=True)
        return
    with FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        file.write(content)
