"""Programs that call mpi4py's functions in every way, right and wrong, for test_compiled_calls.py."""

from __future__ import annotations

COLLECTIVES = """
    one, other = np.ones(4), np.empty(4)
    small, table = np.ones(3, dtype="i2"), np.zeros(2, dtype=[("a", "i4"), ("b", "f8")])
    for _ in range(2):
        attempt(comm.Barrier)
        attempt(comm.Barrier, 1)
        attempt(comm.barrier)
        specs = [one, MPI.DOUBLE], [one, 2, MPI.DOUBLE], (one, MPI.FLOAT), [one, "d"]
        for send in (one, small, table, MPI.IN_PLACE, *specs, bytearray(8), None, "x", 3):
            attempt(comm.Allreduce, send, other)
        for op in (MPI.SUM, MPI.MAX, MPI.MINLOC, None, "x", MPI.Op.Create(lambda a, b, c: None)):
            attempt(comm.Allreduce, one, other, op)
            attempt(comm.allreduce, 1, op=op)
            attempt(comm.reduce, 1, op)
        for root in (0, 1, 5, -1, -7, 2**31, 2**70, 0.0, True, np.int64(0), "x", None):
            attempt(comm.Bcast, one, root)
            attempt(comm.Bcast, one, root=root)
            attempt(comm.bcast, one, root=root)
            attempt(comm.Reduce, one, other, MPI.SUM, root)
            attempt(comm.Gather, one, other, root=root)
            attempt(comm.gather, 1, root)
        attempt(comm.Bcast, buf=one, root=0)
        attempt(comm.Bcast, one, 0, 0)
        attempt(comm.Bcast, one, root=0, wrong=1)
        attempt(comm.Bcast)
        attempt(comm.Allreduce, one)
        attempt(comm.Allreduce, sendbuf=one, recvbuf=other, op=MPI.MAX)
        attempt(comm.Allgather, one, other)
        attempt(comm.Allgather, MPI.IN_PLACE, other)
        attempt(comm.Alltoall, one, other)
        attempt(comm.Scatter, one, other)
        attempt(comm.Reduce_scatter_block, one, other)
        attempt(comm.Scan, one, other)
        attempt(comm.allgather, 1)
        attempt(comm.Allgatherv, one, other)
        attempt(MPI.Intracomm.Barrier, comm)
        attempt(MPI.Comm.Barrier, 3)
        attempt(MPI.Comm.Barrier)
        attempt(MPI.COMM_SELF.Barrier)
        attempt(MPI.COMM_NULL.Barrier)
    half = comm.Split(0)
    half.Barrier()
    half.Free()
    """
MESSAGES = """
    one, other, long = np.ones(4), np.empty(4), np.ones(8)
    for _ in range(2):
        for given in (dict(tag=3), dict(), dict(tag=0)):
            started = comm.Irecv(other, 0, **given)
            comm.Send(one, 0, *given.values())
            started.Wait()
            started = comm.irecv(source=0, **given)
            comm.send("x", dest=0, **given)
            started.wait()
        started = comm.Irecv(other)
        comm.Ssend([one, MPI.DOUBLE], dest=0, tag=9)
        started.Wait()
        places = ((0, 3), {}), ((0,), {"tag": 3}), ((), {"source": 0, "tag": 3}), ((), {}), ((0, 3, None), {})
        others = ((0, 3), {"status": MPI.Status()}), ((np.int64(0), 3), {}), ((0, MPI.ANY_TAG), {})
        for args, named in (*places, *others):
            started = comm.Isend(one, 0, 3)
            attempt(comm.Recv, other, *args, **named)
            started.Wait()
            started = comm.isend("x", 0, 3)
            attempt(comm.recv, None, *args, **named)
            started.wait()
        started = comm.Isend(long, 0, 3)
        attempt(comm.Recv, other, 0, 3)  # too long for it
        started.Wait()
        started = comm.Isend(long, 0, 3)
        attempt(comm.Recv, other, 0, 3, MPI.Status())
        started.Wait()
        started = comm.Isend(one.astype("f4"), 0, 4)
        attempt(comm.Recv, other, 0, 4)  # of another type
        started.Wait()
        for peer in (MPI.PROC_NULL, 7, -9, "x", None, 2**40):
            attempt(comm.Send, one, peer)
            attempt(comm.Recv, other, peer, 3)
        for tag in (-1, -8, 2**31, 2**62, "x", None):
            attempt(comm.Send, one, MPI.PROC_NULL, tag)
            attempt(comm.Send, one, 0, tag) if tag != 2**31 else None
        attempt(comm.Send, "no buffer of this kind", 0, 3, wrong=1)
        attempt(comm.Send, object(), 0)
        attempt(comm.Recv)
        attempt(comm.Send)
    """
