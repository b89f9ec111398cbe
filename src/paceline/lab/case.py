"""A case of the catalogue, as its `case.toml` states it. Nothing is run here."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from paceline.errors import InputError

CASES = Path(__file__).parent / "cases"
LIBRARIES = {"mpi": ("mpich", "openmpi"), "torch": ("gloo",)}
ENDINGS = ("hang", "abort", "wrong result", "right result")  # what a bare run may do


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedWarning:
    """The warning that the guard must give, and that does not stop the job."""

    cause: str
    ranks: tuple[tuple[int, ...], ...]  # any of these, where timing decides
    sites: tuple[str, ...]  # at least one is named: broken.py:12


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the guard must say: the finding, the warning, or for a job without either who is late."""

    kind: str | None = None
    field: str | None = None
    ranks: tuple[tuple[int, ...], ...] = ()  # any of these, where no rank is in the minority
    sites: tuple[str, ...] = ()  # at least one is named: broken.py:12
    cause: str | None = None
    libraries: tuple[str, ...] = ()  # those on which there is a finding
    late: tuple[int, ...] = ()
    warning: ExpectedWarning | None = None

    def has_finding(self, library: str) -> bool:
        """Say whether the guard must have a finding with this library."""
        return library in self.libraries


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the system refuses to some ranks, so that a break of resources is real."""

    ranks: tuple[int, ...] = ()
    file_bytes: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way to break a distributed job.

    Attributes:
        id: The name of the case, and of its folder.
        title: What is wrong, in a line.
        concept: The group it belongs to.
        carrier: mpi or torch.
        num_ranks: How many ranks show it.
        symptom: What a user sees.
        recognise: How to tell it from its neighbours.
        cause: What is behind it.
        hints: Three, from vague to telling.
        prevention: What in Paceline prevents it, or shows it.
        search: What people type who have it.
        result: The last line that each rank prints when the job is right.
        bare: What the job does without the guard, for each library; several where timing decides.
        expected: What the guard says.
        limits: What ranks may not use.
    """

    id: str
    title: str
    concept: str
    carrier: str
    num_ranks: int
    symptom: str
    recognise: str
    cause: str
    hints: tuple[str, ...]
    prevention: str
    search: tuple[str, ...]
    result: tuple[str, ...]
    bare: dict[str, tuple[str, ...]]
    expected: Expected
    limits: Limits

    def __post_init__(self) -> None:
        if set(self.bare) != set(LIBRARIES[self.carrier]):
            raise InputError(f"case {self.id}: [bare] must name {' and '.join(LIBRARIES[self.carrier])}")
        if not set(self.expected.libraries) <= set(self.bare):
            raise InputError(f"case {self.id}: [finding] may name {' and '.join(self.bare)} as its library")
        unknown = {ending for endings in self.bare.values() for ending in endings} - set(ENDINGS)
        if unknown or len(self.hints) != 3 or len(self.result) != self.num_ranks:
            raise InputError(f"case {self.id}: three hints, a result for each rank, and endings of {ENDINGS}")

    @property
    def is_silent(self) -> bool:
        """Whether every call is right, and only the numbers are wrong."""
        expected = self.expected
        return expected.kind is None and expected.warning is None and not expected.late

    def program(self, name: str) -> Path:
        """Return the path of broken, fixed, paceline or seen."""
        return CASES / self.id / f"{name}.py"

    def has(self, name: str) -> bool:
        """Say whether the case has such a program."""
        return self.program(name).is_file()

    def fix(self) -> str:
        """Return the repair as a diff."""
        broken, fixed = (self.program(name).read_text().splitlines() for name in ("broken", "fixed"))
        return "\n".join(difflib.unified_diff(broken, fixed, "broken.py", "fixed.py", lineterm="", n=2))


@cache
def all_cases() -> tuple[Case, ...]:
    """Return every case, by concept in the order of the catalogue."""
    order = tomllib.loads((CASES / "order.toml").read_text())["concepts"]
    cases = [_load(path) for path in sorted(CASES.glob("*/case.toml"))]
    return tuple(sorted(cases, key=lambda case: (order.index(case.concept), case.id)))


def find_case(name: str) -> Case:
    """Return the case of that name; a beginning that fits one alone will do."""
    fitting = [case for case in all_cases() if case.id == name] or [
        case for case in all_cases() if case.id.startswith(name)
    ]
    if len(fitting) != 1:
        near = difflib.get_close_matches(name, [case.id for case in all_cases()], n=3, cutoff=0.4)
        near = [case.id for case in fitting] or near
        meant = f": did you mean {' or '.join(near)}?" if near else ";"
        raise InputError(f"there is no case {name!r}{meant} `paceline lab list` shows all")
    return fitting[0]


def _load(path: Path) -> Case:
    settings: dict[str, Any] = tomllib.loads(path.read_text())
    num_ranks = settings["ranks"]
    limits = settings.get("limits", {})
    return Case(
        id=path.parent.name,
        num_ranks=num_ranks,
        **{name: settings[name].strip() for name in ("title", "concept", "carrier", "symptom", "recognise", "cause")},
        prevention=settings["prevention"].strip(),
        hints=tuple(settings["hints"]),
        search=tuple(settings["search"]),
        result=_result(settings["result"], num_ranks),
        bare={library: _several(ending) for library, ending in settings["bare"].items()},
        expected=_expected(settings),
        limits=Limits(
            ranks=tuple(limits.get("ranks", ())),
            file_bytes=limits.get("file_bytes"),
            memory_bytes=limits.get("memory_bytes"),
        ),
    )


def _expected(settings: dict[str, Any]) -> Expected:
    finding, warning = settings.get("finding", {}), settings.get("warning")
    libraries = LIBRARIES[settings["carrier"]] if finding else ()
    return Expected(
        kind=finding.get("kind"),
        field=finding.get("field"),
        ranks=_rank_lists(finding.get("ranks", [])),
        sites=_several(finding.get("site", ())),
        cause=finding.get("cause"),
        libraries=_several(finding.get("library", libraries)),
        late=tuple(settings.get("late", {}).get("ranks", ())),
        warning=_warning(warning) if warning is not None else None,
    )


def _warning(stated: dict[str, Any]) -> ExpectedWarning:
    return ExpectedWarning(cause=stated["cause"], ranks=_rank_lists(stated["ranks"]), sites=_several(stated["site"]))


def _several(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _result(stated: str | Sequence[str], num_ranks: int) -> tuple[str, ...]:
    if isinstance(stated, str):
        return tuple(stated.format(rank=rank) for rank in range(num_ranks))
    return tuple(stated)


def _rank_lists(stated: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """Read [6] as one answer, and [[0], [0, 1]] as two that are both right."""
    if all(isinstance(ranks, int) for ranks in stated):
        return (tuple(stated),)
    return tuple(tuple(ranks) for ranks in stated)
