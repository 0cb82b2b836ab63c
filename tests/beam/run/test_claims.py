"""Claims on object stores, whose clients are replaced by ones that know the conditions of a put."""

import io
import sys
import types
from typing import Any

import pytest
from apache_beam.io.filesystems import FileSystems

import streamsketch as ss
from streamsketch.beam.run import claims

LAUNCH = bytes(16)


class ClientError(Exception):
    """What a store answers where something is wrong."""


class Refused(ClientError):  # noqa: N818 - the condition does not hold
    """What a store answers where an object exists."""

    response = {"ResponseMetadata": {"HTTPStatusCode": 412}}  # noqa: RUF012


class Down(ClientError):  # noqa: N818
    """Another answer."""

    response = {"ResponseMetadata": {"HTTPStatusCode": 503}}  # noqa: RUF012


class Store:
    """Objects by name; refuses a put under a condition where the name is taken."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], bytes] = {}
        self.down = False

    def put(self, bucket: str, name: str, content: bytes, *, once: bool) -> None:
        if self.down:
            raise Down
        if once and (bucket, name) in self.objects:
            raise Refused
        self.objects[bucket, name] = content

    def open(self, path: str, **_: Any) -> io.BytesIO:
        bucket, name = path.partition("://")[2].split("/", 1)
        return io.BytesIO(self.objects[bucket, name])

    def create(self, path: str, **_: Any) -> io.BytesIO:
        bucket, name = path.partition("://")[2].split("/", 1)

        class Writer(io.BytesIO):
            def close(writer) -> None:  # noqa: N805
                self.put(bucket, name, writer.getvalue(), once=False)

        return Writer()

    def split(self, path: str) -> tuple[str, str]:
        bucket, name = path.partition("://")[2].split("/", 1)
        return bucket, name

    def upload(self, bucket: str, name: str) -> Any:
        def upload_from_string(content: bytes, if_generation_match: int) -> None:
            self.put(bucket, name, content, once=if_generation_match == 0)

        return types.SimpleNamespace(upload_from_string=upload_from_string)

    def put_object(self, Bucket: str, Key: str, Body: bytes, IfNoneMatch: str) -> None:  # noqa: N803 - as in boto3
        self.put(Bucket, Key, Body, once=IfNoneMatch == "*")


@pytest.fixture(params=["gs", "s3"])
def folder(request: pytest.FixtureRequest, store: Store, monkeypatch: pytest.MonkeyPatch) -> str:
    def bucket(name: str) -> Any:
        return types.SimpleNamespace(blob=lambda blob: store.upload(name, blob))

    gcs = types.SimpleNamespace(client=types.SimpleNamespace(bucket=bucket))
    s3 = types.SimpleNamespace(client=types.SimpleNamespace(client=store))
    modules = {
        "apache_beam.io.gcp.gcsio": {"GcsIO": lambda **_: gcs, "parse_gcs_path": store.split},
        "google.api_core.exceptions": {"PreconditionFailed": Refused},
        "apache_beam.io.aws.s3io": {"S3IO": lambda **_: s3, "parse_s3_path": store.split},
        "botocore.exceptions": {"ClientError": ClientError},
    }
    for name, content in modules.items():
        fake = types.ModuleType(name)
        vars(fake).update(content)
        monkeypatch.setitem(sys.modules, name, fake)
        if name.startswith("apache_beam"):
            package, _, module = name.rpartition(".")
            monkeypatch.setattr(sys.modules[package], module, fake, raising=False)
    system = types.SimpleNamespace(_pipeline_options=None, _options=None)
    monkeypatch.setattr(FileSystems, "get_filesystem", lambda _: system)
    monkeypatch.setattr(FileSystems, "join", lambda *parts: "/".join(parts))
    monkeypatch.setattr(FileSystems, "open", store.open)
    monkeypatch.setattr(FileSystems, "create", store.create)
    return f"{request.param}://bucket/claims"


@pytest.fixture
def store() -> Store:
    import apache_beam.io.aws  # noqa: PLC0415 - packages whose modules are replaced
    import apache_beam.io.gcp  # noqa: F401, PLC0415

    return Store()


def test_a_claim_on_an_object_store_is_made_once_and_ends(folder: str, store: Store) -> None:
    path = claims.claim_path(folder, "today")
    nonce = claims.claimed_nonce(path, LAUNCH, b"")
    assert len(nonce) == 32
    assert claims.claimed_nonce(path, LAUNCH, b"") == nonce
    assert list(store.objects) == [("bucket", "claims/today.claim")]
    with pytest.raises(ss.InvalidInputError, match="another launch"):
        claims.claimed_nonce(path, b"another launch!!", b"")
    claims.finish(path)
    assert nonce.hex().encode() not in store.objects["bucket", "claims/today.claim"]
    with pytest.raises(ss.InvalidInputError, match="has finished"):
        claims.claimed_nonce(path, LAUNCH, b"")


def test_a_store_that_fails_gives_no_nonce(folder: str, store: Store) -> None:
    store.down = True
    with pytest.raises(Down):
        claims.claimed_nonce(claims.claim_path(folder, "today"), LAUNCH, b"")
