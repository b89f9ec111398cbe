"""Secrets are left out of what is kept and shown, and what only looks like one stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paceline.guard.rank.call_recorder import Recorder
from paceline.guard.rank.process_end import describe_error
from paceline.guard.run.kept_records import keep_records
from paceline.guard.run.run_registry import announce_run
from paceline.process.hidden_secrets import hide_in_message, hide_in_source, without_secrets


@pytest.mark.parametrize(
    "words",
    [
        ["--api-key", "S3CRET"],
        ["--api_key=S3CRET"],
        ["--wandb-token", "S3CRET"],
        ["--password=S3CRET"],
        ["-password", "S3CRET"],
        ["HF_TOKEN=S3CRET"],
        ["AWS_SECRET_ACCESS_KEY=S3CRET"],
        ["storage.storage_options={key: S3CRET, secret: 'S3CRET', endpoint: x}"],
        ["storage.storage_options={secret_access_key: S3CRET}"],
        ['"token": "S3CRET"'],
        ["postgres://me:S3CRET@host/db"],
        ["https://S3CRET@host/repository.git"],
        ["https://host/x?access_token=S3CRET&page=2"],
        ["--header", "Authorization: Bearer S3CRET.abc.def"],
    ],
)
def test_a_secret_is_left_out_of_a_command(words: list[str]) -> None:
    hidden = without_secrets(["train.py", *words, "--lr", "0.1"])
    assert "S3CRET" not in " ".join(hidden)
    assert (hidden[0], hidden[-2:]) == ("train.py", ["--lr", "0.1"])


@pytest.mark.parametrize(
    "words",
    [
        ["--tokenizer", "gpt2"],
        ["--max-tokens=512"],
        ["--keyframes", "3"],
        ["s3://bucket/data"],
        ["--monkey", "george"],
        ["--no-secret", "--epochs", "3"],
        ["user@host:/data"],
    ],
)
def test_what_is_no_secret_stays(words: list[str]) -> None:
    assert without_secrets(words) == words


def test_prose_and_code_stay_readable() -> None:
    for text in ("unexpected token: '}'", "missing key: weight", "KeyError: 'token'"):
        assert hide_in_message(text) == text
    for line in ("token = tokenizer(text)", "key = keys[0]", 'weights["key"] = 3'):
        assert hide_in_source(line) == line


def test_records_hold_no_secret(tmp_path: Path) -> None:
    command = ["train.py", "--api-key", "S3CRET", "s3://me:S3CRET@host"]
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    announce_run(run, command, None)
    recorder = Recorder(run, "world.0.0", rank=0, world_size=1)
    recorder.ring.write_text({"raised": describe_error(OSError("no answer from https://me:S3CRET@host/x"))})
    records = keep_records(tmp_path / "kept", run, [], None, command)
    assert records is not None
    assert json.loads((records / "run.json").read_text())["command"] == [
        "train.py",
        "--api-key",
        "***",
        "s3://***@host",
    ]
    for path in (*run.iterdir(), *records.iterdir()):
        assert b"S3CRET" not in path.read_bytes(), path


def test_the_arguments_of_a_rank_are_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["train.py", "--pin", "S3CRET"])
    Recorder(tmp_path, "world.0.0", rank=0, world_size=1)
    assert b"S3CRET" not in (tmp_path / "ring.world.0.0").read_bytes()
