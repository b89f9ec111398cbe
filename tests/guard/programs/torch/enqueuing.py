"""Runs a program of gloo on a backend that only enqueues, as NCCL does: `python enqueuing.py PROGRAM [ARGUMENTS...]`.

It takes NCCL's place where there is no GPU:

- A call returns once it is enqueued. The wait of its work does not block: it puts what the rank enqueues later behind
  that call, as a wait of NCCL does on the current stream. Only the wait for a barrier blocks, as NCCL's does.
- Collectives of one group are carried out in order, and so are the messages between two ranks. Tags are ignored.
- Reading a value (`item`, `tolist`, ...) waits until everything enqueued has been carried out, and so does the exit of
  the process. So does `synchronize()`.
- A call whose partner has gone never completes, as a kernel of NCCL keeps spinning.

Threads of this process carry the calls out with gloo. What the program computes with a result before it reads a value
may be wrong, because only communication waits in the stream. The dispatcher does not tell which reduction a call asks
for, so DDP's own calls and functional ones are sums.
"""

import atexit
import queue
import runpy
import sys
import threading

import torch
import torch.distributed as dist

NAME = "enqueuing"
_c10d = torch.distributed.distributed_c10d


class EnqueuedWork(dist.Work):
    """A call that was enqueued."""

    def __init__(self, result, *, blocks):
        super().__init__()
        self.done, self.blocks, self.result_of = threading.Event(), blocks, result

    def wait(self, timeout=None):
        if self.blocks or STREAM.reads:
            self.done.wait()
        else:
            STREAM.waited.append(self)
        return True

    def is_completed(self):
        return self.done.is_set()

    def is_success(self):
        return self.done.is_set()

    def get_future(self):  # of NCCL too it is complete for the host, and its value comes with the stream
        STREAM.waited.append(self)
        future = torch.futures.Future()
        future.set_result(self.result_of)
        return future

    def result(self):
        return self.result_of


class Stream:
    """Carries out what is enqueued: a thread for each group, and for each pair of ranks that exchange messages."""

    def __init__(self):
        self.waited = []  # what is enqueued next comes after these
        self.enqueued = []
        self.reads = False  # whether the program reads in C++ what it waits for
        self.queues = {}

    def enqueue(self, key, start, result, *, blocks=False):
        work = EnqueuedWork(result, blocks=blocks)
        self.waited = [earlier for earlier in self.waited if not earlier.done.is_set()]
        self.enqueued = [*(earlier for earlier in self.enqueued if not earlier.done.is_set()), work]
        if key not in self.queues:
            self.queues[key] = queue.SimpleQueue()
            threading.Thread(target=self.carry_out, args=(self.queues[key],), daemon=True).start()
        self.queues[key].put((work, tuple(self.waited), start))
        return work

    def carry_out(self, calls):
        while True:
            work, after, start = calls.get()
            for earlier in after:
                earlier.done.wait()
            try:
                started = start()
                if started is not None:
                    started.wait()
            except RuntimeError:  # the partner has gone
                return
            work.done.set()

    def synchronize(self):
        for work in self.enqueued:
            work.done.wait()


STREAM = Stream()
synchronize = STREAM.synchronize


class _Reduction(threading.local):
    """The reduction of the call that this thread makes: the dispatcher's kernels cannot read theirs."""

    op = dist.ReduceOp.SUM


REDUCTION = _Reduction()


def _keep_reduction(name):
    original = getattr(dist.ProcessGroup, name)

    def call(self, *args, **named):
        options = next((each for each in args if hasattr(each, "reduceOp")), None)
        REDUCTION.op = options.reduceOp if options is not None else dist.ReduceOp.SUM
        try:
            return original(self, *args, **named)
        finally:
            REDUCTION.op = dist.ReduceOp.SUM

    setattr(dist.ProcessGroup, name, call)


def _options(kind, **fields):
    options = kind()
    for name, value in fields.items():
        setattr(options, name, value)
    return options


def _backend(group):
    return dist.ProcessGroup.unbox(group)._get_backend(torch.device("cpu"))


def _enqueue(group, start, result, *, peer=None, blocks=False):
    backend = _backend(group)
    key = (id(backend), peer)
    return STREAM.enqueue(key, lambda: start(backend), result, blocks=blocks).boxed()


def _allreduce(tensors, group, op, sparse, async_op=True, timeout=-1):
    options = _options(_c10d.AllreduceOptions, reduceOp=REDUCTION.op)
    return tensors, _enqueue(group, lambda backend: backend.allreduce(tensors, options), tensors)


def _allreduce_coalesced(tensors, group, op, async_op=True, timeout=-1):
    options = _options(_c10d.AllreduceCoalescedOptions, reduceOp=REDUCTION.op)
    return _enqueue(group, lambda backend: backend.allreduce_coalesced(tensors, options), tensors)


def _broadcast(tensors, group, root, root_tensor, async_op=True, timeout=-1):
    options = _options(_c10d.BroadcastOptions, rootRank=root, rootTensor=root_tensor)
    return tensors, _enqueue(group, lambda backend: backend.broadcast(tensors, options), tensors)


