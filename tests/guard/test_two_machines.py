"""Jobs on two machines, of which each judge sees one: nobody is accused falsely, and it is said who is not watched.

The machines are this one twice, with shared memory of its own for the second. Only root may give it that.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.programs  # real jobs, one after the other

_DEADLINE = 120.0
_MPIEXEC = Path(sys.executable).with_name("mpiexec")  # MPICH, as the development environment has it
_FIRST, _SECOND = "127.0.0.2", "127.0.0.3"

# as hydra calls rsh: options, the host, the command
REMOTE_SHELL = f"""#!/bin/sh
    while [ "${{1#-}}" != "$1" ]; do shift; done
    host=$1; shift
    [ "$host" = {_FIRST} ] && exec sh -c "$*"
    exec unshare -m sh -c 'mount -t tmpfs tmpfs /dev/shm && exec sh -c "$*"' sh "$@"
    """

MISMATCH = """
    import sys
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    world.Barrier()
    if world.rank == int(sys.argv[1]):
        world.bcast(1, root=0)
    else:
        world.allreduce(1)
    world.Barrier()
    """
CORRECT = """
    import sys
    from mpi4py import MPI
    from paceline.guard.rank.watched_process import launcher_name
    import os
    MPI.COMM_WORLD.Barrier()
    names = MPI.COMM_WORLD.allgather(launcher_name(os.environ))
    sys.exit(len(set(names)) - 1)
    """
ONE_RAISES = """
    import sys
    from mpi4py import MPI
    if MPI.COMM_WORLD.rank == int(sys.argv[1]):
        raise ValueError("no")
    MPI.COMM_WORLD.Barrier()
    """

ONE_IS_KILLED = """
    import os, signal, sys
    from mpi4py import MPI
    MPI.COMM_WORLD.Barrier()
    if MPI.COMM_WORLD.rank == int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
    MPI.COMM_WORLD.Barrier()
    """


@pytest.fixture
def remote_shell(tmp_path: Path) -> Path:
    own = ["unshare", "-m", "true"]
    if os.geteuid() != 0 or subprocess.run(own, capture_output=True, check=False).returncode:
        pytest.skip("jobs on two machines are NOT tested: this needs root, for shared memory of the second machine")
    path = tmp_path / "rsh"
    path.write_text(textwrap.dedent(REMOTE_SHELL.replace("#!/bin/sh\n", "    #!/bin/sh\n", 1)))
    path.chmod(0o700)
    return path


def _run(shell: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = shell.with_name("train.py")
    script.write_text(textwrap.dedent(program))
    hosts = ["-launcher", "rsh", "-launcher-exec", str(shell), "-hosts", f"{_FIRST}:2,{_SECOND}:2"]
    launcher = [str(_MPIEXEC), *hosts, "-n", "4", sys.executable, str(script), *arguments]
    return subprocess.run(
        [sys.executable, "-m", "paceline", "run", "--timeout", "20", "--", *launcher],
        cwd=shell.parent, capture_output=True, text=True, timeout=_DEADLINE, check=False,
    )  # fmt: skip


def test_a_correct_job_has_one_name_on_all_machines_and_ends_as_without_us(remote_shell: Path) -> None:
    done = _run(remote_shell, CORRECT)
    assert (done.returncode, done.stderr) == (0, "")


def test_calls_that_differ_on_the_other_machine_are_not_laid_to_those_who_wait(remote_shell: Path) -> None:
    done = _run(remote_shell, MISMATCH, "3")
    assert done.returncode == 90  # by the time limit
    told = [line for line in done.stderr.splitlines() if line.startswith("paceline: ranks 2-3 of 4 are not seen")]
    assert len(told) == 1, done.stderr
    assert "has started 2 of 4 ranks on this machine" in told[0]
    assert "fell out of line" not in done.stderr


def test_ranks_that_differ_on_this_machine_are_told_and_neither_is_accused(remote_shell: Path) -> None:
    done = _run(remote_shell, MISMATCH, "1")
    assert done.returncode == 90
    assert "ranks 0-1 do not fit together at call 2 on WORLD" in done.stderr
    assert "ranks 2-3 are not seen from here, so who is out of line cannot be told" in done.stderr
    assert "rank 0 calls allreduce at train.py:9, rank 1 calls bcast at train.py:7" in done.stderr


def test_ranks_that_are_killed_for_one_elsewhere_are_not_named(remote_shell: Path) -> None:
    done = _run(remote_shell, ONE_IS_KILLED, "3")
    assert done.returncode not in (0, 90), done.stderr
    assert "ranks 2-3 of 4 are not seen from here" in done.stderr


def test_a_rank_that_raises_here_is_named(remote_shell: Path) -> None:
    done = _run(remote_shell, ONE_RAISES, "1")
    assert done.returncode == 90, done.stderr
    assert "rank 1 raised at train.py:5 (ValueError: no)" in done.stderr
