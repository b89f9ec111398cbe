"""What the judge of `enable()` makes of the variables that ranks have from their launcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.guard.run.several_hosts import host_role as roles
from paceline.guard.run.several_hosts.host_role import FollowerRole, HeadRole, HostRole, enabled_role
from paceline.guard.run.watch_options import WatchOptions
from paceline.process.launchers import LAUNCHERS

_FAR = "192.0.2.7"  # of documentation: it is nobody's
_TORCH = {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "29400"}
_STEP = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": "0", "SLURM_STEP_NODELIST": "a,b",
         "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"}  # fmt: skip
_MPICH = {"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "2"}


def _role(monkeypatch: pytest.MonkeyPatch, home: Path, variables: dict[str, str]) -> tuple[HostRole, list[str]]:
    for name in ("PACELINE_KEY", "SLURM_STEP_NODELIST", *(name for launcher in LAUNCHERS for name in launcher[1:5])):
        if isinstance(name, str):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    said: list[str] = []
    return enabled_role(WatchOptions(on_unseen=said.append)), said


@pytest.mark.parametrize(
    "variables",
    [{}, _TORCH | {"LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": _FAR}, _MPICH | {"MPI_LOCALNRANKS": "4"}],
)
def test_ranks_of_one_host_open_no_port_and_say_nothing(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    role, said = _role(monkeypatch, tmp_path, variables)
    assert (type(role), said) == (HostRole, [])
    assert not (tmp_path / ".config").exists()


def test_the_host_that_torch_names_has_the_head(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    role, said = _role(monkeypatch, tmp_path, _TORCH | {"MASTER_ADDR": "127.0.0.1"})
    assert isinstance(role, HeadRole)
    assert role.viewers is not None
    port = role.viewers.listening.getsockname()[1]
    role.close()
    watched = f"watching other hosts through {role.address} (encrypted, with a key of this run)"
    assert said == [f"{watched}; to look on: paceline watch 127.0.0.1:{port}"]


@pytest.mark.parametrize(
    ("variables", "num_said"),
    [(_TORCH | {"MASTER_ADDR": _FAR}, 1), (_STEP | {"SLURM_NODEID": "1"}, 0)],
    ids=["torchrun", "srun"],
)
def test_other_hosts_follow_it(
    variables: dict[str, str], num_said: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    role, said = _role(monkeypatch, tmp_path, variables)
    assert isinstance(role, FollowerRole)
    assert role.address.startswith((_FAR, "a:"))
    assert (len(said), role.is_quiet) == (num_said, not num_said)
    assert role.secret.hex() not in "".join(said) + repr(role)


def test_a_launcher_that_does_not_tell_where_the_others_are_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    role, said = _role(monkeypatch, tmp_path, _MPICH)
    assert type(role) is HostRole
    assert said == [
        "this job runs on several hosts, and each is watched alone: MPICH does not tell ranks where the others are; "
        "`paceline run -- ...` finds them"
    ]


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(roles, "_NEEDED", ("no_such_package",))
    role, said = _role(monkeypatch, tmp_path, _TORCH | {"MASTER_ADDR": _FAR})
    assert type(role) is HostRole
    assert said[0].endswith("pip install 'paceline[hosts]' on all of them")