POSTED = """
    import gc
    one, other, long, far = np.ones(4), np.empty(4), np.ones(8), np.ones(4)
    large, room = np.arange(5000.0), np.empty(5000)

    def post_all():
        for given in (dict(tag=3), dict(), dict(tag=0)):
            received, sent = comm.Irecv(other, 0, **given), comm.Isend(one, 0, **given)
            attempt(received.Wait)
            attempt(sent.Wait)
            attempt(sent.Wait)  # it is complete
            received, sent = comm.irecv(source=0, **given), comm.isend("x", 0, **given)
            attempt(received.wait)
            attempt(sent.wait)
        for source, tag in ((0, 7), (MPI.ANY_SOURCE, 7), (0, MPI.ANY_TAG), (MPI.ANY_SOURCE, MPI.ANY_TAG)):
            received = comm.Irecv(other, source, tag)
            comm.Send(one, 0, 7)
            attempt(received.Wait)
            received = comm.irecv(None, source, tag)
            comm.send("x", 0, 7)
            attempt(received.wait)
            sent = comm.Issend(one, 0, 7)
            attempt(comm.Recv, other, source, tag)
            attempt(sent.Wait)
            sent = comm.issend("x", 0, 7)
            attempt(comm.recv, None, source, tag, None)
            attempt(comm.Iprobe)
            attempt(sent.wait)
        for waited in (list, tuple, iter):
            requests = [comm.Irecv(large, 0, 1), comm.Irecv(room)]
            requests += [comm.Isend(large * 2, 0, 1), comm.Isend(room * 2, 0, 2)]
            attempt(MPI.Request.Waitall, waited(requests))
            requests += [MPI.REQUEST_NULL, comm.Ibarrier(), comm.Irecv(other, MPI.ANY_SOURCE, 5), comm.Isend(one, 0, 5)]
            attempt(MPI.Request.Waitall, requests)
            attempt(MPI.Request.waitall, [comm.irecv(source=0), comm.isend("y", 0)])
        attempt(MPI.Request.Waitall, [])
        attempt(MPI.Request.Waitall, 3)
        attempt(MPI.Request.Waitall, [3])
        requests = [comm.Irecv(other, 0, 4), comm.Isend(one, 0, 4)]
        attempt(MPI.Request.Waitall, requests, [])
        status = MPI.Status()
        received, sent = comm.Irecv(other, tag=6), comm.Isend([one, MPI.DOUBLE], 0, 6)
        attempt(received.Wait, status)
        attempt(sent.Wait, status=None)
        say(status.source, status.tag)

    post_all()
    post_all()
    # several receives of one kind, and one of another with them
    received = [comm.Irecv(np.empty(4), 0, 3) for _ in range(3)] + [comm.Irecv(np.empty(4), MPI.ANY_SOURCE, 3)]
    attempt(comm.Send, one, 0, 3)
    attempt(comm.Send, one.astype("f4"), 0, 3)
    sent = [comm.Isend(one, 0, 3) for _ in range(2)]
    attempt(MPI.Request.Waitall, received + sent)
    # what does not fit
    received = comm.Irecv(other, 0, 3)
    sent = comm.Isend(long, 0, 3)
    attempt(received.Wait)
    attempt(sent.Wait)
    received = [comm.Irecv(other, 0, 3), comm.Isend(long, 0, 3)]
    attempt(MPI.Request.Waitall, received)
    sent = comm.Isend(long, 0, 3)
    attempt(comm.Recv, other, MPI.ANY_SOURCE, 3)
    attempt(sent.Wait)
    # memory in use: overlaps, use by a call that blocks, changes
    received = [comm.Irecv(far, 0, 3), comm.Irecv(far[1:], 0, 4)]
    comm.Send(one, 0, 3)
    attempt(comm.Allreduce, far, other)
    attempt(comm.Send, far[:1], 0, 4)  # which the first of both writes to
    attempt(comm.Send, [far, 3, MPI.DOUBLE], MPI.PROC_NULL)
    attempt(MPI.Request.Waitall, received)
    for array in (one, large):
        sent = comm.Isend(array, 0, 3)
        array[-1] += 1
        comm.Recv(room, 0, 3)
        attempt(sent.Wait)
        sent = comm.Isend(array[:2], 0, 3)
        array[-1] += 1  # which is not sent
        comm.Recv(room, 0, 3)
        attempt(sent.Wait)
    attempt(comm.Isend, large[::2], 0, 3)
    attempt(comm.Irecv, np.empty((4, 4)).T, 0, 3)
    comm.Send(np.ones(16), 0, 3)
    attempt(comm.Irecv, b"cannot be written", 0, 3)
    # other ways to complete, and none
    received = comm.Irecv(other, 0, 3)
    say(received.Test(), received.Get_status())
    comm.Send(one, 0, 3)
    say(received.Get_status())
    while not received.Test():
        pass
    received = comm.Irecv(other, 0, 3)
    received.Cancel()
    attempt(received.Wait)
    received = comm.Irecv(other, 0, 3)
    copy_of_it = MPI.Request(received)
    comm.Send(one, 0, 3)
    attempt(copy_of_it.Wait)
    attempt(received.Wait)
    sent = comm.Isend(one, 0, 8)
    del sent
    sent = comm.Isend(one, 0, 8)
    for _ in range(2):
        attempt(comm.Recv, other, 0, 8)
    sent.Free()
    prepared = comm.Send_init(one, 0, 9), comm.Recv_init(other, 0, 9)
    MPI.Prequest.Startall(list(prepared))
    attempt(MPI.Request.Waitall, list(prepared))
    for request in prepared:
        request.Free()
    attempt(comm.Isend, one)
    attempt(comm.Isend, one, 0, wrong=1)
    attempt(comm.Isend, object(), 0)
    attempt(comm.Irecv)
    for peer in (MPI.PROC_NULL, 7, -9, "x", None, 2**40, np.int64(0)):
        attempt(comm.Isend, one, peer, 3)
        attempt(comm.Irecv, other, peer, 3)
    for tag in (-8, 2**31, "x", None):
        attempt(comm.Isend, one, MPI.PROC_NULL, tag)
        attempt(comm.Isend, one, 0, tag) if tag != 2**31 else None
    # more than there is room for
    received = [comm.Irecv(np.empty(1), 0, 20) for _ in range(1100)]
    for _ in range(1100):
        comm.Send(one[:1], 0, 20)
    attempt(MPI.Request.Waitall, received)
    del received
    gc.collect()
    say(len(two.expected), len(recorder.buffers.table), len(watch.requests.by_object))
    say(len(recorder.requests.free_numbers))

    def in_a_thread():
        received = comm.Irecv(other, 0, 3)
        comm.Send(one, 0, 3)
        received.Wait()

    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join()
    received = comm.Irecv(other, 0, 3)
    child = os.fork()
    if child == 0:
        del received  # it is the parent's
        os._exit(0)
    os.waitpid(child, 0)
    comm.Send(one, 0, 3)
    attempt(received.Wait)
    left = comm.Irecv(other, 0, 77)
    recorder.remarks.finish()
    """
