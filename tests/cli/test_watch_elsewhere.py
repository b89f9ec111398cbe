"""`paceline watch HOST:PORT`: shows a run elsewhere to who has the key, and says in one sentence why not to others."""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.helpers.fake_rings import write_rings

from paceline.guard.hosts.keys import KEY, derive_secret, read_secret
from paceline.guard.hosts.link import HeadLink, listen
from paceline.guard.hosts.viewing.view_service import ViewService
from paceline.guard.observe.local_rings import LocalRings
from paceline.guard.verdict.finding import Cause, Finding, FindingKind, GroupState, RankGroup
from paceline.guard.verdict.finding_json import diagnosis_to_json

_DEADLINE = 60.0
_FINDING = Finding(
    kind=FindingKind.DEADLOCK,
    field=None,
    groups=(RankGroup(ranks=(1,), state=GroupState.RUNNING),),
    ranks=(1,),
    summary="rank 1 stays away",
    cause=Cause.RANK_CONDITIONAL_CALL,
    advice="come",
)


@dataclass
class ShownRun:
    """A run that this process shows, and those who watch it."""

    folder: Path
    key: str
    address: str
    service: ViewService | None
    rings: LocalRings
    outcome: bytes = b""
    opened: list[subprocess.Popen[str]] = field(default_factory=list)

    def watch(self, address: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        own = {name: value for name, value in os.environ.items() if name != KEY}
        self.opened.append(
            subprocess.Popen(
                [sys.executable, "-m", "paceline", "watch", *arguments, address],
                cwd=self.folder,
                text=True,
                stderr=subprocess.PIPE,
                env=own | {"HOME": str(self.folder)} | variables,
                # tests that run in the background ignore Ctrl-C, and so would this
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
            )
        )
        return self.opened[-1]

    def serve(self, watch: subprocess.Popen[str]) -> None:
        """Show the run until somebody has gone."""
        deadline = time.monotonic() + _DEADLINE
        while watch.poll() is None:
            self.turn()
            assert time.monotonic() < deadline, "it never ends"

    def turn(self) -> None:
        assert self.service is not None
        self.service.turn(self.rings.shown_jobs)
        time.sleep(0.01)

    def serve_until_seen(self, watch: subprocess.Popen[str], text: str) -> None:
        """Show the run until somebody has printed a text."""
        assert watch.stderr is not None
        said, deadline = "", time.monotonic() + _DEADLINE
        while text not in said:
            self.turn()
            if select.select([watch.stderr], [], [], 0.0)[0]:
                said += os.read(watch.stderr.fileno(), 65_536).decode()
            assert time.monotonic() < deadline, said

    def end(self) -> None:
        if self.service is not None:
            self.service.close()
            self.service = None


@pytest.fixture
def run(tmp_path: Path) -> Iterator[ShownRun]:
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    write_rings(ranks, 3, calls=10, late=1, inside=True)
    key, listening = secrets.token_hex(32), listen("127.0.0.1")
    made = ShownRun(tmp_path, key, f"127.0.0.1:{listening.getsockname()[1]}", None, LocalRings(ranks))
    link = HeadLink(listening, derive_secret(read_secret(key), "viewers"))
    made.service = ViewService(link, lambda: made.outcome)
    yield made
    made.end()
    made.rings.close()
    for watch in made.opened:
        watch.kill()
        watch.communicate()


def test_who_has_the_key_sees_the_run_and_how_it_ends(run: ShownRun) -> None:
    watch = run.watch(run.address, "--every", "0.1", PACELINE_KEY=run.key)
    run.serve_until_seen(watch, "3 ranks after")
    run.outcome = json.dumps({**diagnosis_to_json(90, _FINDING, ()), "records": None}).encode()
    run.end()
    _, said = watch.communicate(timeout=_DEADLINE)
    assert watch.returncode == 90, said
    assert "paceline: the run has ended with code 90:" in said
    assert "rank 1 stays away" in said


def test_the_key_may_be_in_its_file(run: ShownRun) -> None:
    path = run.folder / ".config" / "paceline" / "key"
    path.parent.mkdir(parents=True)
    path.touch(mode=0o600)
    path.write_text(run.key)
    watch = run.watch(run.address, "--every", "0.1")
    run.serve_until_seen(watch, "rank 1 is the last to reach")
    run.outcome = json.dumps({**diagnosis_to_json(0, None, ()), "records": None}).encode()
    run.end()
    _, said = watch.communicate(timeout=_DEADLINE)
    assert watch.returncode == 0, said
    assert "the run has ended with code 0; nothing was found" in said


def test_ctrl_c_leaves_the_run_alone(run: ShownRun) -> None:
    watch = run.watch(run.address, "--every", "0.1", PACELINE_KEY=run.key)
    run.serve_until_seen(watch, "3 ranks after")
    watch.send_signal(signal.SIGINT)
    run.serve(watch)
    _, said = watch.communicate(timeout=_DEADLINE)
    assert watch.returncode == 0, said
    assert "stopped watching; the run continues" in said


def test_another_key_is_not_let_in(run: ShownRun) -> None:
    watch = run.watch(run.address, PACELINE_KEY=secrets.token_hex(32))
    run.serve(watch)
    _, said = watch.communicate(timeout=_DEADLINE)
    assert (watch.returncode, said.count("\n")) == (2, 1), said
    assert f"{run.address} does not let this key in" in said


def test_without_a_key_nothing_is_tried_and_none_is_made(run: ShownRun) -> None:
    watch = run.watch(run.address)
    _, said = watch.communicate(timeout=_DEADLINE)
    assert (watch.returncode, said.count("\n")) == (2, 1), said
    assert "there is no key in" in said
    assert not (run.folder / ".config").exists()


def test_nobody_there_is_said_in_one_sentence(run: ShownRun) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    watch = run.watch(address, PACELINE_KEY=run.key)
    _, said = watch.communicate(timeout=_DEADLINE)
    assert (watch.returncode, said.count("\n")) == (2, 1), said
    assert f"nobody answers at {address}" in said


def test_a_folder_with_the_name_of_an_address_is_a_folder(run: ShownRun) -> None:
    (run.folder / "n1:80").mkdir()
    watch = run.watch("n1:80", PACELINE_KEY=run.key)
    _, said = watch.communicate(timeout=_DEADLINE)
    assert (watch.returncode, said.count("\n")) == (2, 1), said
    assert "no run is in progress in n1:80" in said
