"""Real mpi4py programs under `paceline run`: broken ones are diagnosed, correct ones run as they do without it.

A broken program marks the lines of which at least one must be named with `# <- here`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from paceline.launch.mpi_leftovers import mpi_files_now, remove_mpi_leftovers
from paceline.launch.mpiexec import find_mpiexec

pytestmark = pytest.mark.programs

_PROGRAMS = Path(__file__).parent / "programs" / "mpi"
_HERE = "# <- here"
_DEADLINE_SECONDS = 60.0
_INPUT = "alpha beta\ngamma\n"
_LEAVES_SEGMENTS = {"aborts"}  # without the guard MPICH leaves shared memory behind, so these run one after the other
_ANY = None  # ranks that the interface leaves open


@dataclass(frozen=True, slots=True)
class Broken:
    """A program that must be diagnosed, and what must be found."""

    name: str
    world_size: int
    kind: str | tuple[str, ...]
    field: str | tuple[str | None, ...] | None
    ranks: tuple[tuple[int, ...], ...] | None  # accepted lists; None: any that is not empty
    cause: str | None = None  # None: several words for it are right

    @property
    def id(self) -> str:
        return f"{self.name}-{self.world_size}"


_TIE = ((0, 1), (0,), (1,))

_BROKEN = [
    # the same position of a communicator called differently
    Broken("barrier_against_reduce", 2, "mismatch", "operation", _TIE, "rank-conditional-call"),
    Broken("barrier_against_reduce", 4, "mismatch", "operation", ((1,),), "rank-conditional-call"),
    Broken("barrier_through_another_object", 3, "mismatch", "operation", ((1,),), "rank-conditional-call"),
    Broken("bcast_against_reduce", 3, "mismatch", "operation", ((0,),)),
    Broken("pickled_bcast_against_gather", 3, "mismatch", "operation", ((0,),)),
    Broken("ibarrier_against_iallreduce", 2, "mismatch", "operation", _TIE),
    Broken("persistent_collectives_differ", 3, "mismatch", "operation", ((2,),)),
    Broken("bcast_roots_differ", 4, "mismatch", "root", ((3,),), "root"),
    Broken("reduce_roots_differ", 3, "mismatch", "root", ((2,),), "root"),
    Broken("sum_against_prod", 2, "mismatch", "reduction", _TIE, "reduction"),
    Broken("sum_against_prod", 7, "mismatch", "reduction", ((0,),), "reduction"),
    Broken("float32_against_float64", 3, "mismatch", "dtype", ((2,),), "dtype"),
    Broken("allreduce_counts_differ", 4, "mismatch", "count", ((1,),), "shape"),
    Broken("allgather_counts_differ", 4, "mismatch", "count", ((3,),), "shape"),
    Broken("split_without_one_rank", 3, "mismatch", "operation", ((2,),), "rank-conditional-call"),
    # uneven steps and shifted barriers
    Broken("one_step_less_then_exit", 3, "peer-gone", None, ((2,),), "uneven-steps"),
    Broken("one_step_less_then_gather", 4, "mismatch", "operation", ((3,),), "uneven-steps"),
    Broken("ceil_of_the_share", 7, "mismatch", "operation", ((6,),), "uneven-steps"),
    Broken("early_stop_on_one_rank", 3, "mismatch", "operation", ((2,),), "uneven-steps"),
    Broken("skipped_batch", 3, "mismatch", "operation", ((1,),)),
    Broken("shifted_barrier", 3, "mismatch", "operation", ((0,),), "rank-conditional-call"),
    Broken("shifted_barrier_under_if", 4, "mismatch", "operation", ((0,),), "rank-conditional-call"),
    # some ranks call, the others have left
    Broken("allreduce_on_even_ranks", 7, "peer-gone", None, ((1, 3, 5),)),
    Broken("barrier_on_rank_0_only", 3, "peer-gone", None, ((0,),), "rank-conditional-call"),
    Broken("create_group_without_one_member", 4, "peer-gone", None, ((3,),)),
    Broken("exception_before_barrier", 2, "peer-gone", None, ((1,),), "exception"),
    Broken("exception_before_barrier", 7, "peer-gone", None, ((1,),), "exception"),
    Broken("exception_under_a_hook", 3, "peer-gone", None, ((1,),), "exception"),
    Broken("sys_exit_before_barrier", 3, "peer-gone", None, ((1,),), "early-exit"),
    Broken("os_exit_before_barrier", 2, "peer-gone", None, ((1,),), "early-exit"),
    Broken("os_exit_before_barrier", 4, "peer-gone", None, ((1,),), "early-exit"),
    Broken("killed_before_barrier", 4, "peer-gone", None, ((1,),), "killed"),
    Broken("crashed_before_barrier", 3, "peer-gone", None, ((2,),), "killed"),
    Broken("disk_is_full", 3, "peer-gone", None, ((0,),), "disk-full"),
    Broken("file_is_too_large", 3, "peer-gone", None, ((0,),), "disk-full"),
    Broken("memory_is_full", 2, "peer-gone", None, ((1,),), "out-of-memory"),
    Broken("array_does_not_fit", 3, "peer-gone", None, ((1,),), "out-of-memory"),
    # ranks that wait for each other
    Broken("crossed_duplicates", 4, "deadlock", "communicator", ((0,),), "call-order"),
    Broken("crossed_split_and_world", 4, "deadlock", "communicator", ((1,),), "call-order"),
    Broken("receive_before_send", 2, "deadlock", None, ((0, 1),), "receive-receive"),
    Broken("large_send_before_receive", 3, "deadlock", None, ((0, 1, 2),), "send-send"),
    Broken("ssend_to_itself", 2, "deadlock", None, ((0, 1),), "send-send"),
    Broken("one_receive_for_all", 4, "deadlock", None, ((0,),), "send-without-receive"),
    Broken("barrier_against_recv", 3, "deadlock", None, ((0,),), "receive-without-send"),
    Broken("probe_without_send", 3, "deadlock", None, ((0,),), "receive-without-send"),
    Broken("waitall_for_nothing", 3, "deadlock", None, ((0,),), "receive-without-send"),
    # messages that do not fit
    Broken("wrong_tag", 2, "message", "tag", ((0, 1), (0,)), "wrong-tag"),
    Broken("wrong_source", 3, "message", "source", ((0, 1), (0,)), "wrong-source"),
    Broken("wrong_source_told_later", 3, "message", "source", ((1, 2), (2,)), "wrong-source"),
    Broken("persistent_tags_differ", 4, "message", "tag", ((0, 1), (0,), (1,)), "wrong-tag"),
    Broken("message_of_another_dtype", 2, "message", "dtype", ((0, 1),), "dtype"),
    Broken("truncated_receive", 2, "message", "count", ((0, 1),), "truncated"),
    Broken("truncated_irecv", 3, "message", "count", ((0, 1),), "truncated"),
    Broken("object_receive_of_a_buffer", 3, ("peer-gone", "message"), (None, "dtype"), ((1,), (0, 1))),
    Broken("ring_with_a_wrong_neighbour", 4, "message", "source", ((0, 3), (0,))),
    Broken("sent_on_the_world_received_on_a_copy", 3, "message", "communicator", ((0, 1), (1,))),
    # peers that do not exist
    Broken("no_such_destination", 3, "argument", "source", ((2,),)),
    Broken("no_such_root", 4, "argument", "root", _ANY),
]

_CORRECT = {
    "sleeping_straggler": 3,
    "computing_straggler": 3,
    "writing_straggler": 4,
    "same_barrier_from_different_lines": 4,
    "farm": 4,
    "root_far_ahead": 3,
    "poll_with_iprobe": 3,
    "poll_with_test": 3,
    "time_out_of_its_own": 2,
    "early_finisher": 3,
    "caught_mpi_error": 2,
    "caught_python_error": 3,
    "subprocesses": 2,
    "multiprocessing_fork": 3,
    "multiprocessing_spawn": 2,
    "threads_with_their_own_communicators": 2,
    "thread_that_sends_later": 2,
    "buffer_collectives": 3,
    "uneven_collectives": 3,
    "empty_buffers_of_another_type": 3,
    "types_by_pairs": 4,
    "object_collectives": 4,
    "nonblocking_collectives": 3,
    "persistent_requests": 3,
    "communicators": 4,
    "many_communicators": 3,
    "more_communicators_than_are_kept": 3,
    "one_communicator_by_several_objects": 3,
    "classes_stay_what_they_are": 1,
    "halo_exchange": 4,
    "numbers_and_names": 3,
    "counts_per_block": 3,
    "threads_of_every_kind": 2,
    "sendrecv_ring": 4,
    "matched_probe": 3,
    "probe_of_message": 2,
    "small_send_before_receive": 2,
    "large_messages": 3,
    "derived_datatypes": 3,
    "bytes_for_floats": 2,
    "buffered_and_ready_sends": 2,
    "object_requests": 3,
    "cancelled_receive": 2,
    "one_sided": 3,
    "shared_file": 2,
    "intercommunicator": 4,
    "world_of_one": 3,
    "many_tags": 2,
    "many_requests": 2,
    "finalizes_by_itself": 3,
    "all_exit_with_3": 3,
    "exits_at_once": 2,
    "all_raise": 2,
    "aborts": 3,
    "prints_much": 7,
    "reads_input": 4,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended."""

    exit_code: int
    out: str
    err: str
    left: list[str]  # folders of Open MPI's launcher


