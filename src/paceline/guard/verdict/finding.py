"""A finding: which ranks fell out of line, where, and why. One value, from which text, JSON and page are made.

Kinds, fields, states and causes are closed sets: what is not listed here cannot be said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from enum import StrEnum

from paceline.guard.verdict.rank_names import WorldRank, current_world_ranks, name_ranks, naming
from paceline.process.notebook_html import notebook_html


class FindingKind(StrEnum):
    """What is wrong."""

    MISMATCH = "mismatch"  # members of a communicator call differently at the same position
    DEADLOCK = "deadlock"  # ranks that can never proceed
    PEER_GONE = "peer-gone"  # a rank that others need has ended
    MESSAGE = "message"  # a send and a receive that do not fit
    ARGUMENT = "argument"  # a rank, root or tag that does not exist


class FindingField(StrEnum):
    """In what calls differ, or which argument is wrong."""

    OPERATION = "operation"
    ROOT = "root"
    REDUCTION = "reduction"
    DTYPE = "dtype"
    COUNT = "count"
    TAG = "tag"
    SOURCE = "source"  # the other side of a message, whichever side names it
    COMMUNICATOR = "communicator"
    MODE = "mode"  # of a file


class GroupState(StrEnum):
    """What ranks do."""

    BLOCKED = "blocked"
    RUNNING = "running"
    EXITED = "exited"
    RAISED = "raised"
    KILLED = "killed"


class Cause(StrEnum):
    """Why it happened, as a slug; `sentence` says it in words."""

    sentence: str

    def __new__(cls, slug: str, sentence: str) -> Cause:
        """Make a member of a slug and its sentence."""
        member = str.__new__(cls, slug)
        member._value_ = slug
        member.sentence = sentence
        return member

    UNEVEN_STEPS = "uneven-steps", "ranks make different numbers of steps"
    RANK_CONDITIONAL_CALL = "rank-conditional-call", "only some ranks make a call that all must make"
    SKIPPED_CALL = "skipped-call", "a rank left out a call that the other ranks made"
    EXTRA_CALL = "extra-call", "a rank made a call once more than the other ranks"
    CALL_ORDER = "call-order", "ranks make their calls in different orders"
    DIFFERENT_COLLECTIVES = "different-collectives", "ranks are in different collectives"
    SHAPE = "shape", "ranks bring different sizes"
    SPLITS = "splits", "a rank sends a different amount than its partner expects"
    DTYPE = "dtype", "ranks bring different element types"
    ROOT = "root", "ranks name different roots"
    REDUCTION = "reduction", "ranks use different reductions"
    GROUP = "group", "ranks make different groups"
    MODE = "mode", "ranks open or set up a file in different modes"
    EXCEPTION = "exception", "a rank raised an exception that nobody caught"
    KILLED = "killed", "a rank was killed"
    EARLY_EXIT = "early-exit", "a rank exited while others still needed it"
    OUT_OF_MEMORY = "out-of-memory", "a rank ran out of memory"
    DISK_FULL = "disk-full", "a rank ran out of disk space"
    HANDLE_LEAK = "handle-leak", "a rank made handles without freeing them until the library had no room for more"
    RECEIVE_RECEIVE = "receive-receive", "ranks receive from each other before either has sent"
    SEND_SEND = "send-send", "ranks send to each other before either receives"
    MESSAGE_ORDER = "message-order", "ranks send and receive in orders that do not fit"
    SEND_WITHOUT_RECEIVE = "send-without-receive", "a message that nobody receives"
    RECEIVE_WITHOUT_SEND = "receive-without-send", "a receive or wait that nothing will satisfy"
    UNMATCHED_EPOCH = "unmatched-epoch", "a rank waits for an epoch of a window that another rank does not join"
    LOCK_NOT_RELEASED = "lock-not-released", "a rank waits for a lock of a window that another rank does not release"
    NO_SUCH_RANK = "no-such-rank", "a rank, root or tag that does not exist"
    TRUNCATED = "truncated", "a message larger than its buffer"
    WRONG_TAG = "wrong-tag", "a message was sent with a different tag than the receive asks for"
    WRONG_SOURCE = "wrong-source", "a message came from a different rank than the receive asks for"
    WRONG_COMMUNICATOR = "wrong-communicator", "a call was made on a different communicator than it belongs to"
    UNSEEN_CALL = "unseen-call", "ranks wait because of a call that is not recorded, such as one of a compiled library"
    TIMEOUT = "timeout", "a rank is later than the given limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankGroup:
    """Ranks that are in the same situation."""

    ranks: tuple[int, ...]
    state: GroupState
    call: str | None = None
    communicator: str | None = None
    sequence: int | None = None
    site: str | None = None
    count: int | None = None
    dtype: str | None = None
    detail: str = ""
    has_returned: bool = False  # the call is shown because of what it was, not because a rank waits in it
    hosts: tuple[str, ...] = ()  # where these ranks are, if the job runs on several hosts; the first of very many
    num_hosts: int = 0  # how many they are, if not all are listed


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDifference:
    """The first position at which ranks called from different lines. In JSON it is the `divergence`."""

    sequence: int
    communicator: str  # its name
    groups: tuple[RankGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One explanation that fits: the ranks out of line, one sentence, the cause and the advice."""

    ranks: tuple[int, ...]
    summary: str
    cause: Cause
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is certainly wrong."""

    kind: FindingKind
    field: FindingField | None
    ranks: tuple[int, ...]
    summary: str
    cause: Cause
    advice: str
    groups: tuple[RankGroup, ...]
    first_difference: FirstDifference | None = None
    latency_ms: float = 0.0
    decided_ns: int = 0  # when, by the clock of the records; 0 if nobody noted it
    explanations: tuple[Explanation, ...] = ()  # where several fit; the first is the finding's own
    # by which its sentences call ranks
    world_ranks: Mapping[int, WorldRank] = dataclass_field(default_factory=current_world_ranks)

    def _repr_html_(self) -> str:
        """Return it as a table, for notebooks."""
        with naming(self.world_ranks):
            rows = [
                (name_ranks(group.ranks), group.call or group.state, group.site or "", group.detail)
                for group in self.groups
            ]
        return notebook_html(
            self.summary, rows, header=("ranks", "call", "line", "detail"),
            sentences=[("cause", f"{self.cause}: {self.cause.sentence}"), ("change", self.advice)],
        )  # fmt: skip


def explained_finding(
    kind: FindingKind,
    explanations: Explanation | Sequence[Explanation],
    groups: Sequence[RankGroup],
    *,
    field: FindingField | None = None,
    first_difference: FirstDifference | None = None,
) -> Finding:
    """Return a finding in the words of its first explanation; the others are listed."""
    fitting = (explanations,) if isinstance(explanations, Explanation) else tuple(explanations)
    first = fitting[0]
    return Finding(
        kind=kind, field=field, ranks=first.ranks, summary=first.summary, cause=first.cause, advice=first.advice,
        groups=tuple(groups), first_difference=first_difference, explanations=fitting if len(fitting) > 1 else (),
    )  # fmt: skip
