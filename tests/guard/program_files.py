"""Where the programs of the tests are: programs/CATEGORY/CARRIER/KIND/NAME.py, which nothing else needs to know.

The categories are those of the MPI Bugs Initiative, and one of our own: `process_lifecycle`, for ranks that end, die or
come late, which the Initiative does not have. A carrier is `mpi` or `torch`. `broken` programs stop or must be stopped,
`warned` ones end well and get a warning, `correct` ones get silence. Names are unique within a carrier.
"""

from __future__ import annotations

from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
INITIATIVE = (
    "invalid_parameter",  # one call is enough to see it: a rank that does not exist, a freed handle
    "resource_leak",  # handles that are made and not freed
    "request_lifecycle",  # requests that are not started, not completed, or started twice
    "local_concurrency",  # memory that is used while a request still needs it
    "parameter_matching",  # arguments that must fit between ranks: root, reduction, type, count, tag
    "message_race",  # which message is taken depends on timing
    "call_ordering",  # calls that are left out, made too often, or in another order; messages without a partner
    "epoch_lifecycle",  # epochs of windows that are not begun or not ended
    "global_concurrency",  # ranks that reach for the same memory of a window without an order
)
CATEGORIES = (*INITIATIVE, "process_lifecycle")
CARRIERS = ("mpi", "torch")
KINDS = ("broken", "warned", "correct")
PACKAGES = PROGRAMS / "packages"  # programs that need frameworks, for tests/examples
ENQUEUING = PROGRAMS / "torch" / "enqueuing.py"  # runs another program on a backend that only enqueues, as NCCL does
# broken programs of torch that mean nothing on that backend
NOT_ON_ENQUEUING = {
    "wrong_tag",  # it ignores tags, as NCCL does
    "bits_of_floats", "list_of_the_wrong_length", "transposed_view_is_sent",  # only its thread sees what gloo refuses
    "embedding_exchange_by_old_counts", "key_of_a_rank_that_has_ended", "key_that_nobody_sets",  # they read results
    # torch has monitored_barrier for gloo alone
    "exit_before_monitored_barrier", "file_passed_over_then_end", "monitored_barrier_skipped",
    "truncated_from_any",  # it receives from a rank that is named, as NCCL does
    "lingers_before_it_has_joined",  # nothing has come to it yet
    # calls of functions on other ranks do not come to it
    "rpc_call_to_a_worker_that_has_gone", "rpc_function_raises", "rpc_worker_leaves_without_shutdown",
    "rpc_worker_never_joins",
}  # fmt: skip


def programs(carrier: str, kind: str) -> list[Path]:
    """Return the programs of a carrier and a kind, of all categories, sorted by name."""
    return sorted(PROGRAMS.glob(f"*/{carrier}/{kind}/*.py"), key=lambda path: path.name)


def find_program(carrier: str, kind: str, name: str) -> Path:
    """Return the program, or the package, of this name."""
    (path,) = [*PROGRAMS.glob(f"*/{carrier}/{kind}/{name}.py"), *PROGRAMS.glob(f"*/{carrier}/{kind}/{name}/")]
    return path


def category_of(program: Path) -> str:
    """Return the category of a program."""
    return program.relative_to(PROGRAMS).parts[0]