# The other member's calls, before ours: it calls Bcast where we call Barrier, and has less room than what we send.
DIFFERENCES = """
    there = Recorder(folder, "other.0.1", rank=1, world_size=2)
    there._worlds["mpi"] = two.identity.rpartition(".")[0]
    theirs = there.communicator("mpi-two", "two", range(2), 1)
    there.begin_collective(theirs, BY_NAME["Bcast"].code, 0, 0, 13, 32, 4, depth=1)
    there.begin_collective(theirs, BY_NAME["Bcast"].code, 1, 0, 13, 32, 4, depth=1)
    there.begin_collective(theirs, BY_NAME["Bcast"].code, 0, 0, 12, 32, 4, depth=1)
    there.begin_collective(theirs, BY_NAME["Bcast"].code, 0, 0, 13, 32, 4, depth=1)
    one = np.ones(4)
    comm.Barrier()
    comm.Bcast(one)
    comm.Bcast(one)
    comm.Bcast(one)
    from paceline.guard.shared_memory.board import pack_size
    from paceline.guard.shared_memory.layout import RECEIVED
    there.messages.meet(0, theirs, RECEIVED, 0, 3, 1, pack_size(13, 8))
    attempt(comm.Send, one, 1, 3)
    """
AS_FUNCTIONS = """
    function = MPI.Comm.Barrier
    say(function.__name__, function.__qualname__, function.__doc__, callable(function))
    say(list(inspect.signature(comm.Allreduce).parameters))
    say(pickle.loads(pickle.dumps(function)) is function, copy.deepcopy(function) is function)
    say(weakref.ref(function)() is function)
    say(comm.Barrier == comm.Barrier, comm.Barrier.__self__ is comm, comm.Barrier.__func__ is function)
    class Mine(MPI.Intracomm):
        def Barrier(self):
            return super().Barrier()
    Mine(comm).Barrier()
    bound = comm.Barrier
    bound()
    thread = threading.Thread(target=bound)
    thread.start()
    thread.join()
    child = os.fork()
    if child == 0:
        comm.Barrier()  # which must not be recorded: the ring is the parent's
        os._exit(0)
    os.waitpid(child, 0)
    """
