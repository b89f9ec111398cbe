"""Functions called on other ranks in every way: answered late, nested, by futures, from threads, with limits.

The workers are made twice, and ranks wait in shutdown while they still serve others.
"""

import os
import threading
import time

import torch
import torch.distributed.rpc as rpc

rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def echo(value):
    return value


def answer_late(value):
    time.sleep(0.8)  # longer than a call must stay inside before it counts as stuck
    return value


def ask_further(value):
    return rpc.rpc_sync("worker2", answer_late, args=(value,))


ANSWER = torch.futures.Future()


@rpc.functions.async_execution
def answer_when_told():
    return ANSWER


def tell(value):
    ANSWER.set_result(value)


class Counter:
    def __init__(self):
        self.total = 0

    def add(self, value):
        self.total += value
        return self.total


def call_others():
    counter = rpc.remote("worker1", Counter)
    counter.rpc_sync().add(1)
    values = [counter.rpc_async().add(2).wait(), counter.remote().add(3).to_here()]
    futures = [rpc.rpc_async(1, ask_further, args=(number,)) for number in range(4)]
    values += [future.wait() for future in futures[:2]] + torch.futures.wait_all(futures[2:])
    values.append(rpc.rpc_async("worker1", echo, args=(7,)).then(lambda future: future.value() + 1).wait())
    values.append(int(rpc.rpc_sync("worker1", torch.add, args=(torch.ones(1), 1))))
    rpc.rpc_async("worker2", echo, args=(1,))  # nobody has to wait for it
    told_later = rpc.rpc_async("worker2", answer_when_told)
    rpc.rpc_sync("worker1", answer_late, args=(0,))
    rpc.rpc_sync("worker2", tell, args=(11,))
    values.append(told_later.wait())
    for arguments in ({"to": "nobody"}, {"to": "worker1", "timeout": 0.2}):
        try:
            rpc.rpc_sync(func=answer_late, args=(0,), **arguments)
        except RuntimeError:
            values.append("caught")
    threads = [threading.Thread(target=rpc.rpc_sync, args=("worker1", answer_late, (1,))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return values


rpc.init_rpc(f"worker{rank}", rank=rank, world_size=world_size)
if rank == 0:
    print(call_others())
rpc.shutdown()
rpc.init_rpc(f"again{rank}", rank=rank, world_size=world_size)
print(rank, rpc.rpc_sync(f"again{(rank + 1) % world_size}", echo, args=(rank,)))
rpc.shutdown()
