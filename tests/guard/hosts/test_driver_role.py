"""What a driver of Ray makes of this process: the head if its cluster may have other hosts; the key stays at home."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.guard.hosts.keys import job_secret
from paceline.guard.run.several_hosts import host_role as roles
from paceline.guard.run.several_hosts.host_role import HeadRole, HostRole, host_role
from paceline.guard.run.several_hosts.host_watcher import is_used
from paceline.guard.run.watch_options import WatchOptions
from paceline.launch.launcher_command import host_names
from paceline.launch.launcher_command.ray_cluster import RayCluster

_DEADLINE = 60.0


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("PACELINE_KEY", "RAY_RUNTIME_ENV_HOOK", "PACELINE_RAY_HOOK", "SLURM_JOB_NODELIST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(roles, "find_cluster", lambda command, environ: RayCluster("192.0.2.7", 6379))
    monkeypatch.setattr(host_names, "is_loopback", lambda address: False)
    monkeypatch.setattr(host_names, "own_addresses", lambda hosts: ["127.0.0.1"])


def _role() -> tuple[HostRole, list[str]]:
    said: list[str] = []
    return host_role(["python", "driver.py"], WatchOptions(on_unseen=said.append)), said


def test_a_driver_of_a_running_cluster_is_watched_by_a_head() -> None:
    role, said = _role()
    assert isinstance(role, HeadRole)
    role.close()
    assert [text.partition(";")[0] for text in said] == [
        f"watching other hosts through {role.address} (encrypted, with a key of this run)"
    ]
    assert role.variables["PACELINE_HEAD"] == role.address
    assert role.variables["RAY_RUNTIME_ENV_HOOK"].startswith("paceline.")


def test_the_secret_follows_from_the_key_of_the_user_and_is_in_no_variable() -> None:
    role, _ = _role()
    assert isinstance(role, HeadRole)
    role.close()
    assert role.secret == job_secret(os.environ, role.variables["PACELINE_JOB"])
    assert role.secret.hex() not in str(role.variables) + repr(role)
    again, _ = _role()
    assert isinstance(again, HeadRole)
    again.close()
    assert again.secret != role.secret


def test_a_cluster_that_only_this_host_can_reach_needs_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_names, "is_loopback", lambda address: True)
    role, said = _role()
    assert (type(role), said) == (HostRole, [])
    assert "RAY_RUNTIME_ENV_HOOK" in role.variables


@pytest.mark.parametrize("problem", ["no packages", "no address", "a key that others can read"])
def test_workers_of_this_host_are_watched_although_others_cannot_be(
    problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if problem == "no packages":
        monkeypatch.setattr(roles, "_is_anything_missing", lambda: True)
    elif problem == "no address":
        monkeypatch.setattr(host_names, "own_addresses", lambda hosts: [])
    else:
        key = tmp_path / ".config" / "paceline" / "key"
        key.parent.mkdir(parents=True)
        key.write_text("ab" * 32)
        key.chmod(0o644)
    role, (said,) = _role()
    assert type(role) is HostRole
    assert "RAY_RUNTIME_ENV_HOOK" in role.variables
    assert said.startswith("a cluster of Ray runs, and workers on other hosts are not watched: ")


def test_a_folder_is_in_use_as_long_as_a_process_lives_that_was_started_for_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print(flush=True); input()"]
    variables = {**os.environ, "PACELINE_RUN_FOLDER": str(tmp_path / "run")}
    with subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        assert is_used(tmp_path / "run")
        assert not is_used(tmp_path / "ru")
        worker.communicate(b"\n", timeout=_DEADLINE)
    assert not is_used(tmp_path / "run")
