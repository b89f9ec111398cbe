"""Broken programs carry what must be found in them, and how they are repaired, in comments of their own.

Below its docstring a program says what a right diagnosis is; a correct one has only its number of ranks:

    # ranks: 4                          start it with 4 ranks; a second such line begins another expectation, which
                                        takes over what it does not say itself
    # finding: mismatch operation       kind and field; `|` separates answers that are right too
    # out of line: 0 1 | 0              ranks; any, if the line is missing
    # cause: skipped-call | extra-call
    # says: made 4 calls                words that the diagnosis must have
    # launcher: torchrun                as tests/guard/test_torch_programs.py names them
    # differs at: the marked lines      the first difference names exactly the marked lines

A program that ends well and is warned about says so instead of the finding:

    # warning: handle-leak              the cause
    # warned ranks: 0 1 | 0             ranks; any, if the line is missing
    # options: --results                of `paceline run`, without which the warning is not told

A broken program about which the guard says nothing says why instead. The guard has to stay silent then, since nothing
that it could say would be right:

    # not found: ...                    why
    # warning with Open MPI: CAUSE      that library lets it pass, and it is warned about; with MPICH it is found

`# <- here` marks lines of which a diagnosis must name one. `# fixed: CODE` gives what stands in that line once the
advice is followed; a line that is only such a comment gets its code then.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.guard.program_files import category_of, programs

T = TypeVar("T")
C = TypeVar("C", "Expectation", "ExpectedWarning")
HERE = "# <- here"
_FIXED = re.compile(r"^(?P<indent>\s*)(?P<code>.*?)\s*# fixed:(?: |$)(?P<instead>.*)$")
_HEADER = re.compile(
    r"^# (ranks|finding|out of line|cause|says|launcher|differs at|warning|warned ranks|options|"
    r"not found|warning with Open MPI): (.*)$"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a right diagnosis of a program says when it runs on this number of ranks."""

    program: Path
    world_size: int
    findings: tuple[tuple[str, str | None], ...]
    ranks: tuple[tuple[int, ...], ...]  # any, if empty
    causes: tuple[str, ...]  # any, if empty
    says: tuple[str, ...]
    launcher: str
    differs_at_marks: bool

    @property
    def id(self) -> str:
        """Name it in the output of tests."""
        return f"{self.program.stem}-{self.world_size}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedWarning:
    """What a right warning about a program says."""

    program: Path
    world_size: int
    cause: str
    ranks: tuple[tuple[int, ...], ...]  # any, if empty
    says: tuple[str, ...]
    options: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Name it in the output of tests."""
        return f"{self.program.stem}-{self.world_size}"

    @property
    def is_strict(self) -> bool:
        """Tell whether its options give exit code 90 to a job with warnings."""
        return any(option.startswith("--strict") for option in self.options)

    def fits(self, warnings: Sequence[Mapping[str, Any]]) -> bool:
        """Tell whether these warnings, in their JSON form, are the expected one and no other."""
        return len(warnings) == 1 and score_warning(self, warnings[0]).is_right


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What is right about a diagnosis."""

    kind: bool
    ranks: bool
    line: bool
    cause: bool

    @property
    def is_right(self) -> bool:
        """Tell whether all of it is."""
        return self.kind and self.ranks and self.line and self.cause


def broken_cases(carrier: str, library: str = "") -> list[Expectation]:
    """Return what is expected of the broken programs of a carrier, but for those that a library lets pass."""
    found = [
        program for program in programs(carrier, "broken")
        if why_not_found(program) is None and read_warning_with(library, program) is None
    ]  # fmt: skip
    return [case for program in found for case in read_expectations(program)]


def warned_cases(carrier: str, library: str = "") -> list[ExpectedWarning]:
    """Return what is expected of the programs of a carrier that end well, with this library, and are warned about."""
    passed = [read_warning_with(library, program) for program in programs(carrier, "broken")]
    warned = [read_warning(program) for program in programs(carrier, "warned")]
    return warned + [case for case in passed if case is not None]


def missed_programs(carrier: str) -> list[Path]:
    """Return the broken programs of a carrier that are not found."""
    return [program for program in programs(carrier, "broken") if why_not_found(program) is not None]


def why_not_found(program: Path) -> str | None:
    """Return why the guard says nothing about a broken program; None if it does."""
    return dict(_header_lines(program)).get("not found")


def read_expectations(program: Path) -> list[Expectation]:
    """Return what the comments of a program expect, one for each number of ranks."""
    expectations: list[Expectation] = []
    values: dict[str, list[str]] = {}
    for name, value in [*_header_lines(program), ("ranks", "")]:
        if name == "ranks" and "ranks" in values:
            expectations.append(_expectation(program, values))
            values = {key: list(old) for key, old in values.items()}
        if name == "says":
            values.setdefault("says", []).append(value)
        else:
            values[name] = [value]
    assert expectations, f"{program} says nothing about what must be found in it"
    return expectations


def read_warning_with(library: str, program: Path) -> ExpectedWarning | None:
    """Return the warning that a broken program gets if this library lets it pass; None if it does not."""
    cause = dict(_header_lines(program)).get(f"warning with {library}")
    return None if cause is None else read_warning(program, cause)