class _Running:
    """A command that was started in a folder of its own."""

    def __init__(self, command: list[str], folder: Path) -> None:
        folder.mkdir()
        self._out, self._err = folder / "out.txt", folder / "err.txt"
        (folder / "in.txt").write_text(_INPUT)
        environment = dict(os.environ)
        # two launchers of Open MPI that start at the same moment must not share a folder; its paths must be short
        self._session = tempfile.TemporaryDirectory(prefix="pl", dir="/tmp", ignore_cleanup_errors=True)
        environment["TMPDIR"] = self._session.name
        with open(folder / "in.txt") as given, open(self._out, "wb") as out, open(self._err, "wb") as err:
            self._process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=given, stdout=out, stderr=err, start_new_session=True
            )

    def wait(self) -> Ended:
        try:
            code = self._process.wait(timeout=_DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()
            pytest.fail(f"did not end in {_DEADLINE_SECONDS:.0f} s: {self._err.read_text(errors='replace')}")
        left = [path.name for path in Path(self._session.name).glob("ompi.*")]
        self._session.cleanup()
        return Ended(exit_code=code, out=_text(self._out), err=_text(self._err), left=left)

    def _kill(self) -> None:
        process = psutil.Process(self._process.pid)
        for one in [process, *process.children(recursive=True)]:
            one.kill()
        self._process.wait()
        self._session.cleanup()


def _text(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")


def _without_numbers(text: str) -> list[str]:
    """Return the lines that a library has written, without its process ids."""
    return sorted(re.sub(r"\d+", "#", line) for line in text.splitlines())


def _job(program: Path, world_size: int) -> list[str]:
    return [*find_mpiexec().command(world_size, clean_up=True), sys.executable, str(program)]


def _watched(program: Path, world_size: int, told: Path) -> list[str]:
    # on a machine that is busy with other work ranks may wait long, which is told but is no finding
    guard = [sys.executable, "-m", "paceline", "run", "--json", str(told), "--notice", "100"]
    return [*guard, "--", *_job(program, world_size)]


def _run_both(program: Path, world_size: int, told: Path) -> tuple[Ended, Ended]:
    """Run a program under the guard and without it: at the same time, so that the guard has to bear a load."""
    running = _Running(_watched(program, world_size, told), told.parent / "watched")
    alone = program.stem in _LEAVES_SEGMENTS
    watched = running.wait() if alone else None
    before = mpi_files_now()
    bare = _Running(_job(program, world_size), told.parent / "bare").wait()
    if watched is not None:
        _wait_until_nobody_works_in(told.parent / "bare")  # while a rank goes, it still holds its shared memory
        remove_mpi_leftovers(before)
        return watched, bare
    return running.wait(), bare


def _wait_until_nobody_works_in(folder: Path) -> None:
    """Wait for ranks that are killed and not gone yet: a launcher may end before they do."""
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while any(_works_in(path, folder) for path in Path("/proc").glob("[0-9]*/cwd")):
        assert time.monotonic() < deadline, f"ranks of {folder} do not go"
        time.sleep(0.02)


def _works_in(link: Path, folder: Path) -> bool:
    try:
        return os.readlink(link) == str(folder)
    except OSError:
        return False  # it has gone


def _marked_lines(program: Path) -> set[str]:
    lines = program.read_text().splitlines()
    return {f"{program.name}:{number}" for number, line in enumerate(lines, start=1) if _HERE in line}


def _named_lines(finding: dict[str, Any]) -> set[str]:
    groups = finding["groups"] + (finding["divergence"] or {"groups": []})["groups"]
    return {Path(group["site"]).name for group in groups if group["site"]}


def _one_of(value: str | tuple[str | None, ...] | None) -> tuple[str | None, ...]:
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("case", _BROKEN, ids=lambda case: case.id)
def test_a_broken_program_ends_with_a_finding_that_names_ranks_and_line(case: Broken, tmp_path: Path) -> None:
    program, told = _PROGRAMS / "broken" / f"{case.name}.py", tmp_path / "told.json"
    begun = time.monotonic()
    ended = _Running(_watched(program, case.world_size, told), tmp_path / "watched").wait()
    assert ended.exit_code == 90, ended.err
    assert ended.left == []
    outcome = json.loads(told.read_text())
    assert (outcome["version"], outcome["outcome"], outcome["exit_code"]) == (1, "finding", 90)
    finding = outcome["finding"]
    assert finding["kind"] in _one_of(case.kind), ended.err
    assert finding["field"] in _one_of(case.field), ended.err
    if case.ranks is not None:
        assert tuple(finding["ranks"]) in case.ranks, ended.err
    assert finding["ranks"], ended.err
    if case.cause is not None:
        assert finding["cause"] == case.cause, ended.err
    assert _named_lines(finding) & _marked_lines(program), ended.err
    assert finding["summary"] in ended.err
    assert finding["advice"] in ended.err
    assert 0 <= finding["latency_ms"] < (time.monotonic() - begun) * 1000


@pytest.mark.parametrize("name", _CORRECT)
def test_a_correct_program_runs_as_it_does_without_the_guard(name: str, tmp_path: Path) -> None:
    program, told, world_size = _PROGRAMS / "correct" / f"{name}.py", tmp_path / "told.json", _CORRECT[name]
    watched, bare = _run_both(program, world_size, told)
    assert watched.exit_code == bare.exit_code, watched.err
    assert sorted(watched.out.splitlines()) == sorted(bare.out.splitlines()), watched.err
    said = [line for line in watched.err.splitlines() if line.startswith("paceline:")]
    if bare.exit_code == 0:
        assert not said
        assert _without_numbers(watched.err) == _without_numbers(bare.err)
    else:
        assert all("no rank fell out of line" in line for line in said), watched.err
    outcome = json.loads(told.read_text())
    assert outcome["outcome"] == ("failed" if bare.exit_code else "ok")
    assert outcome["exit_code"] == bare.exit_code
    assert outcome["finding"] is None


def test_every_program_is_tested() -> None:
    assert {case.name for case in _BROKEN} == {path.stem for path in (_PROGRAMS / "broken").glob("*.py")}
    assert set(_CORRECT) == {path.stem for path in (_PROGRAMS / "correct").glob("*.py")}
    unmarked = [case.name for case in _BROKEN if not _marked_lines(_PROGRAMS / "broken" / f"{case.name}.py")]
    assert not unmarked


def test_no_program_knows_of_paceline() -> None:
    assert not [path.name for path in _PROGRAMS.rglob("*.py") if "paceline" in path.read_text()]
