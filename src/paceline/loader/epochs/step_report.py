"""What ranks tell each other of a step before they hand it out: one message, in which all of them agree or raise."""

from __future__ import annotations

import json
from dataclasses import dataclass

import torch

from paceline.comm import Comm
from paceline.loader.agreement.batch_form import BatchForm, agreed_form
from paceline.loader.agreement.first_message import gather_bytes
from paceline.loader.agreement.must_agree import MustAgree, check_agreement
from paceline.loader.agreement.problem import Problem, raise_problem


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """What one rank says of a step.

    Attributes:
        must_agree: What must be the same on all ranks.
        form: The fields of its batch, or None if it has no sample and does not know them.
        problem: Why it has no batch.
    """

    must_agree: MustAgree
    form: BatchForm | None = None
    problem: Problem | None = None


def compare_steps(comm: Comm, report: StepReport, device: torch.device) -> BatchForm | None:
    """Compare the reports of all ranks; return the fields on which they agree, if any rank knows them.

    Raises:
        LoadError: On all ranks, if one has a problem.
        DisagreementError: On all ranks, if they differ.
    """
    form, problem = report.form, report.problem
    content = {
        "must_agree": report.must_agree.to_json(),
        "form": None if form is None else form.to_json(),
        "problem": None if problem is None else problem.to_json(),
    }
    own = json.dumps(content).encode()
    messages = gather_bytes(comm, own, device)
    if problem is None and not report.must_agree.problem and all(message == own for message in messages):
        return form  # as nearly always: nothing has to be read
    contents = [json.loads(message) for message in messages]
    raise_problem((Problem.from_json(each["problem"]) for each in contents), rank=comm.rank)
    check_agreement([MustAgree.from_json(each["must_agree"]) for each in contents])
    return agreed_form([BatchForm.from_json(each["form"]) for each in contents])
