"""The compiled forms of torch.distributed's functions record and raise as those in Python do, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.guard.test_compiled_calls import END, run_script

# One process is taken for rank 0 of two: so there is a board, and another member that can be there before it.
BEGIN = """
    import inspect, json, os, pickle, threading
    from pathlib import Path
    from paceline.guard.rank.hooks import arrive

    folder = Path(os.environ["RECORDS"])
    arrive(folder)
    import torch
    import torch.distributed as dist
    from paceline.guard.rank.call_recorder import Recorder
    from paceline.guard.rank.torch.torch_module import WATCH
    from paceline.guard.rank.watched_process import SESSION
    from paceline.guard.shared_memory.operations import BY_NAME

    said = []

    def say(*values):
        said.append(list(map(str, values)))

    def attempt(call, *args, **named):
        try:
            value = call(*args, **named)
            say(call.__name__, "returned", value if isinstance(value, (int, float, str, type(None))) else type(value))
            return value
        except BaseException as error:
            say(call.__name__, type(error).__name__, getattr(error, "_paceline_call", None))

    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    (watch,) = WATCH
    recorder = SESSION.recorder
    """
CALLS = """
    class Odd:
        def __init__(self, error):
            self.error = error

        def numel(self):
            return 1

        @property
        def dtype(self):
            raise self.error

    one, other = torch.ones(4), torch.empty(4)
    group = dist.new_group([0])
    whole = dist.group.WORLD
    for _ in range(2):
        attempt(dist.all_reduce, torch.ones(4, device="meta"))
        attempt(dist.all_reduce, torch.nn.Parameter(one, requires_grad=False))
        attempt(dist.barrier)
        attempt(dist.barrier, whole)
        attempt(dist.barrier, group=group)
        attempt(dist.barrier, 3)
        attempt(dist.barrier, wrong=3)
        kinds = torch.ones(3, dtype=torch.bfloat16), torch.ones(2, 2, dtype=torch.int8).T, torch.empty(0)
        odd = torch.eye(3).to_sparse(), torch.ones(2, dtype=torch.complex64), torch.zeros(2, dtype=torch.bool)
        for tensor in (one, *kinds, *odd, 3, None, "x", [one]):
            attempt(dist.all_reduce, tensor)
            attempt(dist.broadcast, tensor, 0)
            attempt(dist.all_reduce, tensor, group=group)
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.AVG, None, "x", 3):
            attempt(dist.all_reduce, one, op)
            attempt(dist.all_reduce, one, op=op, group=whole)
            attempt(dist.reduce, one, 0, op)
        for root in (0, 1, -1, 2**40, "x", None, 0.0):
            attempt(dist.broadcast, one, root)
            attempt(dist.broadcast, one, src=root, group=group)
            attempt(dist.broadcast, one, group_src=root)
            attempt(dist.reduce, one, dst=root, op=dist.ReduceOp.MIN)
            attempt(dist.reduce, one, 0, dist.ReduceOp.MIN, whole, False, root)
            attempt(dist.gather, one, [other], root)
            attempt(dist.gather, one, gather_list=[other], dst=root)
            attempt(dist.scatter, other, [one], src=root, group=group)
            attempt(dist.scatter, other, scatter_list=[one], group_src=root)
        parameter = torch.nn.Parameter(torch.ones(4), requires_grad=False)
        for given in (torch.ones(4, dtype=torch.int16), parameter, one):
            attempt(dist.all_gather_into_tensor, torch.empty_like(given), given)
            attempt(dist.all_gather_into_tensor, torch.empty_like(given), input_tensor=given)
            attempt(dist.reduce_scatter_tensor, torch.empty_like(given), given)
            attempt(dist.reduce_scatter_tensor, torch.empty_like(given), given, dist.ReduceOp.MAX, group=whole)
        attempt(dist.all_gather_into_tensor, torch.empty(8), one)  # sizes that differ show which of them is recorded
        attempt(dist.reduce_scatter_tensor, torch.empty(8), one)
        for later in (False, 0, None):
            attempt(dist.all_reduce, one, dist.ReduceOp.SUM, None, later)
            attempt(dist.all_reduce, one, async_op=later)
            attempt(dist.barrier, None, later)
        attempt(dist.all_reduce, tensor=one)
        attempt(dist.all_reduce, one, tensor=one)
        attempt(dist.all_reduce, one, dist.ReduceOp.SUM, op=dist.ReduceOp.SUM)
        attempt(dist.all_reduce, one, group=[])
        for error in (KeyboardInterrupt(), ValueError(), AttributeError()):
            attempt(dist.all_reduce, Odd(error))
        written = dist.all_reduce(one, async_op=True)
        attempt(dist.broadcast, one[:2], 0)  # while the work writes to the same memory
        attempt(written.wait)
        attempt(dist.all_gather, [other], one)
        attempt(dist.all_gather_object, [None], {"a": 1})
        attempt(dist.broadcast_object_list, [1])
        attempt(dist.all_to_all_single, other, one)
        for started in (dist.all_reduce(one, async_op=True), dist.barrier(async_op=True)):
            attempt(started.wait)
        attempt(dist.all_reduce)
        attempt(dist.all_reduce, one, async_op=1)
        attempt(dist.monitored_barrier)
        say(watch.inside.depth)
    dist.destroy_process_group(group)
    attempt(dist.all_reduce, one, group=group)

    def in_a_thread():
        dist.all_reduce(one)
        say(watch.inside.depth)

    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join()
    watch.inside.depth += 1  # as inside of another call
    dist.all_reduce(one)
    watch.inside.depth -= 1
    say(dist.all_reduce.__name__, inspect.isfunction(dist.all_reduce), inspect.signature(dist.all_reduce))
    say(pickle.loads(pickle.dumps(dist.all_reduce)) is dist.all_reduce)
    dist.destroy_process_group()
    """
# The other member calls broadcast where we call barrier, and reduces twice as much.
DIFFERENCES = """
    two = recorder.communicator("torch-two", "two", range(2), 0)
    watch.world = two
    real_stop = recorder.stop

    def stop(*told):
        say("stop", *told)
        real_stop(*told)

    recorder.stop = stop
    there = Recorder(folder, "other.0.1", rank=1, world_size=2, carrier="torch")
    there._worlds["torch"] = two.identity.rpartition(".")[0]
    theirs = there.communicator("torch-two", "two", range(2), 1)
    broadcast, all_reduce = BY_NAME["torch.broadcast"].code, BY_NAME["torch.all_reduce"].code
    there.begin_collective(theirs, broadcast, 0, 0, 13, 32, 4, depth=1)
    for num_bytes in (32, 16, 16):
        there.begin_collective(theirs, all_reduce, -1, 1, 12, num_bytes, num_bytes // 4, depth=1)
    dist.barrier()
    for _ in range(3):
        dist.all_reduce(torch.ones(4))
    """

# torch 2.13 may abort a process whose groups live on to its end
AT_ONCE = """
    import sys
    sys.stdout.flush()
    os._exit(0)
    """


@pytest.mark.timeout(600)
@pytest.mark.parametrize("program", [CALLS, DIFFERENCES])
def test_compiled_calls_of_torch_leave_the_same_bytes_and_raise_the_same(tmp_path: Path, program: str) -> None:
    (said, left), (said_in_python, left_in_python) = (
        run_script(tmp_path, name, (BEGIN, program, END, AT_ONCE), in_python)
        for name, in_python in (("compiled", ""), ("python", "1"))
    )
    assert said == said_in_python
    assert left.keys() == left_in_python.keys()
    assert any(name.startswith("ring.") for name in left)
    for name in left:
        assert left[name] == left_in_python[name], name
