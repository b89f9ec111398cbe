"""Files that cannot be opened or written: every rank catches the error and goes on."""
# ranks: 3

from mpi4py import MPI

comm = MPI.COMM_WORLD
for name in ("missing.bin", "no/such/folder/file.bin"):
    try:
        MPI.File.Open(comm, name, MPI.MODE_RDONLY)
    except MPI.Exception as error:
        print("rank", comm.rank, error.Get_error_class() != MPI.SUCCESS)
file = MPI.File.Open(comm, "plain.bin", MPI.MODE_CREATE | MPI.MODE_WRONLY)
try:
    file.Read_at_all(0, bytearray(4))
except MPI.Exception:
    print("rank", comm.rank, "may only write")
comm.Barrier()
file.Close()
window = MPI.Win.Allocate(8, 8, comm=comm)
try:
    window.Lock(comm.size + 5)
except MPI.Exception:
    print("rank", comm.rank, "no such rank")
window.Fence()
window.Free()
