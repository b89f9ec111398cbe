"""What a command says that is given once on each node: how many nodes there are, and where they meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple

from paceline.process.launchers import LAUNCHER_MODULES, LAUNCHER_PROGRAMS

_PORT = 29500  # of torchrun, if none is given


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


def node_meeting(command: Sequence[str], environ: Mapping[str, str]) -> NodeMeeting | None:
    """Return where the nodes of a torchrun meet; None if it runs on one node, or is another command.

    >>> node_meeting(["torchrun", "--nnodes", "2", "--rdzv-endpoint=n1:29400", "train.py"], {})
    NodeMeeting(num_nodes=2, host='n1', port=29400, job='')
    >>> node_meeting(["torchrun", "--nnodes=1:4", "--master_addr", "n1", "train.py"], {})
    NodeMeeting(num_nodes=4, host='n1', port=29500, job='')
    >>> node_meeting(["torchrun", "--nproc-per-node", "2", "train.py"], {}) is None
    True
    >>> node_meeting(["srun", "torchrun", "--nnodes", "2", "--master-addr", "n1", "train.py"], {}) is None
    True
    """
    at = next((at for at, word in enumerate(command) if _is_torchrun(word)), None)
    if at is None or any(PurePath(word).name in LAUNCHER_PROGRAMS for word in command[:at]):
        return None  # srun and others start it on all nodes
    options = _options(command[at + 1 :])

    def value(name: str) -> str:
        return options.get(name, environ.get(f"PET_{name.upper()}", ""))

    nodes = value("nnodes").rpartition(":")[2]
    num_nodes = int(nodes) if nodes.isdecimal() else 1
    host, _, port = value("rdzv_endpoint").rpartition(":")
    if not host:  # without a port, or not there at all
        host, port = port or value("master_addr"), value("master_port")
    if num_nodes < 2 or not host:
        return None
    return NodeMeeting(num_nodes, host, int(port) if port.isdecimal() else _PORT, value("rdzv_id"))


def _is_torchrun(word: str) -> bool:
    return PurePath(word).name == "torchrun" or word in LAUNCHER_MODULES[:2]


def _options(words: Sequence[str]) -> dict[str, str]:
    """Return the options of torchrun with their values, by name with underscores."""
    found: dict[str, str] = {}
    for number, word in enumerate(words):
        if word.startswith("--"):
            name, has_value, value = word[2:].partition("=")
            follows = words[number + 1] if number + 1 < len(words) else ""
            found.setdefault(name.replace("-", "_"), value if has_value else follows)
    return found
