"""One rank has not got a package that the others have: it fails before it comes to MPI."""
# ranks: 3
# finding: peer-gone
# out of line: 1
# cause: exception
# says: ModuleNotFoundError

import os

if int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"]) == 1:  # fixed: if False:
    import a_package_that_is_not_there  # type: ignore[import-not-found]  # noqa: F401  # <- here
from mpi4py import MPI

MPI.COMM_WORLD.Barrier()
