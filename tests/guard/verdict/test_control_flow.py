"""What is read in the source of a function: which lines may be passed over, and which a loop repeats."""

from __future__ import annotations

from paceline.guard.verdict.job_warning import WarningCause
from paceline.guard.verdict.source.control_flow import flow_of
from paceline.guard.verdict.source.functions_in_source import texts_around
from paceline.guard.verdict.source.user_source import condition_around, relate
from paceline.guard.verdict.warnings.ignore_comment import is_ignored

LOOP = """\
for step in range(5):
    if is_bad(step):
        continue
    comm.Allreduce(gradient)
    if comm.allreduce(flag) > 0:
        comm.Barrier()
    try:
        comm.Bcast(weights)
    except OSError:
        pass
    for parameter in parameters:
        comm.Reduce(parameter)
comm.Barrier()
"""


def test_a_continue_leads_over_what_is_below_it() -> None:
    flow = flow_of(LOOP, 4, loop_at=1)
    assert flow is not None
    assert flow.has_continue_above
    assert flow.may_be_passed_over
    assert flow.conditions == ()


def test_a_call_in_the_test_of_an_if_is_not_under_it() -> None:
    assert condition_around(LOOP, 5) is None
    condition = condition_around(LOOP, 6)
    assert condition is not None
    assert condition.head == "comm.allreduce(flag) > 0"
    relation = relate(LOOP, 5, 6)
    assert relation is not None
    assert relation.fork is None


def test_a_caught_exception_leads_over_a_call() -> None:
    flow = flow_of(LOOP, 8, loop_at=1)
    assert flow is not None
    assert flow.is_caught


def test_an_exception_that_is_suppressed_leads_over_a_call() -> None:
    flow = flow_of("with contextlib.suppress(OSError):\n    a()\n", 2)
    assert flow is not None
    assert flow.is_caught


def test_a_loop_around_a_line_is_named() -> None:
    flow = flow_of(LOOP, 12, loop_at=1)
    assert flow is not None
    assert flow.loops == ("for parameter in parameters",)
    assert flow.outermost_loop is not None
    assert (flow.outermost_loop.line, flow.outermost_loop.head) == (11, "for parameter in parameters")


def test_a_continue_of_another_loop_does_not_lead_over_a_line() -> None:
    source = "for x in xs:\n    for y in x:\n        if not y:\n            continue\n        a(y)\n    b(x)\n"
    flow = flow_of(source, 6, loop_at=1)
    assert flow is not None
    assert not flow.may_be_passed_over


def test_a_return_of_an_inner_function_is_not_one_of_the_outer() -> None:
    source = "def f():\n    def g():\n        return 1\n    a(g)\n"
    flow = flow_of(source, 4)
    assert flow is not None
    assert not flow.has_return_above


def test_what_is_not_python_tells_nothing() -> None:
    assert flow_of("for x in:", 1) is None
    assert flow_of(LOOP, 13, loop_at=1) is None


RETRIES = """\
def synchronise():
    for n in range(times):
        try:
            first()
            return second()
        except OSError:
            if n == times - 1:
                raise
"""


def test_a_loop_that_ends_when_all_went_well_tries_again() -> None:
    flow = flow_of(RETRIES, 5)
    assert flow is not None
    assert flow.is_retried
    assert not flow.is_caught


def test_a_try_that_is_followed_by_a_break_is_made_again_after_a_continue() -> None:
    source = "while True:\n    try:\n        a()\n    except OSError:\n        continue\n    break\n"
    flow = flow_of(source, 3)
    assert flow is not None
    assert flow.is_retried


def test_a_loop_over_batches_with_a_caught_exception_does_not_try_again() -> None:
    flow = flow_of(
        "for x in xs:\n    try:\n        a(x)\n        if x:\n            break\n    except OSError:\n        b()\n", 3
    )
    assert flow is not None
    assert flow.is_caught
    assert not flow.is_retried


def test_a_loop_with_a_fixed_number_of_rounds_makes_a_call_as_often_on_every_rank() -> None:
    fixed = flow_of("for x in range(4):\n    a(x)\n", 2)
    counted = flow_of("for x in range(steps):\n    a(x)\n", 2)
    skipped = flow_of("for x in range(4):\n    if ok(x):\n        a(x)\n", 3)
    assert fixed is not None
    assert counted is not None
    assert skipped is not None
    assert (fixed.may_be_repeated, counted.may_be_repeated, skipped.may_be_repeated) == (False, True, True)


def test_a_finally_and_an_except_clean_up_after_what_their_try_holds() -> None:
    source = "try:\n    a()\nexcept OSError:\n    b()\nfinally:\n    c()\nd()\n"
    blocks = [relation.second_clean_up for line in (4, 6, 7) if (relation := relate(source, 2, line)) is not None]
    assert [block and (block.head, block.line) for block in blocks] == [("except OSError", 1), ("finally", 1), None]


def test_a_condition_on_the_round_of_a_shared_loop_comes_out_the_same() -> None:
    source = (
        "for step in range(6):\n    a()\n    if step % 3 == 2:\n        b()\n    if step % every == 2:\n        c()\n"
    )
    to_b, to_c = relate(source, 2, 4), relate(source, 2, 6)
    assert to_b is not None
    assert to_b.second_condition is None
    assert to_c is not None
    assert to_c.second_condition is not None
    assert to_c.second_condition.head == "step % every == 2"


def test_a_number_that_the_loop_changes_is_not_settled() -> None:
    relation = relate("for i, x in enumerate(xs):\n    a()\n    if i == 2:\n        i += 1\n        b()\n", 2, 5)
    assert relation is not None
    assert relation.second_condition is not None


def test_an_expression_may_pass_a_call_over() -> None:
    flows = [flow_of(source, 1) for source in ("x and f()\n", "f() if x else None\n", "[f(a) for a in b if a]\n")]
    assert [flow is not None and flow.may_be_passed_over for flow in flows] == [True, True, True]
    alone = flow_of("f(x)\n", 1)
    assert alone is not None
    assert not alone.may_be_passed_over


def test_a_source_that_is_nested_too_deeply_tells_nothing() -> None:
    """It must not end the judge, which reads what a script has left behind."""
    source = "x = " + "-" * 100_000 + "1"
    assert texts_around(source, 1, with_called=True) == []
    assert relate(source, 1, 1) is None
    assert not is_ignored(source, 1, WarningCause.HANDLE_LEAK)


def test_what_python_warns_of_in_a_source_is_not_told_again() -> None:
    source = "import re\nif rank == 0:\n    pattern = re.compile('\\d')\n"
    condition = condition_around(source, 3)
    assert condition is not None
    assert condition.head == "rank == 0"


def test_a_long_chain_of_branches_is_read_to_its_end() -> None:
    branches = "".join(f"elif kind == {number}:\n    f({number})\n" for number in range(1, 1500))
    condition = condition_around(f"if kind == 0:\n    f(0)\n{branches}", 3000)
    assert condition is not None
    assert condition.head == "kind == 1499"
