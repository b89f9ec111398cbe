"""A walk through a tree reduces at every node; one rank has pruned a node that the others have."""
# ranks: 3
# finding: mismatch operation
# out of line: 2
# cause: uneven-steps
# says: to different depths

from mpi4py import MPI

comm = MPI.COMM_WORLD


def tree(depth):
    children = [tree(depth - 1) for _ in range(2)] if depth else []
    return {"children": children}


def walk(node):
    total = comm.allreduce(1)  # <- here
    for child in node["children"]:
        total += walk(child)
    return total


root = tree(3)
if comm.rank == 2:
    root["children"][0]["children"][0]["children"] = []  # fixed: pass
total = walk(root)
comm.Barrier()
print("rank", comm.rank, total)