def _reduce(tensors, group, op, root, root_tensor, async_op=True, timeout=-1):
    options = _options(_c10d.ReduceOptions, reduceOp=REDUCTION.op, rootRank=root, rootTensor=root_tensor)
    return _enqueue(group, lambda backend: backend.reduce(tensors, options), tensors)


def _allgather(outputs, inputs, group, async_op=True, timeout=-1):
    return outputs, _enqueue(group, lambda backend: backend.allgather(outputs, inputs), outputs)


def _allgather_base(output, tensor, group, async_op=True, timeout=-1):
    return output, _enqueue(group, lambda backend: backend._allgather_base(output, tensor), output)


def _reduce_scatter(outputs, inputs, group, op, async_op=True, timeout=-1):
    options = _options(_c10d.ReduceScatterOptions, reduceOp=REDUCTION.op)
    return outputs, _enqueue(group, lambda backend: backend.reduce_scatter(outputs, inputs, options), outputs)


def _reduce_scatter_base(output, tensor, group, op, async_op=True, timeout=-1):
    options = _options(_c10d.ReduceScatterOptions, reduceOp=REDUCTION.op)
    return output, _enqueue(group, lambda backend: backend._reduce_scatter_base(output, tensor, options), output)


def _alltoall_base(output, tensor, group, output_sizes, input_sizes, async_op=True, timeout=-1):
    def start(backend):
        return backend.alltoall_base(output, tensor, output_sizes, input_sizes, _c10d.AllToAllOptions())

    return _enqueue(group, start, output)


def _alltoall(outputs, inputs, group, async_op=True, timeout=-1):
    return outputs, _enqueue(group, lambda backend: backend.alltoall(outputs, inputs, _c10d.AllToAllOptions()), outputs)


def _gather(outputs, inputs, group, root, async_op=True, timeout=-1):
    options = _options(_c10d.GatherOptions, rootRank=root)
    return _enqueue(group, lambda backend: backend.gather(outputs, inputs, options), outputs)


def _scatter(outputs, inputs, group, root, async_op=True, timeout=-1):
    options = _options(_c10d.ScatterOptions, rootRank=root)
    return outputs, _enqueue(group, lambda backend: backend.scatter(outputs, inputs, options), outputs)


def _barrier(tensor, group, device_ids, async_op=True, timeout=-1):
    return _enqueue(group, lambda backend: backend.barrier(), [], blocks=True)


def _send(tensors, group, peer, tag):
    return _enqueue(group, lambda backend: backend.send(tensors, peer, 0), tensors, peer=peer)


def _receive(tensors, group, peer, tag):
    return _enqueue(group, lambda backend: backend.recv(tensors, peer, 0), tensors, peer=peer)


KERNELS = {
    "allreduce_": _allreduce, "allreduce_coalesced_": _allreduce_coalesced, "broadcast_": _broadcast,
    "reduce_": _reduce, "allgather_": _allgather, "_allgather_base_": _allgather_base,
    "reduce_scatter_": _reduce_scatter, "_reduce_scatter_base_": _reduce_scatter_base,
    "alltoall_": _alltoall, "alltoall_base_": _alltoall_base, "gather_": _gather, "scatter_": _scatter,
    "barrier": _barrier, "send": _send, "recv_": _receive,
}  # fmt: skip


def _after_stream(function):
    def read(*args, **named):
        synchronize()
        return function(*args, **named)

    return read


def _reading(function):
    def call(*args, **named):
        STREAM.reads = True
        try:
            return function(*args, **named)
        finally:
            STREAM.reads = False

    return call


def _make_backend(store, rank, size, timeout):
    return dist.ProcessGroupGloo(store, rank, size, timeout=timeout)


def _started_with(function):
    def call(backend=None, *args, **named):
        return function(NAME if backend in (None, "gloo") else backend, *args, **named)

    return call


def install():
    """Put the backend in the place of gloo, and let values be read only when they are there."""
    dist.Backend.register_backend(NAME, _make_backend, devices=["cpu"])
    library = torch.library.Library("c10d", "IMPL")
    for name, kernel in KERNELS.items():
        library.impl(name, kernel, "CPU", allow_override=True)
    for name in ("allreduce", "allreduce_coalesced", "reduce", "reduce_scatter", "_reduce_scatter_base"):
        _keep_reduction(name)
    torch.sum = _after_stream(torch.sum)  # collectives of objects add up sizes that have come
    for name in ("item", "tolist", "numpy", "__bool__", "__int__", "__index__", "__float__", "__repr__"):
        setattr(torch.Tensor, name, _after_stream(getattr(torch.Tensor, name)))
    dist._verify_params_across_processes = _reading(dist._verify_params_across_processes)  # of DDP
    dist.destroy_process_group = _after_stream(dist.destroy_process_group)
    dist.init_process_group = _started_with(dist.init_process_group)
    atexit.register(synchronize)
    return library


if __name__ == "__main__":
    kept = install()
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
