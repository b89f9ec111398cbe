"""Feeds passes with loaded steps: loaded in this process, or ahead of time by workers of torch's DataLoader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch.utils.data import DataLoader

from paceline.loader.sampler import PlanSampler
from paceline.loader.sampler_state import PlannedPass
from paceline.loader.workers.step_loader import LoadedStep, StepLoader, StepRequest
from paceline.loader.workers.worker_deaths import DEATHS


class StepFeed:
    """Loads the steps of passes.

    Args:
        sampler: Names the samples of each step.
        step_loader: Loads them.
        num_workers: Processes that load ahead; 0 loads in this process.
        worker_settings: More settings of torch's DataLoader.
    """

    def __init__(
        self, sampler: PlanSampler, step_loader: StepLoader, *, num_workers: int, worker_settings: Mapping[str, Any]
    ) -> None:
        self._requests, self._step_loader = _PassRequests(sampler), step_loader
        self._num_workers, self._settings = num_workers, worker_settings
        self._workers = self._new_workers()

    @property
    def serves_one_pass(self) -> bool:
        """Whether a pass must have ended before the next begins: workers that stay serve one iterator at a time."""
        return self._workers is not None and bool(self._settings.get("persistent_workers"))

    def steps_of(self, planned: PlannedPass) -> Iterator[LoadedStep]:
        """Yield the steps of a pass as this rank loads them."""
        self._requests.begin(planned)
        if self._workers is not None:
            batches = iter(self._workers)
            with DEATHS.held_back():
                while (loaded := DEATHS.take(batches)) is not None:
                    yield loaded
                    del loaded  # no batch is held here while the next is loaded
            return
        pins = self._settings.get("pin_memory", False)
        for request in self._requests:
            yield self._step_loader[request].pin_memory() if pins else self._step_loader[request]

    def end_workers(self) -> None:
        """End workers that have stayed after their pass; the next pass starts new ones."""
        self._workers = self._new_workers()

    def _new_workers(self) -> DataLoader[Any] | None:
        if self._num_workers == 0:
            return None
        return DataLoader(
            self._step_loader,  # type: ignore[arg-type]  # it is indexed by what the sampler yields
            batch_size=None,
            sampler=self._requests,
            collate_fn=_unchanged,
            num_workers=self._num_workers,
            **self._settings,
        )


class _PassRequests:
    """What to load in each step of the pass that began last: DataLoader hands it to its workers."""

    def __init__(self, sampler: PlanSampler) -> None:
        self._sampler = sampler
        self._planned: PlannedPass | None = None

    def begin(self, planned: PlannedPass) -> None:
        """Choose the pass of the next iterator; earlier iterators stay with theirs."""
        self._planned = planned

    def __iter__(self) -> Iterator[StepRequest]:
        assert self._planned is not None
        return self._requests_of(self._planned)

    def _requests_of(self, planned: PlannedPass) -> Iterator[StepRequest]:
        for step, ids in enumerate(self._sampler.lists_of(planned)):
            assert planned.plan is not None  # it has steps
            yield StepRequest(epoch=planned.epoch, step=step, ids=ids, num_rows=planned.plan.batch_size_of(step))

    def __len__(self) -> int:
        return 0 if self._planned is None else self._planned.num_steps


def _unchanged(loaded: Any) -> Any:
    return loaded
