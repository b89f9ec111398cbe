"""What the session of a user and the sessions of its ranks have in common: the mark, and the folder between them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARK = "ranks"
OF_SESSION = "PACELINE_TEST_SESSION"  # in the environment of a rank: the folder of its test


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFiles:
    """The files of one test on ranks: what its ranks are asked to run, and what they report.

    Attributes:
        folder: Where they lie; private to the user.
    """

    folder: Path

    @property
    def asked(self) -> Path:
        """The options of pytest and the test, as JSON."""
        return self.folder / "asked.json"

    @property
    def diagnosis(self) -> Path:
        """What the guard has found, as JSON."""
        return self.folder / "diagnosis.json"

    @property
    def output(self) -> Path:
        """What was written past pytest's capture: by ranks that died, by the launcher and by the guard."""
        return self.folder / "output"

    def reports(self, rank: int) -> Path:
        """The reports of a rank, as JSON; there is none if it did not come to its end."""
        return self.folder / f"reports-{rank}.json"

    def temporary(self, rank: int) -> Path:
        """The folder under which a rank's `tmp_path` lies."""
        return self.folder / f"tmp-{rank}"


def is_plain(value: Any) -> bool:
    """Return whether a value is the same after a trip through JSON.

    >>> is_plain([1, "a", None]), is_plain((1, 2)), is_plain({"a": [1.5]})
    (True, False, True)
    """
    if isinstance(value, list):
        return all(map(is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(element) for key, element in value.items())
    return value is None or type(value) in (bool, int, float, str)
