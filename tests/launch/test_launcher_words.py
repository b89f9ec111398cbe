"""Which words of a command belong to its launcher, and which to the program that it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.launch.launcher_command.host_names import named_hosts
from paceline.launch.launcher_command.launcher_words import launcher_elsewhere, launcher_options
from paceline.launch.launcher_command.node_command import NodeMeeting, node_meeting


@pytest.mark.parametrize(
    "command",
    [
        "mpiexec -n 4 apptainer exec -H /scratch/me img.sif python t.py",
        "mpiexec -n 4 ./run.sh -f cfg.toml",
        "mpirun -np 4 --mca btl tcp,self -x PATH ./solver -hosts n1,n2",
        "mpiexec -genv A=1 -env B 2 -n 2 ./solver --host n1",
        "mpiexec -n 1 ./a --host n1 : -n 2 ./b --host n2",
        "srun -H -n 4 python train.py",
        "srun --export ALL ./run.sh -w n1",
    ],
)
def test_options_of_the_program_name_no_hosts(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cfg.toml").write_text("nodes\nhost n1\n")
    assert named_hosts(command.split(), {}) == []
    assert launcher_elsewhere(command.split()) in (None, "srun")


@pytest.mark.parametrize(
    ("command", "hosts"),
    [
        ("mpiexec -genv A 1 -env B=2 -bind-to core -hosts n1,n2 ./solver", ["n1", "n2"]),
        ("mpirun --mca btl tcp --oversubscribe --host n1:2,n2:2 ./solver", ["n1", "n2"]),
        ("mpiexec -n 1 -host n1 ./a : -n 2 -host n2 ./b", ["n1", "n2"]),
        ("mpiexec -f hosts.txt ./solver", ["n1", "n2"]),
        ("mpirun -H /scratch,n1 ./solver", ["n1"]),
        ("srun -l -wn[1-2] ./solver", ["n1", "n2"]),
        ("srun --nodelist n1 --cpu-bind=none ./solver", ["n1"]),
        ("srun --nodelist=./hosts.txt ./solver", ["n1", "n2"]),
        ("nice srun -F hosts.txt ./solver", ["n1", "n2"]),
    ],
)
def test_options_of_the_launcher_name_hosts(
    command: str, hosts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts.txt").write_text("n1:2\nn2 slots=2\n[section]\n")
    assert named_hosts(command.split(), {}) == hosts


def test_a_launcher_among_the_words_of_a_script_starts_nothing() -> None:
    command = ["python", "train.py", "--launcher", "srun", "-w", "n1"]
    assert launcher_options(command) == []
    assert launcher_elsewhere(command) is None


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --nproc-per-node 2 train.py --nnodes 4 --master-addr n1",
        "torchrun --nproc-per-node=2 -m trainer --nnodes 4 --master-addr n1",
        "torchrun --no-python ./run.sh --nnodes 4 --master-addr n1",
        "torchrun -- train.py --nnodes 4 --master-addr n1",
        "torchrun --standalone --nnodes 2 --master-addr n1 train.py",
        "python train.py torchrun --nnodes 4 --master-addr n1",
    ],
)
def test_words_of_the_script_do_not_make_torchrun_run_on_several_nodes(command: str) -> None:
    assert node_meeting(command.split(), {}) is None


def test_standalone_means_one_node_whatever_the_environment_says() -> None:
    environ = {"PET_NNODES": "2", "PET_MASTER_ADDR": "n1"}
    assert node_meeting(["torchrun", "train.py"], environ) == NodeMeeting(2, "n1", 29500, "")
    assert node_meeting(["torchrun", "--standalone", "train.py"], environ) is None
    assert node_meeting(["torchrun", "train.py"], {**environ, "PET_STANDALONE": "1"}) is None


@pytest.mark.parametrize(
    ("options", "host", "port"),
    [
        ("--rdzv-endpoint [fd00::1]:29400", "fd00::1", 29400),
        ("--rdzv-endpoint=[fd00::1]", "fd00::1", 29500),
        ("--master-addr [fd00::1] --master-port 5000", "fd00::1", 5000),
        ("--no-python --rdzv_endpoint n1:29400", "n1", 29400),
        ("-r 3 -t 3 --rdzv-endpoint n1 --master_port 5000", "n1", 5000),
    ],
)
def test_nodes_meet_where_the_options_of_torchrun_say(options: str, host: str, port: int) -> None:
    command = f"torchrun --nnodes 2 {options} train.py --master-addr other".split()
    assert node_meeting(command, {}) == NodeMeeting(2, host, port, "")
