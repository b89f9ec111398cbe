"""What `ncclras -f json` prints: who is behind, and who did not answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.cli.main import main
from paceline.doctor.nccl_ras import read_nccl_ras
from paceline.errors import InputError


def answer(counts: dict[int, int], missing: tuple[int, ...] = ()) -> dict[str, Any]:
    """Return an answer in the form of NCCL 2.28."""
    ranks = [
        {
            "rank": rank, "host": "10.0.0.1", "pid": 6000 + rank, "cuda_dev": 0, "nvml_dev": 0,
            "status": {"init_state": 0, "async_error": 0, "finalize_called": False},
            "collective_counts": {"Broadcast": 1, "Reduce": 0, "AllGather": 0, "ReduceScatter": 0, "AllReduce": number},
        }
        for rank, number in counts.items()
    ]  # fmt: skip
    communicator = {
        "hash": "0xf31e5874c3f25459", "size": len(counts) + len(missing), "ranks_count": len(counts),
        "missing_ranks_count": len(missing), "ranks": ranks, "missing_ranks": [{"rank": rank} for rank in missing],
    }  # fmt: skip
    return {"nccl_version": "2.28.9", "communicators_count": 1, "communicators": [communicator]}


def write(folder: Path, value: Any) -> Path:
    path = folder / "ras.json"
    path.write_text(json.dumps(value))
    return path


def test_a_rank_that_has_counted_fewer_calls_is_the_place_to_look(tmp_path: Path) -> None:
    (found,) = read_nccl_ras(write(tmp_path, answer({0: 101, 1: 100, 2: 101, 3: 101})))
    assert found.behind() == (1,)
    assert found.text == (
        "communicator 0xf31e5874c3f25459 of 4 ranks: ranks 0, 2-3 counted 101 AllReduce, 1 Broadcast; rank 1 counted "
        "100 AllReduce, 1 Broadcast; probably the place to look: rank 1, behind all others"
    )


def test_ranks_that_did_not_answer_may_be_anywhere_so_nobody_is_named(tmp_path: Path) -> None:
    (found,) = read_nccl_ras(write(tmp_path, answer({0: 101, 1: 100}, missing=(2,))))
    assert found.text is not None
    assert found.text.endswith("; rank 2 did not answer, and may be anywhere")


def test_ranks_that_are_level_give_nothing_to_say(tmp_path: Path) -> None:
    (found,) = read_nccl_ras(write(tmp_path, answer({0: 7, 1: 7})))
    assert (found.behind(), found.text) == ((), None)


def test_the_doctor_tells_it_as_text_and_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = write(tmp_path, answer({0: 3, 1: 2})), tmp_path / "out.json"
    assert main(["doctor", "--nccl-ras", str(path), "--json", str(out)]) == 0
    assert "probably the place to look: rank 1, behind all others" in capsys.readouterr().out
    (told,) = json.loads(out.read_text())["nccl_ras"]
    assert (told["size"], told["behind"], told["missing"]) == (2, [1], [])


@pytest.mark.parametrize(
    "value",
    [
        [], {}, {"communicators": [{}]}, {"communicators": None},
        answer({0: -1}), answer({5: 1}), answer({0: 1 << 70}), answer({0: True}),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(InputError, match="is not an answer of `ncclras -f json`"):
        read_nccl_ras(write(tmp_path, value))
