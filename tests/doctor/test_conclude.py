"""What is concluded from stacks, and what is not: values in, values out."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.doctor.conclude import conclude
from paceline.doctor.observed_job import Look, SeenJob, SeenRank
from paceline.doctor.stack_calls import find_position, is_worker, rank_in_stack
from paceline.process.native_stacks import Frame, Thread
from paceline.report.page.doctor_page import page_of_diagnosis, rank_stacks
from paceline.report.page.render import render_page
from paceline.report.text.doctor_text import diagnosis_as_text, doctor_as_json

USER = Frame(function="train", file="/home/me/job/train.py", line=37)
C10D = "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
LOGGER = "/env/lib/python3.11/site-packages/torch/distributed/c10d_logger.py"


def torch_frames(operation: str, line: int = 37, *, group: str = "", file: str = USER.file) -> tuple[Frame, ...]:
    return (
        Frame(function="c10d::Work::wait", file="/env/libtorch_cpu.so", line=0),
        Frame(function=operation, file=C10D, line=3245),
        Frame(function="_exception_logger.<locals>.wrapper", file=LOGGER, line=83,
              variables={"args": "(<Tensor at 0x7f>)", "kwargs": f"{{{group}}}"}),
        Frame(function="train", file=file, line=line),
    )  # fmt: skip


def mpi_frames(name: str, line: int = 6) -> tuple[Frame, ...]:
    return (
        Frame(function="sched_yield", file="/usr/lib/libc.so.6", line=0),
        Frame(function=f"PMPI_{name.capitalize()}", file="/env/lib/libmpi.so.12", line=0),
        Frame(function=name, file="/env/site-packages/mpi4py/MPI.mpich.cpython-311-x86_64-linux-gnu.so", line=0),
        Frame(function="step", file=USER.file, line=line),
    )


def seen(rank: int, frames: tuple[Frame, ...], before: tuple[Frame, ...] | None = None, **facts: str) -> SeenRank:
    def look(stack: tuple[Frame, ...], at: float) -> Look:
        return Look(
            threads=(Thread(name="MainThread", is_main=True, frames=stack),), at=at, processor_seconds=0.0,
            kernel_state=facts.get("state", "S"), kernel_wait=facts.get("wait", "futex_wait"),
        )  # fmt: skip

    return SeenRank(
        rank=rank, pid=100 + rank, first=look(before or frames, 0.0), second=look(frames, 2.0), cwd="/home/me/job"
    )


def job(*ranks: SeenRank, world_size: int | None = None, **facts: object) -> SeenJob:
    return SeenJob(name="torchrun", ranks=ranks, world_size=world_size or len(ranks), ranks_from="RANK", **facts)  # type: ignore[arg-type]


def test_ranks_in_different_collectives_are_a_finding_and_the_minority_is_named() -> None:
    stacks = [seen(rank, torch_frames("all_reduce")) for rank in range(3)]
    found = conclude(job(*stacks, seen(3, torch_frames("barrier", line=41)))).finding
    assert found is not None
    assert (found.kind, found.field, found.ranks) == ("mismatch", "operation", (3,))
    assert found.summary == (
        "rank 3 stands in barrier at train.py:41; ranks 0-2 in all_reduce at train.py:37: "
        "they are not in the same collective"
    )
    assert [(group.ranks, group.call, group.site, group.communicator) for group in found.groups] == [
        ((0, 1, 2), "all_reduce", "train.py:37", "WORLD"),
        ((3,), "barrier", "train.py:41", "WORLD"),
    ]


def test_with_a_rank_that_runs_only_calls_that_nobody_leaves_early_are_a_finding() -> None:
    runs = seen(2, (USER,), wait="hrtimer_nanosleep")
    certain = job(seen(0, torch_frames("all_reduce")), seen(1, torch_frames("barrier")), runs)
    assert conclude(certain).finding is not None
    root_waits = job(seen(0, torch_frames("reduce")), seen(1, torch_frames("barrier")), runs)
    assert conclude(root_waits).finding is None
    groups = job(
        seen(0, torch_frames("all_reduce", group='"group": <ProcessGroup>')), seen(1, torch_frames("barrier")), runs
    )
    assert conclude(groups).finding is None
    assert conclude(job(seen(0, mpi_frames("Barrier")), seen(1, mpi_frames("bcast")), runs)).finding is None


def test_a_rank_that_runs_is_late_and_no_finding() -> None:
    late = seen(2, (USER,), wait="hrtimer_nanosleep")
    found = conclude(job(seen(0, torch_frames("barrier")), seen(1, torch_frames("barrier")), late))
    assert found.finding is None
    assert "rank 2 runs, so it is late as far as can be seen, and ranks 0-1 wait" in found.says
    assert "whether a rank that runs will ever arrive" in found.cannot
    (running,) = [group for group in found.groups if group.state == "running"]
    assert (running.site, running.detail) == ("train.py:37", "sleeps; at the same line for 2.0 s")


def test_ranks_that_moved_between_the_looks_prove_nothing() -> None:
    moves = seen(1, torch_frames("barrier"), before=torch_frames("all_reduce"))
    found = conclude(job(seen(0, torch_frames("all_reduce")), moves))
    assert found.finding is None
    assert "rank 1 has moved between the two looks" in found.says


def test_the_same_operation_in_either_spelling_or_from_other_lines_is_no_finding() -> None:
    assert conclude(job(seen(0, mpi_frames("Bcast")), seen(1, mpi_frames("bcast")))).finding is None
    found = conclude(job(seen(0, torch_frames("all_reduce", 3)), seen(1, torch_frames("all_reduce", 5))))
    assert found.finding is None
    assert any("from different lines: that may be right" in text for text in found.says)


def test_the_same_line_on_different_ways_is_said() -> None:
    validates = (*torch_frames("all_reduce"), Frame(function="validate", file=USER.file, line=50))
    trains = (*torch_frames("all_reduce"), Frame(function="epoch", file=USER.file, line=40))
    found = conclude(job(seen(0, validates), seen(1, trains), seen(2, trains)))
    assert found.finding is None
    assert found.says == (
        "ranks are in all_reduce at train.py:37, reached in different ways: ranks 1-2 from train.py:40; rank 0 from "
        "train.py:50: that may be right",
    )
    shorter = conclude(job(seen(0, validates), seen(1, torch_frames("all_reduce"))))
    assert "rank 0 from train.py:50; rank 1 from no line" in shorter.says[0]


def test_a_rank_that_has_gone_while_all_others_stand_is_a_finding() -> None:
    stand = [seen(rank, mpi_frames("Barrier")) for rank in (0, 2)]
    found = conclude(job(*stand, world_size=3, missing=(1,))).finding
    assert found is not None
    assert (found.kind, found.ranks, found.cause) == ("peer-gone", (1,), "early-exit")
    assert found.summary == "rank 1 has exited, while ranks 0, 2 stand in Barrier at train.py:6"
    assert found.groups[-1].state == "exited"
    one_runs = job(stand[0], seen(2, (USER,)), world_size=3, missing=(1,))
    assert conclude(one_runs).finding is None


def test_nothing_is_concluded_where_not_all_is_seen() -> None:
    both = [seen(0, mpi_frames("Barrier")), seen(1, mpi_frames("bcast"))]
    assert conclude(job(*both)).finding is not None
    elsewhere = conclude(job(*both, world_size=4, num_elsewhere=2))
    assert elsewhere.finding is None
    assert "what 2 ranks on other machines do: look there too" in elsewhere.cannot
    assert conclude(job(*both, world_size=3, unseen={2: "process 9: no"})).finding is None


def exits(rank: int, *calls: str, frames: tuple[Frame, ...] | None = (), others: tuple[Thread, ...] = ()) -> SeenRank:
    """Return a rank whose main thread has entered these functions; without frames, one whose interpreter has gone."""
    main = (Thread(name="thread 7", is_main=True, frames=frames),) if frames is not None else ()
    look = Look(
        threads=(*main, *others), at=2.0, processor_seconds=0.0, kernel_state="S", kernel_wait="", exit_calls=calls
    )
    return SeenRank(rank=rank, pid=100 + rank, first=look, second=look, cwd="/home/me/job")


def test_a_rank_in_finalize_while_all_others_stand_is_a_finding() -> None:
    stand = [seen(rank, mpi_frames("Barrier")) for rank in range(2)]
    gone = exits(2, "Py_FinalizeEx", "MPI_Finalize", frames=None)
    found = conclude(job(*stand, gone))
    assert found.finding is not None
    assert (found.finding.kind, found.finding.ranks, found.finding.cause) == ("peer-gone", (2,), "early-exit")
    assert found.finding.summary == (
        "rank 2 has ended its script and is in MPI_Finalize, while ranks 0-1 stand in Barrier at train.py:6"
    )
    assert [(group.ranks, group.state) for group in found.groups] == [((0, 1), "blocked"), ((2,), "exited")]
    assert "whether a rank that runs will ever come" not in found.cannot
    called = (Frame(function="PMPI_Finalize", file="/env/lib/libmpi.so.12", line=0), USER)  # by the script itself
    found = conclude(job(*stand, seen(2, called)))
    assert found.finding is not None
    assert found.finding.summary == "rank 2 has called MPI_Finalize, while ranks 0-1 stand in Barrier at train.py:6"
    assert found.groups[-1].site == "train.py:37"


def test_all_ranks_that_exit_or_one_that_runs_are_no_finding() -> None:
    gone = [exits(rank, "Py_FinalizeEx", "MPI_Finalize", frames=None) for rank in range(2)]
    all_exit = conclude(job(*gone))
    assert all_exit.finding is None
    assert "ranks 0-1 have ended their scripts and are in MPI_Finalize" in all_exit.says
    one_runs = conclude(job(gone[0], seen(1, mpi_frames("Barrier")), seen(2, (USER,))))
    assert one_runs.finding is None
    assert "rank 0 has ended its script and is in MPI_Finalize" in one_runs.says
    moves = seen(1, mpi_frames("Barrier"), before=mpi_frames("Barrier", line=5))
    assert conclude(job(gone[0], moves)).finding is None


def test_where_most_have_left_nobody_is_accused() -> None:
    gone = [exits(rank, "Py_FinalizeEx", "MPI_Finalize", frames=None) for rank in (1, 2)]
    found = conclude(job(seen(0, mpi_frames("Barrier")), *gone))
    assert found.finding is not None
    assert found.finding.ranks == (0, 1, 2)
    assert found.finding.summary.startswith("ranks 1-2 have ended their scripts and are in MPI_Finalize, while rank 0")
    assert any(text.startswith("who is out of line") for text in found.cannot)
    assert "rank 0 makes a call that the others do not make" in found.finding.advice
    two = conclude(job(seen(0, mpi_frames("Barrier")), gone[0])).finding
    assert two is not None
    assert two.ranks == (0, 1)
    parted = [seen(0, mpi_frames("Barrier")), seen(3, mpi_frames("Allreduce")), seen(4, mpi_frames("Barrier"))]
    several = conclude(job(*parted, gone[0])).finding  # who was out of line first is not seen
    assert several is not None
    assert several.ranks == (0, 1, 3, 4)
    reduces = [seen(0, mpi_frames("reduce")), *(seen(rank, mpi_frames("Barrier")) for rank in (3, 4))]
    explained = conclude(job(*reduces, gone[0])).finding  # the root waits for the one that has left
    assert explained is not None
    assert explained.ranks == (1,)


def test_messages_are_a_finding_only_if_no_rank_is_left_that_could_match_them() -> None:
    gone = exits(2, "Py_FinalizeEx", "MPI_Finalize", frames=None)
    receives = [seen(rank, mpi_frames("recv")) for rank in range(2)]
    found = conclude(job(*receives, gone)).finding
    assert found is not None
    assert found.ranks == (2,)
    assert conclude(job(receives[0], seen(1, mpi_frames("send")), gone)).finding is None
    assert conclude(job(receives[0], seen(1, mpi_frames("Barrier")), gone)).finding is None
    assert conclude(job(receives[0], seen(1, mpi_frames("Waitall")), gone)).finding is None
    assert conclude(job(seen(0, mpi_frames("Waitall")), gone)).finding is not None


def test_where_ranks_stand_is_said_if_a_message_may_be_under_way() -> None:
    barrier = [seen(rank, mpi_frames("Barrier", line=9)) for rank in range(2)]
    found = conclude(job(*barrier, seen(2, mpi_frames("Recv"))))
    assert found.finding is None
    assert found.says == (
        "rank 2 stands in Recv at train.py:6; ranks 0-1 stand in Barrier at train.py:9, and none moves: "
        "suspicious, but not proof",
    )
    assert "between which ranks a message goes, and whether one is under way" in found.cannot
    found = conclude(job(*barrier))
    assert found.says == ("all that were seen are in Barrier at train.py:9; whether on the same group is not seen",)
    assert conclude(job(*barrier, seen(2, (USER,)))).says == (
        "rank 2 runs, so it is late as far as can be seen, and ranks 0-1 wait",
    )


def test_a_torch_rank_that_exits_has_left_unless_a_thread_of_it_is_at_work() -> None:
    stand = [seen(rank, torch_frames("all_reduce")) for rank in range(2)]
    handler = (Frame(function="save", file="/home/me/job/train.py", line=9),)
    at_exit = exits(2, "Py_FinalizeEx", frames=handler)
    found = conclude(job(*stand, at_exit))
    assert found.finding is not None
    assert found.finding.ranks == (2,)
    assert found.finding.summary.startswith("rank 2 has ended its script and is exiting, while ranks 0-1 stand in")
    assert found.groups[-1].site == "train.py:9"
    thread = Thread(name="Thread-1", is_main=False, frames=torch_frames("all_reduce"))
    shutdown = Frame(function="_shutdown", file="/usr/lib/python3.11/threading.py", line=1590)
    waits = exits(2, "Py_FinalizeEx", frames=(shutdown,), others=(thread,))
    found = conclude(job(*stand, waits))
    assert found.finding is None
    assert "its thread Thread-1 is not; its thread Thread-1 is in all_reduce" in found.groups[-1].detail
    tqdm = Thread(name="tqdm", is_main=False, frames=(Frame(function="run", file="/e/site-packages/tqdm.py", line=9),))
    assert conclude(job(*stand, exits(2, "Py_FinalizeEx", frames=(), others=(tqdm,)))).finding is not None
    child = exits(
        2, frames=(Frame(function="_exit_function", file="/usr/lib/python3.11/multiprocessing/util.py", line=3),)
    )
    assert conclude(job(*stand, child)).finding is not None


def test_the_end_of_ddps_reduction_is_a_collective_and_what_comes_before_may_be_computing() -> None:
    def backward(function: str) -> tuple[Frame, ...]:
        return (Frame(function=function, file="/env/libtorch_cpu.so", line=0), USER)

    waits = [seen(rank, backward("c10d::Reducer::finalize_backward")) for rank in range(2)]
    found = conclude(job(*waits, seen(2, torch_frames("barrier")))).finding
    assert found is not None
    assert found.ranks == (2,)
    computes = seen(1, backward("c10d::Reducer::autograd_hook"))
    assert conclude(job(waits[0], computes, seen(2, torch_frames("barrier")))).finding is None


def test_a_collective_that_is_made_at_exit_is_a_call_like_others() -> None:
    at_exit = exits(1, "Py_FinalizeEx", frames=torch_frames("barrier"))
    assert conclude(job(seen(0, torch_frames("barrier")), at_exit)).finding is None
    found = conclude(job(seen(0, torch_frames("all_reduce")), at_exit)).finding
    assert found is not None
    assert found.kind == "mismatch"


@pytest.mark.parametrize(("group", "is_finding"), [("None", True), ("<ProcessGroup at 0x7f>", False)])
def test_taking_down_all_groups_is_leaving_and_taking_down_one_is_not(group: str, is_finding: bool) -> None:
    ends = (Frame(function="destroy_process_group", file=C10D, line=2140, variables={"group": group}), USER)
    found = conclude(job(*[seen(rank, torch_frames("all_reduce")) for rank in range(2)], seen(2, ends)))
    assert (found.finding is not None) is is_finding


def test_nobody_is_accused_where_ranks_may_leave_a_call_early() -> None:
    """The root of a gather waits for one that did not come; the others have passed it, and are right."""
    after = [seen(rank, mpi_frames("Barrier")) for rank in range(1, 4)]
    found = conclude(job(seen(0, mpi_frames("gather")), *after))
    assert found.finding is not None
    assert found.finding.ranks == (0, 1, 2, 3)
    assert any(text.startswith("who is out of line") for text in found.cannot)
    several = [seen(rank, mpi_frames("Allreduce")) for rank in range(3)]
    two = conclude(job(*several, seen(3, mpi_frames("Barrier")), seen(4, mpi_frames("Allgather")))).finding
    assert two is not None
    assert two.ranks == (3, 4)


@pytest.mark.parametrize(
    ("function", "call"),
    [("c10d::Work::wait", "wait"), ("c10d::ProcessGroupNCCL::WorkNCCL::synchronizeInternal", "wait"),
     ("c10d::Reducer::finalize_backward", "DDP's reduction"), ("ncclAllReduce", "ncclAllReduce"),
     ("cudaStreamSynchronize", "GPU"), ("MPI_Recv", "Recv"), ("PMPI_Allreduce_c", "Allreduce")],
)  # fmt: skip
def test_native_frames_name_what_a_rank_is_in(function: str, call: str) -> None:
    frames = (Frame(function=function, file="/env/lib/libsome.so", line=0), USER)
    found = find_position(seen(0, frames))
    assert (found.call, found.site) == (call, "train.py:37")


def test_workers_are_no_ranks_and_variables_name_ranks() -> None:
    worker = Frame(function="_worker_loop", file="/env/site-packages/torch/utils/data/_utils/worker.py", line=3)
    assert is_worker(Thread(name="MainThread", is_main=True, frames=(worker,)))
    assert not is_worker(Thread(name="MainThread", is_main=True, frames=(USER,)))
    spawned = Frame(
        function="_wrap", file="/e/site-packages/torch/multiprocessing/spawn.py", line=9, variables={"i": "3"}
    )
    own = Frame(function="work", file=USER.file, line=2, variables={"rank": "5", "i": "9"})
    other = Frame(function="work", file=USER.file, line=2, variables={"rank": '"5"'})
    assert [rank_in_stack(Thread(name="", is_main=True, frames=(frame,))) for frame in (spawned, own, other)] == [
        3,
        5,
        None,
    ]


def test_hostile_names_are_shown_as_text_and_kept_as_they_are_in_json() -> None:
    file = "/home/me/job/\x1b]0;owned\x07[bold]x\n.py"
    found = conclude(job(seen(0, torch_frames("all_reduce", file=file)), seen(1, torch_frames("barrier"))))
    text = diagnosis_as_text(found)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\\x1b]0;owned\\x07[bold]x\\n.py:37" in text
    told = doctor_as_json(90, [found], None)
    assert told["jobs"][0]["stacks"][0]["threads"][0]["frames"][-1]["file"] == file
    assert told["finding"]["groups"][0]["call"] == "all_reduce"


def test_a_page_shows_groups_with_their_source_and_what_cannot_be_said(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("".join(f"line_{number} = '<b>'\n" for number in range(1, 60)))
    file = str(tmp_path / "train.py")
    stacks = [seen(rank, torch_frames("all_reduce", file=file)) for rank in range(3)]
    diagnosis = conclude(job(*stacks, seen(3, torch_frames("barrier", line=41, file=file))))
    page = page_of_diagnosis(diagnosis)
    assert page.verdict is not None
    assert [(group.ranks, group.is_out_of_line) for group in page.verdict.groups] == [
        ("ranks 0-2", False), ("rank 3", True),
    ]  # fmt: skip
    assert [line.text for line in page.verdict.groups[1].source if line.is_site] == ["line_41 = '<b>'"]
    html = render_page(page)
    assert "line_41 = &#39;&lt;b&gt;&#39;" in html
    assert "they are not in the same collective" in html
    assert "Cannot say which iteration this is" in html
    running = conclude(job(seen(0, torch_frames("barrier")), seen(1, (USER,))))
    assert "Nothing is provably out of line." in render_page(page_of_diagnosis(running))


def test_stacks_on_a_page_are_short_and_shared_by_ranks_at_the_same_lines() -> None:
    nameless = [Frame(function=f"0x7f{rank}", file="/usr/lib/libc.so.6", line=0) for rank in range(3)]
    ranks = [seen(rank, (nameless[rank], *torch_frames("barrier"))) for rank in range(3)]
    (stacks,) = rank_stacks(ranks)
    assert stacks.ranks == "ranks 0-2"
    (thread,) = stacks.threads
    assert [(frame.function, frame.place) for frame in thread.frames] == [
        ("c10d::Work::wait", "libtorch_cpu.so"),
        ("barrier", "torch/distributed/distributed_c10d.py:3245"),
        ("_exception_logger.<locals>.wrapper", "torch/distributed/c10d_logger.py:83"),
        ("train", "train.py:37"),
    ]
