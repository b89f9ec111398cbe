"""A pipeline of three stages; the middle one drops items that it finds empty, and the last one waits for them."""
# ranks: 3
# finding: peer-gone | deadlock
# out of line: 1 | 0 1
# says: after it sent 3 messages
# cause: receive-without-send | uneven-steps | early-exit

from mpi4py import MPI

comm = MPI.COMM_WORLD
ITEMS = ["alpha", "beta", "", "gamma"]


def produce():
    for item in ITEMS:
        comm.send(item, dest=1)


def transform():
    for _ in ITEMS:
        item = comm.recv(source=0)
        if not item:
            continue  # fixed: pass
        comm.send(item.upper(), dest=2)  # <- here


def collect():
    found = [comm.recv(source=1) for _ in ITEMS]  # <- here
    print(found)


[produce, transform, collect][comm.rank]()