def read_warning(program: Path, cause: str | None = None) -> ExpectedWarning:
    """Return what the comments of a program say about the warning that it must get."""
    lines = _header_lines(program)
    values = dict(lines)
    return ExpectedWarning(
        program=program,
        world_size=int(values["ranks"]),
        cause=cause or values["warning"],
        ranks=tuple(tuple(map(int, text.split())) for text in values.get("warned ranks", "").split("|") if text),
        says=tuple(value for name, value in lines if name == "says"),
        options=tuple(values.get("options", "").split()),
    )


def read_world_size(program: Path) -> int:
    """Return the number of ranks that a program, broken or correct, asks for."""
    return int(dict(_header_lines(program))["ranks"])


def _header_lines(program: Path) -> list[tuple[str, str]]:
    found = (_HEADER.match(line) for line in program.read_text().splitlines())
    return [(match[1], match[2].strip()) for match in found if match]


def _expectation(program: Path, values: Mapping[str, list[str]]) -> Expectation:
    def alternatives(name: str) -> list[str]:
        return [part.strip() for text in values.get(name, []) for part in text.split("|")]

    kinds = [text.split() for text in alternatives("finding")]
    assert kinds, f"{program} does not say which finding it expects"
    return Expectation(
        program=program,
        world_size=int(values["ranks"][0]),
        findings=tuple((words[0], words[1] if words[1:] else None) for words in kinds),
        ranks=tuple(tuple(int(rank) for rank in text.split()) for text in alternatives("out of line")),
        causes=tuple(alternatives("cause")),
        says=tuple(values.get("says", [])),
        launcher=values.get("launcher", ["split"])[0],
        differs_at_marks="differs at" in values,
    )


def cases_to_repair(cases: Sequence[C]) -> list[C]:
    """Return the cases whose programs are run repaired: all, or some of each category."""
    return one_in_every(cases, key=lambda case: category_of(case.program))


def one_in_every(cases: Sequence[T], *, key: Callable[[T], str]) -> list[T]:
    """Return all cases, or one in every few of each key if PACELINE_EVERY says so: `make test-guard EVERY=5`.

    The first case of each key is among them, so that no key is left out.
    """
    every = int(os.environ.get("PACELINE_EVERY", "1"))
    num_seen: Counter[str] = Counter()
    chosen = []
    for case in cases:
        if num_seen[key(case)] % every == 0:
            chosen.append(case)
        num_seen[key(case)] += 1
    return chosen


def repaired(program: Path) -> str:
    """Return the program with its repairs in place, every line where it was."""
    lines = program.read_text().splitlines()
    found = [_FIXED.match(line) for line in lines]
    assert any(found), f"{program} does not say how it is repaired"
    texts = [match["indent"] + match["instead"] if match else line for match, line in zip(found, lines, strict=True)]
    return "\n".join(texts) + "\n"


def marked_lines(program: Path) -> set[str]:
    """Return the marked lines, as `file.py:12`."""
    lines = program.read_text().splitlines()
    return {f"{program.name}:{number}" for number, line in enumerate(lines, start=1) if HERE in line}


def named_lines(part: Mapping[str, Any] | None) -> set[str]:
    """Return the lines that the groups of a finding, or of its divergence, name."""
    groups = [] if part is None else part["groups"]
    return {Path(group["site"]).name for group in groups if group["site"]}


def words_of(finding: Mapping[str, Any]) -> str:
    """Return all that a finding says in words."""
    details = [group["detail"] for group in finding["groups"]]
    others = [text for other in finding["explanations"] for text in (other["summary"], other["advice"])]
    return "\n".join([finding["summary"], finding["advice"], *details, *others])


def score_warning(expectation: ExpectedWarning, warning: Mapping[str, Any]) -> Score:
    """Compare a warning, in its JSON form, with what a right one says."""
    lines = {Path(site).name for site in warning["sites"][:1]}
    is_right = warning["cause"] == expectation.cause
    return Score(
        kind=is_right,
        ranks=not expectation.ranks or tuple(warning["ranks"]) in expectation.ranks,
        line=bool(lines & marked_lines(expectation.program)),
        cause=is_right and all(text in f"{warning['summary']} {warning['advice']}" for text in expectation.says),
    )


def score(expectation: Expectation, finding: Mapping[str, Any]) -> Score:
    """Compare a finding, in its JSON form, with what a right diagnosis says."""
    marks, words = marked_lines(expectation.program), words_of(finding)
    divergence = named_lines(finding["divergence"])
    line = bool(marks & (named_lines(finding) | divergence))
    return Score(
        kind=(finding["kind"], finding["field"]) in expectation.findings,
        ranks=bool(finding["ranks"]) and (not expectation.ranks or tuple(finding["ranks"]) in expectation.ranks),
        line=line and (not expectation.differs_at_marks or marks == divergence),
        cause=(not expectation.causes or finding["cause"] in expectation.causes)
        and all(text in words for text in expectation.says),
    )
