"""What a command makes of this process: alone without a port, the head, or one that follows a head elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.guard.hosts.keys import port_of
from paceline.guard.run.run_folder import watched_environment
from paceline.guard.run.several_hosts import host_role as roles
from paceline.guard.run.several_hosts.host_role import FollowerRole, HeadRole, HostRole, host_role
from paceline.guard.run.watch_options import WatchOptions
from paceline.launch.launcher_command import handing_on, host_names

_FAR = "192.0.2.7"  # of documentation: it is nobody's


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))  # a cluster of Ray may run on this machine
    for name in (
        "SLURM_JOB_NODELIST",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_EXPORT_ENV",
        "PACELINE_KEY",
        "PET_NNODES",
        "RAY_ADDRESS",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(host_names, "own_addresses", lambda hosts: ["127.0.0.1"])


def _end(role: HeadRole) -> int:
    """Close the ports of a head; return that of viewers."""
    assert role.viewers is not None
    port = role.viewers.listening.getsockname()[1]
    role.close()
    return int(port)


def _role(command: str) -> tuple[HostRole, list[str]]:
    said: list[str] = []
    return host_role(command.split(), WatchOptions(on_unseen=said.append)), said


@pytest.mark.parametrize(
    "command",
    [
        "mpiexec -n 4 python train.py",
        "mpiexec -host localhost -n 4 python train.py",
        "mpiexec -n 4 python train.py --host far.example",
        "torchrun --nproc-per-node 2 train.py",
        "torchrun --nnodes 1 --master-addr 192.0.2.7 train.py",
        "python train.py --nnodes 2 --master-addr 192.0.2.7",
    ],
)
def test_a_job_on_one_machine_opens_no_port_and_says_nothing(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "_head", lambda *args: pytest.fail("a port was opened"))
    monkeypatch.setattr(roles, "_node_role", lambda *args: pytest.fail("a port was opened"))
    role, said = _role(command)
    assert type(role) is HostRole
    assert (list(role.command), role.variables, said) == (command.split(), {}, [])


@pytest.mark.parametrize("command", [f"mpiexec -hosts {_FAR},localhost python train.py", "srun python train.py"])
def test_a_launcher_that_starts_ranks_elsewhere_makes_a_head(command: str) -> None:
    role, said = _role(command)
    assert isinstance(role, HeadRole)
    port = role.listening.getsockname()[1]
    look_on = f"to look on: paceline watch 127.0.0.1:{_end(role)}"
    assert said == [f"watching other hosts through 127.0.0.1:{port} (encrypted, with a key of this run); {look_on}"]
    assert role.variables["PACELINE_HEAD"] == f"127.0.0.1:{port}"
    assert role.variables["PACELINE_KEY"] == role.secret.hex()
    assert role.secret.hex() not in repr(role) + "".join(said)


def test_names_are_added_to_what_srun_hands_on_and_no_value() -> None:
    role, _ = _role("srun --export=PATH,HOME python train.py")
    assert isinstance(role, HeadRole)
    _end(role)
    assert role.command[1].startswith("--export=PATH,HOME,PACELINE_HEAD,PACELINE_KEY,")
    assert role.secret.hex() not in role.command[1]


def _as_task(monkeypatch: pytest.MonkeyPatch, *, node: int, task: int, hosts: str = f"localhost,{_FAR}") -> None:
    known = {"JOB_ID": "7", "STEP_ID": "0", "STEP_NUM_TASKS": "4", "STEP_NODELIST": hosts, "JOB_NODELIST": hosts}
    for name, value in (known | {"NODEID": str(node), "LOCALID": str(task)}).items():
        monkeypatch.setenv(f"SLURM_{name}", value)


def test_the_first_task_of_a_step_is_the_head_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_names, "own_address", lambda name: "127.0.0.1")
    _as_task(monkeypatch, node=0, task=0)
    head, said = _role("python train.py")
    assert isinstance(head, HeadRole)
    look_on = f"to look on: paceline watch localhost:{_end(head)}"
    assert said == [f"watching the other tasks of this step through {head.address} (encrypted); {look_on}"]
    for node, task in ((0, 1), (1, 0), (1, 1)):
        _as_task(monkeypatch, node=node, task=task)
        role, said = _role("python train.py")
        assert isinstance(role, FollowerRole)
        assert (role.address, role.secret, role.is_quiet, said) == (head.address, head.secret, True, [])


def test_tasks_of_one_host_meet_where_nobody_else_can_reach_them(monkeypatch: pytest.MonkeyPatch) -> None:
    _as_task(monkeypatch, node=0, task=0, hosts="n1")
    role, _ = _role("python train.py")
    assert isinstance(role, HeadRole)
    listening = role.listening.getsockname()
    assert role.viewers is not None
    assert role.viewers.listening.getsockname()[0] == "127.0.0.1"
    _end(role)
    assert listening == ("127.0.0.1", port_of(role.secret))


def test_a_launcher_within_a_task_has_ranks_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    _as_task(monkeypatch, node=1, task=0)
    role, said = _role("torchrun --nproc-per-node 2 train.py")
    assert (type(role), said) == (HostRole, [])


def test_nodes_that_meet_elsewhere_follow_the_head_there() -> None:
    role, said = _role(f"torchrun --nnodes 2 --rdzv-endpoint {_FAR}:29400 train.py")
    assert isinstance(role, FollowerRole)
    port = port_of(role.secret)
    assert role.address == f"{_FAR}:{port}"
    assert said == [f"the ranks of this host are judged with all others by Paceline at {_FAR}:{port} (encrypted)"]


@pytest.mark.parametrize("port", [29400, 29500, 65535])
def test_the_port_of_the_head_is_not_one_that_another_job_may_take(port: int) -> None:
    role, _ = _role(f"torchrun --nnodes 2 --rdzv-endpoint {_FAR}:{port} train.py")
    assert isinstance(role, FollowerRole)
    again, _ = _role(f"torchrun --nnodes 2 --rdzv-endpoint {_FAR}:{port} train.py")
    assert isinstance(again, FollowerRole)
    assert again.address == role.address
    assert 20_000 <= int(role.address.rpartition(":")[2]) < 28_000


@pytest.mark.parametrize("error", [OverflowError("port must be 0-65535"), ImportError("zmq is broken"), OSError("no")])
def test_what_goes_wrong_before_the_job_does_not_stop_it(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> HostRole:
        raise error

    monkeypatch.setattr(roles, "_head", fail)
    role, said = _role(f"mpiexec -hosts {_FAR} python train.py")
    assert type(role) is HostRole
    assert said == [f"this job runs on several hosts, and each is watched alone: {error}"]


def test_without_the_extra_the_job_runs_and_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "find_spec", lambda name: None)
    role, said = _role(f"mpiexec -hosts {_FAR} python train.py")
    assert type(role) is HostRole
    assert len(said) == 1
    assert "pip install 'paceline[hosts]'" in said[0]


def test_a_key_that_cannot_be_used_does_not_stop_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_KEY", "not a key")
    role, said = _role(f"torchrun --nnodes 2 --rdzv-endpoint {_FAR}:29400 train.py")
    assert type(role) is HostRole
    assert "each is watched alone: PACELINE_KEY is not a key" in said[0]


@pytest.mark.parametrize(
    "command",
    [
        "srun python train.py --export=onnx",
        "srun ./run.sh --export onnx,tf",
        f"mpiexec -hosts {_FAR} python train.py --export=onnx",
        "srun --export=ALL python train.py",
    ],
)
def test_arguments_of_the_script_stay_as_they_are(command: str) -> None:
    role, _ = _role(command)
    assert isinstance(role, HeadRole)
    _end(role)
    assert list(role.command) == command.split()


@pytest.mark.parametrize("value", ["NONE", "NIL"])
def test_names_are_all_that_srun_hands_on_if_it_would_hand_on_none(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_EXPORT_ENV", value)
    role, _ = _role(f"srun --export={value} python train.py")
    assert isinstance(role, HeadRole)
    _end(role)
    assert role.command[1].startswith("--export=PACELINE_HEAD,PACELINE_KEY,")
    assert role.variables["SLURM_EXPORT_ENV"] == role.command[1].removeprefix("--export=")


def test_names_are_added_to_a_list_that_is_a_word_of_its_own() -> None:
    role, _ = _role("srun --export PATH,HOME python train.py")
    assert isinstance(role, HeadRole)
    _end(role)
    assert role.command[2].startswith("PATH,HOME,PACELINE_HEAD,PACELINE_KEY,")
    assert list(role.command[3:]) == ["python", "train.py"]


def test_an_option_of_the_program_is_not_one_of_open_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handing_on, "open_mpi_version", lambda program: 4)
    role, _ = _role(f"mpirun --host {_FAR} python train.py -x 3")
    assert isinstance(role, HeadRole)
    _end(role)
    assert list(role.command) == ["mpirun", "--host", _FAR, "python", "train.py", "-x", "3"]
    assert "PACELINE_KEY" in role.variables["OMPI_MCA_mca_base_env_list"].split(";")


@pytest.mark.parametrize("version", [4, 5])
def test_open_mpi_is_given_names_in_the_way_that_fits_the_options_of_the_command(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 4 aborts a job that has both a list and such an option. It takes no name twice with two values."""
    monkeypatch.setattr(handing_on, "open_mpi_version", lambda program: version)
    role, _ = _role(f"mpirun --host {_FAR} -x PYTHONPATH=lib -x PATH python train.py")
    assert isinstance(role, HeadRole)
    _end(role)
    named = [role.command[at + 1] for at, word in enumerate(role.command) if word == "-x"]
    assert ("OMPI_MCA_mca_base_env_list" in role.variables) is (version == 5)
    assert ("PACELINE_KEY" in named) is (version == 4)
    assert [name for name in named if name.startswith("PYTHONPATH")] == ["PYTHONPATH=lib"]
    assert not any(value in word for word in role.command for value in (role.secret.hex(),))


@pytest.mark.parametrize("job", ["", "17"])
def test_ranks_are_told_of_which_batch_job_the_run_is(job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PBS_JOBID", raising=False)
    monkeypatch.delenv("LSB_JOBID", raising=False)
    monkeypatch.setenv("SLURM_JOB_ID", job)
    role, _ = _role("srun --export=PATH python train.py")
    assert isinstance(role, HeadRole)
    _end(role)
    assert role.variables.get("PACELINE_BATCH_JOB") == (f"SLURM_JOB_ID={job}" if job else None)
    assert ("PACELINE_BATCH_JOB" in role.command[1]) is bool(job)


def test_a_new_run_does_not_hand_on_the_head_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACELINE_HEAD", "n1:1")
    monkeypatch.setenv("PACELINE_BATCH_JOB", "SLURM_JOB_ID=16")
    environment = watched_environment(tmp_path)
    assert not {"PACELINE_HEAD", "PACELINE_BATCH_JOB"} & environment.keys()
