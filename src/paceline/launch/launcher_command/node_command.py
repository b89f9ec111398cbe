"""What a command says that is given once on each node, or once for each rank: where those meet that belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import PurePath
from typing import NamedTuple

from paceline.launch.launcher_command.host_lists import expand_hosts
from paceline.process.launchers import (
    LAUNCHER_COMMANDS,
    LAUNCHER_MODULES,
    LAUNCHER_PROGRAMS,
    TORCHRUN,
    launched_rank,
)

_PORT = 29500  # of torchrun, if none is given
# options of torchrun without a value
_FLAGS = ("standalone", "no_python", "run_path", "m", "module", "h", "help", "virtual_local_rank", "use_env")


class NodeMeeting(NamedTuple):
    """Where the nodes of a job meet.

    Attributes:
        num_nodes: How many there are, at most.
        host: Where they meet.
        port: At which port.
        job: The job's own name, as far as it has one.
    """

    num_nodes: int
    host: str
    port: int
    job: str


class StepTask(NamedTuple):
    """One of the tasks of a step of Slurm, each of which is a rank that has a command of its own.

    Attributes:
        hosts: Where the tasks run, in the order in which Slurm numbers them.
        step: What is equal for all tasks of the step, and for no others.
        is_first: Whether this is the first task of the first host.
        number: Which task it is.
    """

    hosts: tuple[str, ...]
    step: str
    is_first: bool
    number: str


def step_task(command: Sequence[str], environ: Mapping[str, str]) -> StepTask | None:
    """Return which task of a step a command is that srun has started for each rank; None if it is another command.

    >>> environ = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_JOB_ID": "7",
    ...            "SLURM_STEP_ID": "0", "SLURM_NODEID": "0", "SLURM_LOCALID": "1", "SLURM_PROCID": "1"}
    >>> step_task(["python", "train.py"], environ)
    StepTask(hosts=('n1', 'n2'), step='7.0', is_first=False, number='1')
    >>> step_task(["torchrun", "train.py"], environ) is None, step_task(["python", "train.py"], {}) is None
    (True, True)
    """
    size, hosts = environ.get("SLURM_STEP_NUM_TASKS", ""), expand_hosts(environ.get("SLURM_STEP_NODELIST", ""))
    if not size.isdecimal() or int(size) < 2 or not hosts or has_launcher(command):
        return None
    step = f"{environ.get('SLURM_JOB_ID', '')}.{environ.get('SLURM_STEP_ID', '')}"
    first = [environ.get(name) for name in ("SLURM_NODEID", "SLURM_LOCALID")]
    return StepTask(tuple(hosts), step, first == ["0", "0"], environ.get("SLURM_PROCID", ""))


def rank_meeting(environ: Mapping[str, str]) -> NodeMeeting | StepTask | str | None:
    """Return where the hosts of a rank's job meet, by the variables of its launcher.

    None if all ranks are on this host, as far as it is known; the name of the launcher if it does not say where.

    >>> environ = {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "n1", "MASTER_PORT": "29400"}
    >>> rank_meeting(environ)
    NodeMeeting(num_nodes=2, host='n1', port=29400, job='ranks  ')
    >>> rank_meeting({**environ, "LOCAL_WORLD_SIZE": "4"}) is None
    True
    >>> rank_meeting({"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "2"})
    'MPICH'

    Raises:
        InputError: What should be a number is not one.
    """
    place = launched_rank(environ)
    if place is None or place.world_size is None:
        return None
    hosts = expand_hosts(environ.get("SLURM_STEP_NODELIST", ""))
    host, port = environ.get("MASTER_ADDR", ""), environ.get("MASTER_PORT", "")
    is_spread = place.local_size is not None and place.local_size < place.world_size
    if place.launcher is TORCHRUN and is_spread and host:
        job = " ".join(["ranks", *(environ.get(f"TORCHELASTIC_{name}", "") for name in ("RUN_ID", "RESTART_COUNT"))])
        num_nodes = -(-place.world_size // max(1, place.local_size or 1))
        return NodeMeeting(num_nodes, host, int(port) if port.isdecimal() else _PORT, job)
    if place.launcher is not TORCHRUN and len(hosts) > 1:
        node = environ.get("SLURM_NODEID", "")
        step = f"ranks {environ.get('SLURM_JOB_ID', '')}.{environ.get('SLURM_STEP_ID', '')}"
        return StepTask(tuple(hosts), step, node == "0", node)
    return place.launcher.name if is_spread else None


def has_launcher(command: Sequence[str]) -> bool:
    """Say whether a launcher starts the script of a command; words after the script are the script's.

    >>> has_launcher(["torchrun", "train.py"]), has_launcher(["python", "train.py", "mpiexec"])
    (True, False)
    """
    return any(map(_is_launcher, takewhile(lambda word: not word.endswith(".py"), command)))


def _is_launcher(word: str) -> bool:
    return PurePath(word).name in LAUNCHER_COMMANDS or word in LAUNCHER_MODULES


def node_meeting(command: Sequence[str], environ: Mapping[str, str]) -> NodeMeeting | None:
    """Return where the nodes of a torchrun meet; None if it runs on one node, or is another command.

    >>> node_meeting(["torchrun", "--nnodes", "2", "--rdzv-endpoint=n1:29400", "train.py"], {})
    NodeMeeting(num_nodes=2, host='n1', port=29400, job='')
    >>> node_meeting(["torchrun", "--nnodes=1:4", "--master_addr", "n1", "train.py"], {})
    NodeMeeting(num_nodes=4, host='n1', port=29500, job='')
    >>> node_meeting(["torchrun", "train.py", "--nnodes", "4", "--master-addr", "n1"], {}) is None
    True
    >>> node_meeting(["srun", "torchrun", "--nnodes", "2", "--master-addr", "n1", "train.py"], {}) is None
    True
    """
    at = next((at for at, word in enumerate(command) if _is_torchrun(word)), None)
    if at is None or any(_starts_first(word) for word in command[:at]):
        return None
    options = _options(command[at + 1 :])

    def value(name: str) -> str:
        return options.get(name, environ.get(f"PET_{name.upper()}", ""))

    if "standalone" in options or value("standalone") == "1":
        return None
    nodes = value("nnodes").rpartition(":")[2]
    num_nodes = int(nodes) if nodes.isdecimal() else 1
    host, port = _endpoint(value("rdzv_endpoint"))
    if not host:
        host, port = value("master_addr"), ""
    host, port = host.strip("[]"), port or value("master_port")
    if num_nodes < 2 or not host:
        return None
    return NodeMeeting(num_nodes, host, int(port) if port.isdecimal() else _PORT, value("rdzv_id"))


def _is_torchrun(word: str) -> bool:
    return PurePath(word).name == "torchrun" or word in LAUNCHER_MODULES[:2]


def _starts_first(word: str) -> bool:
    """Say whether a word before torchrun is one that starts it on all nodes, or a script that has it as a word."""
    return PurePath(word).name in LAUNCHER_PROGRAMS or word.endswith(".py")


def _endpoint(text: str) -> tuple[str, str]:
    """Return host and port; an address of IPv6 with a port has brackets."""
    if text.endswith("]") or ":" not in text:
        return text, ""
    host, _, port = text.rpartition(":")
    return host, port


def _options(words: Sequence[str]) -> dict[str, str]:
    """Return the options of torchrun with their values, by name with underscores; those of its script are not."""
    found: dict[str, str] = {}
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "--":
        name, has_value, value = words[at].lstrip("-").partition("=")
        name = name.replace("-", "_")
        takes_next = not has_value and name not in _FLAGS
        found[name] = "".join(words[at + 1 : at + 2]) if takes_next else value
        at += 1 + takes_next
    return found
