"""One pass over an epoch: brings what each rank has loaded to all ranks in step, or raises on all of them at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
import torch

from paceline.batch import Batch
from paceline.comm import Comm, CommError
from paceline.errors import InputError
from paceline.loader.agreement.alarm import Alarm, Turn
from paceline.loader.agreement.headers import DisagreementError
from paceline.loader.agreement.meeting import Header, meet, raise_problem
from paceline.loader.agreement.objects import gather_objects
from paceline.loader.agreement.problem import LoadError, Problem
from paceline.loader.epochs.epoch_summary import Tally
from paceline.loader.epochs.step_loader import Loaded
from paceline.loader.row_exchange.balancer import Balancer, Balancing, StepStatistics
from paceline.plan import EpochPlan
from paceline.plan.order import Ids

IDS = "paceline.ids"  # the field in which sample ids travel with their rows
_AHEAD = 1  # batches that are balanced while another is used


class Check(StrEnum):
    """When ranks compare what they must have in common."""

    FIRST = "first"  # at the first step of a pass
    EVERY = "every"  # at each step


@dataclass(slots=True, kw_only=True, eq=False)
class Pass:
    """The settings of one pass, and what it learns on the way.

    Attributes:
        comm: The ranks.
        check: When ranks compare.
        facts: What must be the same on all ranks, as a reader sees it.
        alarm: Makes what tells others of a problem, or gives it again; None if this rank is alone.
        balancer: Makes what evens out work, or gives it again; None if there is no cost function. It is asked once
            ranks have met: if only some of them had a cost function, they would part here.
        tally: What is noted for the summary.
        epoch: The epoch.
        num_steps: Steps of the pass, as this rank sees them.
        device: Where batches are put; None leaves them.
    """

    comm: Comm
    check: Check
    facts: Mapping[str, str]
    alarm: Callable[[], Alarm] | None
    balancer: Callable[[], Balancer] | None
    tally: Tally
    epoch: int
    num_steps: int
    device: torch.device | None
    told: list[Tally] = field(default_factory=list)  # what all ranks have noted, once the pass has ended
    balanced: StepStatistics | None = None  # what balancing did to the last batch
    _turn: Turn | None = None  # the alarm of this pass, from the second step on
    _heard: Problem | None = None  # because of which this rank has left the loop
    _empty: Batch | None = None  # the fields on which ranks agree, without rows

    def over(self, source: Iterator[Loaded]) -> Iterator[tuple[Batch, list[int]]]:
        """Yield this rank's batches with the samples of their real rows. All ranks ask for each."""
        if self.alarm is None:
            yield from self._alone(source)
            return
        try:
            first = self._receive(source, 0) if self.num_steps else None
            self._meet(first)
            if first is not None and self.balancer is not None:
                yield from self._balanced(first, source, self.balancer())
            elif first is not None:
                yield from self._in_turn(first, source, self.alarm)
            self.told = self._part(self.alarm())
        finally:
            if self._turn is not None:
                self._turn.end()

    def _part(self, alarm: Alarm) -> list[Tally]:
        """Meet at the end of the pass, wherever that is: ranks may have heard of a problem at different steps.

        It has a communicator of its own: somebody may wait in a collective of the job, until its alarm ends it.
        """
        if self._turn is not None and self._heard is not None and self._heard.rank == self.comm.rank:
            self._turn.announce(self._heard, has_left=True)
        try:
            told = gather_objects(alarm.apart, (self.tally, self._heard), self._carried_by)
        except CommError as error:
            if self._heard is None:
                raise
            raise LoadError(self._heard) from error
        raise_problem(problem for _, problem in told)
        return [tally for tally, _ in told]

    def _alone(self, source: Iterator[Loaded]) -> Iterator[tuple[Batch, list[int]]]:
        for step in range(self.num_steps):
            loaded = self._receive(source, step)
            if step == 0:
                self._meet(loaded)
                loaded = self._filled(loaded)
            raise_problem([loaded.problem])
            assert loaded.batch is not None  # it has no problem
            yield loaded.batch, loaded.ids
        self.told = [self.tally]

    def _in_turn(
        self, first: Loaded, source: Iterator[Loaded], alarm: Callable[[], Alarm]
    ) -> Iterator[tuple[Batch, list[int]]]:
        """Yield batches as they are. Each is looked at one step ahead, so that others hear of a problem in time."""
        loaded, ahead = self._filled(first), None
        for step in range(self.num_steps):
            if step > 0:
                # made when the first batch is out: nobody needs it before
                turn = self._turn = self._turn or alarm().begin()
                self._heard = turn.heard(step)
                if self._heard is not None:
                    return
                loaded = ahead or self._receive(source, step)
                ahead = self._receive(source, step + 1) if step + 1 < self.num_steps else None
                if ahead is not None and ahead.problem is not None:
                    turn.announce(ahead.problem)
                if self.check is Check.EVERY:
                    self._empty = meet(self.comm, _header(loaded, {}), self._carried_by)
                elif step == 1:  # nobody has looked ahead at this one
                    raise_problem(gather_objects(self.comm, loaded.problem, self._carried_by))
            assert loaded.batch is not None  # problems were raised, on all ranks
            yield loaded.batch, loaded.ids

    def _balanced(
        self, first: Loaded, source: Iterator[Loaded], balancer: Balancer
    ) -> Iterator[tuple[Batch, list[int]]]:
        """Yield batches after rows have moved; while one is used, the next is balanced. Problems travel with costs."""
        pending: deque[tuple[Balancing, Problem | None]] = deque()
        begun = 0
        for step in range(self.num_steps):
            while begun < min(self.num_steps, step + 1 + _AHEAD):
                loaded = self._receive(source, begun) if begun else self._filled(first)
                pending.append((self._start(loaded, balancer), loaded.problem))
                begun += 1
            balancing, problem = pending.popleft()
            try:
                batch = balancing.finish()
            except DisagreementError:
                raise_problem(gather_objects(self.comm, problem, self._carried_by))
                raise  # the cost function has failed, or gave what cannot be used
            self.balanced = balancing.statistics
            self.tally.note_step(self.balanced)
            ids = batch[IDS]
            assert isinstance(ids, torch.Tensor)
            yield batch.without(IDS), ids[: batch.num_real].tolist()

    def _start(self, loaded: Loaded, balancer: Balancer) -> Balancing:
        batch = loaded.batch if loaded.batch is not None else self._filled(replace(loaded, problem=None)).batch
        assert batch is not None  # ranks have met, so the fields are known
        ids = torch.zeros(batch.batch_size, dtype=torch.int64)
        ids[: batch.num_real] = torch.tensor(loaded.ids, dtype=torch.int64)
        problem = "" if loaded.problem is None else str(loaded.problem)
        return balancer.start(batch.with_field(IDS, ids.to(batch.device)), problem=problem)

    def _meet(self, first: Loaded | None) -> None:
        """Compare what ranks have at the first step, before any of them goes on."""
        header = Header(facts=self.facts) if first is None else _header(first, self.facts)
        self._empty = meet(self.comm, header, self._carried_by)
        if first is not None and self._empty is None:
            reasons = "; ".join(f"sample {sample}: {text}" for sample, text in self.tally.skipped[:3])
            raise InputError(f"no sample of the first step could be loaded, on any rank: {reasons or 'others say why'}")

    def _receive(self, source: Iterator[Loaded], step: int) -> Loaded:
        """Take the next batch. What goes wrong with it is noted in it, with its place."""
        try:
            loaded = next(source)
            if loaded.batch is not None and self.device is not None:
                loaded = replace(loaded, batch=loaded.batch.to(self.device, non_blocking=True))
        except Exception as error:  # of the workers themselves: one was killed, or is too late
            loaded = Loaded(batch=None, ids=[], num_rows=1, problem=Problem.of(error))
        if loaded.skipped:
            self.tally.note_skipped(loaded.skipped)
        loaded = self._filled(loaded)
        if loaded.batch is not None and self._empty is not None and self.check is Check.FIRST:
            loaded = self._compared(loaded, loaded.batch)
        if loaded.problem is not None:
            placed = loaded.problem.at(rank=self.comm.rank, epoch=self.epoch, step=step)
            return replace(loaded, batch=None, problem=placed)
        return loaded

    def _filled(self, loaded: Loaded) -> Loaded:
        """Give a step without a sample a batch of padding, once the fields are known."""
        if loaded.batch is not None or loaded.problem is not None or self._empty is None:
            return loaded
        return replace(loaded, batch=self._empty.emptied(loaded.num_rows, self.device))

    def _compared(self, loaded: Loaded, batch: Batch) -> Loaded:
        assert self._empty is not None
        if batch.has_fields_of(self._empty):
            return loaded
        now, then = set(map(str, batch.schema())), set(map(str, self._empty.schema()))
        text = f"{'; '.join(sorted(now - then))}, at the first step it was {'; '.join(sorted(then - now))}"
        problem = Problem(text=f"fields have changed: {text}; where all ranks change alike, give check='every'")
        return replace(loaded, problem=problem)

    @property
    def _carried_by(self) -> torch.device:
        return self.device or torch.device("cpu")


