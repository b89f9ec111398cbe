"""What each cause of a finding or a warning means in general, and what to change: for `paceline explain`.

A finding's own advice names ranks, files and lines; this is what can be said without a job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.guard.verdict.finding import Cause
from paceline.guard.verdict.job_warning import WarningCause
from paceline.report.text.text_layout import PLAIN, TextLayout

AnyCause = Cause | WarningCause

_SAME_CALLS = "let every rank make the same calls in the same order"
_SAME_ARGUMENT = "give every rank the same value: compute it on one rank and broadcast it, or take it from the settings"
GENERAL_ADVICE: Mapping[AnyCause, str] = {
    Cause.UNEVEN_STEPS: "give every rank the same number of steps: paceline.PlanSampler or paceline.Loader does, "
    "paceline check proves it, and an all_reduce with MIN before the loop stops all ranks at the smallest count",
    Cause.RANK_CONDITIONAL_CALL: "take the call out of the condition: every member of the communicator must make it",
    Cause.SKIPPED_CALL: "look for a skipped batch, a caught exception or an early return on the rank that left it out",
    Cause.EXTRA_CALL: "look for a retry, or a condition that only this rank meets",
    Cause.CALL_ORDER: "use communicators, groups and tensors in one order on all ranks; do not iterate over a set",
    Cause.DIFFERENT_COLLECTIVES: f"{_SAME_CALLS}; look for a condition that differs between ranks",
    Cause.SHAPE: "bring the same size on every rank: pad the last batch (paceline.Loader does), or use a call that "
    "takes different sizes",
    Cause.SPLITS: "exchange the counts first, and let both sides of each pair use the same number",
    Cause.DTYPE: "convert to one element type before the call, on every rank",
    Cause.ROOT: _SAME_ARGUMENT,
    Cause.REDUCTION: _SAME_ARGUMENT,
    Cause.GROUP: "let every rank make every group with the same list of ranks, also groups that it is not in",
    Cause.MODE: _SAME_ARGUMENT,
    Cause.EXCEPTION: "mend the exception; if it may happen, let all ranks learn of it before they leave the loop",
    Cause.KILLED: "find out who sent the signal: the system's log, the batch system, another program",
    Cause.EARLY_EXIT: "let every rank make the same calls before it ends",
    Cause.OUT_OF_MEMORY: "lower what a rank holds at one time (batch size, workers, caches), or give it more memory",
    Cause.DISK_FULL: "make room on the disk, raise the quota or the limit on file sizes, or write elsewhere",
    Cause.HANDLE_LEAK: "make communicators, windows and reductions once, before the loop, or free each after its use",
    Cause.RECEIVE_RECEIVE: "let one side send first, or use Sendrecv or Irecv",
    Cause.SEND_SEND: "let one side receive first, or use Sendrecv or Isend: whether a send returns before its message "
    "is received depends on its size",
    Cause.MESSAGE_ORDER: "receive in the order in which messages are sent, or tell them apart by tags",
    Cause.SEND_WITHOUT_RECEIVE: "let the other rank receive it, or do not send it",
    Cause.RECEIVE_WITHOUT_SEND: "let a rank send what is received or waited for, or do not wait for it",
    Cause.UNMATCHED_EPOCH: "let every rank of the group take part: Post goes with Start, and Wait with Complete",
    Cause.LOCK_NOT_RELEASED: "release every lock of a window with Unlock before anything else is waited for",
    Cause.NO_SUCH_RANK: "compute the rank from the size of the communicator; ranks and tags begin at 0",
    Cause.TRUNCATED: "make the buffer as large as the message: probe for its size, or send the size first",
    Cause.WRONG_TAG: "use one tag on both sides",
    Cause.WRONG_SOURCE: "name the rank that sends, or receive from any rank",
    Cause.WRONG_COMMUNICATOR: "use the same communicator on both sides",
    Cause.UNSEEN_CALL: "see which compiled library makes the call, and whether every rank comes to it",
    Cause.TIMEOUT: "see what keeps the rank busy, or give --timeout more seconds",
    WarningCause.MESSAGE_NEVER_RECEIVED: "let the other rank receive it, or do not send it",
    WarningCause.REQUEST_NEVER_COMPLETED: "wait for every request and work, also for those whose result is not needed",
    WarningCause.BUFFER_IN_USE: "leave memory alone until the request that uses it has completed, and keep a reference",
    # the warning handle-leak has the advice of the cause with the same name
    WarningCause.MESSAGE_RACE: "name the rank or the tag in the receive, unless any order is right",
    WarningCause.RESULTS_DIFFER: "look for memory that is changed during the call, and for ranks that bring NaN",
}


def all_causes() -> list[AnyCause]:
    """Return every cause there is, those of findings first."""
    return [*Cause, *WarningCause]


def cause_as_text(cause: AnyCause, cases: Sequence[str] = (), layout: TextLayout = PLAIN) -> str:
    """Return a cause with its sentence, what to change, and the cases of the lab that show it."""
    what = "ends a job" if isinstance(cause, Cause) else "a warning"
    lines = layout.headline(f"{cause} ({what}): {cause.sentence}", "key")
    lines += layout.labelled("change", GENERAL_ADVICE[cause])
    if cases:
        lines += layout.labelled("see it happen", f"paceline lab run {cases[0]}")
        if len(cases) > 1:
            lines += layout.labelled("also", ", ".join(cases[1:]))
    return "\n".join(lines)
