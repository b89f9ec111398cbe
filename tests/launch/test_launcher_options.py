"""The options that we take launchers to have are those that the real programs tell of in their help."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.launch.launcher_command.launcher_words import launcher_options
from paceline.launch.launcher_command.node_command import node_meeting

_BIN = Path(sys.executable).parent
# options of MPICH without a value: its help does not tell which they are
_MPICH_FLAGS = [
    "genvnone", "genvall", "envnone", "envall", "enable-x", "disable-x", "disable-auto-cleanup",
    "disable-hostname-propagation", "hybrid-hosts", "info", "pmi-port", "prepend-rank", "print-all-exitcodes",
    "profile", "skip-launch-node", "verbose",
]  # fmt: skip


def test_every_option_of_mpich_is_known() -> None:
    mpiexec = _BIN / "mpiexec"
    asked = subprocess.run([mpiexec, "-help"], capture_output=True, text=True, timeout=60, check=False)
    text = asked.stdout + asked.stderr
    if "HYDRA" not in subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False).stdout:
        pytest.skip("this environment has another MPI")
    names = [name for line in re.findall(r"^ +(-\S+)", text, flags=re.MULTILINE) for name in line.split("/")]
    assert len(names) > 40
    for name in names:
        has_value = name.lstrip("-") not in _MPICH_FLAGS
        words = [
            "mpiexec",
            name,
            *(["1", "2"] if name.endswith("env") else ["1"] * has_value),
            "-hosts",
            "n1",
            "python",
        ]
        assert launcher_options(words)[-1][:2] == ("hosts", "n1"), f"{name} is not known as it is"


def test_every_option_of_torchrun_is_known() -> None:
    run = pytest.importorskip("torch.distributed.run")
    options = [action for action in run.get_args_parser()._actions if action.option_strings]
    assert len(options) > 20
    for action in options:
        for name in action.option_strings:
            if action.dest not in ("help", "nnodes", "standalone"):
                words = [
                    "torchrun",
                    name,
                    *([] if action.nargs == 0 else ["1"]),
                    "--nnodes=2",
                    "--master-addr=n1",
                    "x.py",
                ]
                meeting = node_meeting(words, {})
                assert meeting is not None, f"{name} is not known as it is"
                assert meeting.num_nodes == 2


@pytest.mark.parametrize(
    ("words", "num_options"), [("-s all -n 2 python", 2), ("-s -n 2 python", 2), ("-s ./a -n 2", 1)]
)
def test_an_option_that_has_a_value_in_one_mpi_only_is_read_by_what_follows(words: str, num_options: int) -> None:
    assert len(launcher_options(["mpirun", *words.split()])) == num_options
