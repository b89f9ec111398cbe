"""MosaicML streaming with the real package: the same losses as one process, and what its own dealing gives."""

from __future__ import annotations

import re
import sys

import pytest
from tests.examples.test_examples import losses_of_one_process, run

pytestmark = [pytest.mark.streaming, pytest.mark.timeout(900)]


def test_the_losses_are_those_of_one_process_and_its_own_stream_repeats_a_sample() -> None:
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    said = run(*launcher, "ecosystem/mosaic_streaming.py", deadline=800.0)
    found = re.findall(r"^epoch (\d): 53 samples, loss ([\d.]+)$", said, flags=re.MULTILINE)
    assert [int(epoch) for epoch, _ in found] == [0, 1]
    assert [float(loss) for _, loss in found] == pytest.approx(losses_of_one_process(), abs=5e-6)
    assert "stream: 54 samples in 27 steps on every rank\n" in said
