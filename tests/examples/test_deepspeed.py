"""DeepSpeed with the real package, on gloo and without a GPU: the same losses as one process."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tests.examples.test_examples import losses_of_one_process, run

pytestmark = [pytest.mark.deepspeed, pytest.mark.timeout(900)]


def test_the_losses_are_those_of_one_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))  # it compiles, and leaves that in the user's cache
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    said = run(*launcher, "ecosystem/deepspeed_engine.py", deadline=800.0)
    found = re.findall(r"^epoch (\d): 53 samples, loss ([\d.]+)$", said, flags=re.MULTILINE)
    assert [int(epoch) for epoch, _ in found] == [0, 1]
    assert [float(loss) for _, loss in found] == pytest.approx(losses_of_one_process(), abs=5e-6)
