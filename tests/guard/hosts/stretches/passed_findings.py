"""What a judge finds in a linked job whose ranks go on, and what it had to ask hosts for."""

from __future__ import annotations

import pytest
from tests.guard.hosts.linked_job import LinkedJob

from paceline.guard.hosts import host_messages
from paceline.guard.hosts.link import HeadLink
from paceline.guard.judge.judge import Judge
from paceline.guard.verdict.finding import Finding


class PassedFindings:
    """What a judge has found, and how often calls were asked for."""

    def __init__(self, job: LinkedJob, monkeypatch: pytest.MonkeyPatch) -> None:
        self.judge = Judge(job.head, job.folders[0])
        self.job = job
        self.findings: list[Finding] = []
        self.recalls: list[host_messages.Recall] = []
        real = HeadLink.send

        def send(link: HeadLink, watcher: bytes, content: bytes) -> bool:
            message = host_messages.decode_downward(content)
            if isinstance(message, host_messages.Recall):
                self.recalls.append(message)
            return real(link, watcher, content)

        monkeypatch.setattr(HeadLink, "send", send)

    def look(self) -> bool:
        finding = self.judge.look_at_passed()
        if finding is not None:
            checked = self.job.head.checked(finding)
            assert checked is not None
            self.findings.append(checked)
        return bool(self.findings)
