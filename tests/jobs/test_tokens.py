"""A function of the user gives clients their tokens; its faults end no client, and show no token."""

import itertools
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import streamsketch as ss
from tests.jobs.running import command

pytest.importorskip("confluent_kafka")

from streamsketch.jobs import Brokers, TopicError, UnreachableError, with_token
from tests.patience import PATIENCE

OAUTH = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.config": "region=x"}
SERVERS = "127.0.0.1:1"  # where nobody listens
SECRET = "a secret of the user"  # noqa: S105 - of a test


def made(brokers: Brokers, kind: str) -> Any:
    return brokers.consumer() if kind == "consumer" else getattr(brokers, kind)()


def test_every_client_asks_for_a_token() -> None:
    """They are made at once: each waits a second for what it has already."""
    asked: dict[tuple[str, str], list[str]] = {}

    def make(case: tuple[str, str]) -> None:
        kind, given = case
        asked[case] = []

        def token(config: str) -> tuple[str, float]:
            asked[case].append(config)
            return "a token", time.time() + 300

        settings = {"token": token} if given == "as a parameter" else {"settings": with_token(OAUTH, token)}
        brokers = Brokers(SERVERS, **{"settings": OAUTH} | settings)  # type: ignore[arg-type]
        made(brokers, kind)
        assert "token" not in repr(brokers)

    cases = list(itertools.product(["consumer", "admin", "producer"], ["as a parameter", "in the settings"]))
    with ThreadPoolExecutor(len(cases)) as pool:
        list(pool.map(make, cases))
    assert asked == {case: ["region=x"] for case in cases}


def test_a_function_has_no_text_where_the_settings_have_none() -> None:
    asked = []

    def token(config: str | None) -> Any:
        asked.append(config)
        raise RuntimeError

    settings = {name: value for name, value in OAUTH.items() if name != "sasl.oauthbearer.config"}
    with pytest.raises(UnreachableError):
        Brokers(SERVERS, settings, token=token).consumer()
    assert asked == [None]


def raises(_: str) -> Any:
    raise RuntimeError(SECRET)


@pytest.mark.parametrize(
    ("token", "error"),
    [
        (raises, "RuntimeError"),
        (lambda _: (SECRET.encode(), 2e9), "TypeError"),
        (lambda _: (SECRET, "soon"), "ValueError"),
        (lambda _: (SECRET, 300), r"returned one that expired at 300, and it is \d{10};"),
        (lambda _: (SECRET, float("nan")), "returned one that expired at nan"),
    ],
)
@pytest.mark.parametrize("kind", ["consumer", "admin", "producer"])
def test_a_function_that_gives_none_is_brokers_that_do_not_answer(
    token: Callable[[str], Any], error: str, kind: str
) -> None:
    asked = []

    def counted(config: str) -> Any:
        asked.append(config)
        return token(config)

    brokers = Brokers(SERVERS, OAUTH, token=counted)
    with pytest.raises(UnreachableError, match=f"the function for tokens (raised )?{error}") as caught:
        made(brokers, kind)
    assert SECRET not in str(caught.value)
    assert asked == ["region=x"], "no client is made, which would ask again after ten seconds"
    with pytest.raises(UnreachableError, match="the function for tokens"), brokers.errors():
        raise SystemError  # as from a client that was not made, for want of a token


def test_a_running_client_that_gets_no_further_token_says_so_and_goes_on() -> None:
    asked = 0

    def token(_: str) -> tuple[str, float]:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise RuntimeError(SECRET)
        return "a token", time.time() + 2

    brokers = Brokers(SERVERS, OAUTH, token=token)
    consumer, deadline = brokers.consumer(), time.monotonic() + PATIENCE
    while "the function for tokens raised RuntimeError" not in str(brokers.trouble):
        assert time.monotonic() < deadline
        assert consumer.poll(0.1) is None
    assert SECRET not in str(brokers.trouble)
    consumer.close()


@pytest.mark.parametrize(
    "settings", [{}, OAUTH | {"sasl.mechanism": "PLAIN"}, OAUTH | {"sasl.oauthbearer.method": "oidc"}]
)
def test_settings_that_would_not_ask_for_a_token_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ss.InvalidInputError, match=r"sasl\.mechanism=OAUTHBEARER"):
        Brokers(SERVERS, settings, token=raises)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a job whose token is in a module."""
    (tmp_path / "own_login.py").write_text(f"def token(config):\n    raise RuntimeError({SECRET!r})\nname = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_login", raising=False)
    settings = tmp_path / "client.properties"
    settings.write_text("".join(f"{name}={value}\n" for name, value in OAUTH.items()))
    settings.chmod(0o600)
    fields = {"job": 1, "delay": 0, "folder": "out", "stream": "sales", "servers": SERVERS, "topic": "sales"}
    fields |= {"client_settings": settings.name, "token": "own_login:token", "releases_topic": "out"}
    (tmp_path / "job.json").write_text(json.dumps(fields))
    return tmp_path / "job.json"


def test_the_job_names_the_function(job: Path) -> None:
    with pytest.raises(TopicError, match="the function for tokens raised RuntimeError") as caught:
        command("stream", "publish", f"--job={job}", "--once")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("place", ["own_login", "own_login:other", "own_login:name", "no_module_of_ours:token"])
def test_another_place_is_a_mistake(job: Path, place: str) -> None:
    with pytest.raises(
        ss.InvalidInputError, match=r"a token is a function MODULE:FUNCTION|the token .* cannot be imported"
    ):
        command("stream", "publish", f"--job={job}", f"--set=token={place}")