@dataclass(slots=True, kw_only=True)
class Handed:
    """What the loop has got in a pass.

    Attributes:
        keeps_ids: Whether the samples of all batches are kept: those of rows that moved cannot be told otherwise.
        plan: The plan of the pass.
        epoch: Its epoch.
        going: The pass.
    """

    keeps_ids: bool
    plan: EpochPlan | None
    epoch: int
    going: Pass
    num_steps: int = 0
    num_rows: int = 0  # of the last batch
    last_ids: list[int] = field(default_factory=list)  # samples of the last batch
    kept: list[Ids] = field(default_factory=list)

    def note(self, batch: Batch, ids: list[int]) -> None:
        """Note a batch that is handed out."""
        self.num_steps += 1
        self.num_rows, self.last_ids = batch.batch_size, ids
        if self.keeps_ids:
            self.kept.append(np.array(ids, np.int64))

    @property
    def last(self) -> Ids:
        """The samples of the last batch."""
        return np.array(self.last_ids, np.int64)

    @property
    def has_ended(self) -> bool:
        """Whether the pass has come to its end."""
        return bool(self.going.told)

    def ids_of(self, rank: int) -> Ids:
        """Return the samples of all real rows that a rank's loop has got, in their order."""
        if self.keeps_ids or self.plan is None:
            return np.concatenate([np.empty(0, np.int64), *self.kept])
        ids = self.plan.rows(rank, self.epoch, 0, self.num_steps).reshape(-1)
        return ids[(ids >= 0) & ~np.isin(ids, list(self.going.tally.skipped_samples))]


def _header(loaded: Loaded, facts: Mapping[str, str]) -> Header:
    batch = None if loaded.batch is None else loaded.batch.emptied(1, "cpu")
    return Header(facts={**facts, "rows of the batch": f"{loaded.num_rows}"}, empty=batch, problem=loaded.problem)
