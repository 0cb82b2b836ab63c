"""Options of earlier versions: each is answered with one sentence that says where it went."""

from pathlib import Path

import pytest

from tests.cli.running import run_command

OLD = [
    ("release x.raw-sketch --epsilon 1", "An agreement says that: `streamsketch agree"),
    ("release x.raw-sketch --l1 1", "An agreement says that"),
    ("release x.raw-sketch --keys-are-public", "An agreement says that"),
    ("release x.csv --delimiter ;", "Write --set delimiter=CHARACTER"),
    ("release x.csv --no-multiline", "Write --set multiline=no"),
    ("release x.csv --claims d", "Write --set claims=DIR"),
    ("sketch x.csv --window day", "An agreement says that"),
    ("sketch x.csv --time-format %Y", "An agreement says that"),
    ("sketch x.csv --clip none", "--assert-bounds clips nothing"),
    ("sketch x.csv --bad-lines skip", "Write --set bad-lines=stop|skip|FILE"),
    ("choose-bound x.csv --trade-off a.txt", "Write --set trade-off=FILE"),
    ("compare a b --category kind", "Write --set category=COLUMN"),
    ("compare a b --index word", "Write --set index=COLUMN"),
    ("report a --title T", "Write --set title=TEXT"),
    ("changes a --no-samples", "Write --set samples=no"),
    ("changes a --control rate", "Write --set control=any|rate"),
    ("history a --every 3", "Write --set every=WINDOWS"),
    ("frequency a --estimator mean", "Write --set estimator=ESTIMATOR"),
    ("merge a b --disjoint-units", "Write --populations disjoint"),
    ("plan streams --dim 9", "Write --set dim=NUMBER|hashed"),
    ("plan units --keys k.csv", "Write --units FILE"),
    ("plan units --in-keys 3", "Write --set in-keys=NUMBERS"),
    ("plan sites --numbers 3", "Write --features NUMBER"),
    ("plan sites --accept", "Write --set accept=yes|no"),
    ("plan windows --gap 3", "Write --set gap=WINDOWS"),
    ("plan signs --rest 0", "Write --set rest=NUMBERS"),
    ("stream file x.csv --follow", "The job says that: --set follow=VALUE"),
    ("stream file x.csv -o s.raw-stream", "The job says that: --set state=VALUE"),
    ("stream pipe --messages", "Write --set format=messages"),
    ("stream kafka --servers a:1", "The job says that: --set servers=VALUE"),
    ("stream kafka --idle-after 9", "The job says that: --set idle_after=VALUE"),
    ("stream beam --folder in", "Write --set incoming=DIR"),
    ("stream beam --root-key k", "The job says that: --set root_key=VALUE"),
    ("stream watch --every 3", "Write --set check_every=SECONDS"),
    ("stream watch --port 1", "The job says that: --set port=VALUE"),
    ("stream publish --topic r", "Write --set releases_topic=TOPIC"),
    ("ledger charge l --l1 1", "Write --bound l1=NUMBER"),
    ("party round new r.json --epsilon 1", "An agreement says that"),
    ("party sign f --passphrase-file p", "Set the environment variable STREAMSKETCH_PASSPHRASE_FILE"),
]


@pytest.mark.parametrize(("call", "said"), OLD)
def test_an_option_of_before_is_answered_with_where_it_went(call: str, said: str, tmp_path: Path) -> None:
    done = run_command(call.split(), tmp_path)
    option = next(word for word in call.split() if word.startswith("-"))
    assert done.returncode == 2
    assert f"error: No such option: {option}. " in done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
