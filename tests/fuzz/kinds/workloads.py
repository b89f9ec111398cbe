"""Workloads in YAML, settings on the command line, and manifests: what `paceline bench show` and `run` read first."""

from __future__ import annotations

import io
import json
import random
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import yaml
from tests.fuzz.kinds import Attempt, Kind
from tests.fuzz.spoiled_values import VALUES, spoil_bytes, spoil_json, spoil_value

from paceline.bench.data.generate import generate
from paceline.bench.data.manifest import check_manifest
from paceline.bench.data.store import store_of
from paceline.bench.workload.workload import SHIPPED, load_workload
from paceline.cli.main import main
from paceline.errors import PacelineError

_TAGS = ("!!int", "!!float", "!!bool", "!!timestamp", "!!binary", "!!set", "!!omap", "!!python/object:os.system", "!x")
_KEYS = (
    "reader.batch_size", "dataset.record_dims", "train.computation_time", "train.computation_time_stdev",
    "storage.storage_options", "dataset.format", "dataset.num_files_train", "model.name", "output.folder", "nothing.x",
)  # fmt: skip
_WRONG_USAGE = 2


def _bomb(chance: random.Random) -> bytes:
    """Return a short text that stands for lists in lists, as many as one likes."""
    depth, key = chance.randrange(2, 60), chance.choice(_KEYS)
    lines = ["a0: &a0 [x, x]", *(f"a{level}: &a{level} [*a{level - 1}, *a{level - 1}]" for level in range(1, depth))]
    section, _, name = key.partition(".")
    return "\n".join([*lines, f"{section}:", f"  {name}: *a{depth - 1}"]).encode()


def workloads(folder: Path) -> Attempt:
    """Spoil a workload or settings, and show what it comes to."""
    contents = [path.read_bytes() for path in sorted(SHIPPED.glob("*.yaml"))]

    def attempt(chance: random.Random) -> None:
        content = chance.choice(contents)
        match chance.randrange(8):
            case 0 | 1:
                content = spoil_bytes(chance, content)
            case 2 | 3 | 4:
                content = yaml.safe_dump(spoil_value(chance, yaml.safe_load(content))).encode("utf8", "replace")
            case 5:
                words = content.split(b": ")
                words.insert(chance.randrange(1, len(words)), chance.choice(_TAGS).encode() + b" x")
                content = b": ".join(words)
            case 6:
                content = _bomb(chance) if chance.random() < 0.8 else b"a: " + b"[" * 2000 + b"]" * 2000
        path = folder / "w.yaml"
        path.write_bytes(content)
        overrides = []
        if chance.random() < 0.5:
            value: Any = chance.choice(
                [*VALUES, "*x", "!!int x", "{a: [", "&a [*a]", "\t", "2024-99-99", "1e999", "0x", "~"]
            )
            overrides.append(f"{chance.choice(_KEYS)}={value if isinstance(value, str) else json.dumps(value)}")
        output, errors = io.StringIO(), io.StringIO()
        arguments = ["bench", "show", str(path), *overrides, "-n", chance.choice(["1", "3", "9" * 30])]
        with redirect_stdout(output), redirect_stderr(errors):
            code = main([*arguments, *(["--scale", "0.01"] if chance.random() < 0.2 else [])])
        told = output.getvalue() + errors.getvalue()
        assert code in (0, _WRONG_USAGE), code
        assert "\x1b" not in told, "control characters reach the terminal"
        assert len(told) < 100_000, "it says too much"
        if code == _WRONG_USAGE:
            raise PacelineError(told)

    return attempt


def manifests(folder: Path) -> Attempt:
    """Spoil the manifest of a data set, or the list of a block's files, and read and generate it again."""
    settings = [f"dataset.data_folder={folder}/data", "dataset.num_files_train=4", "dataset.record_length_bytes=64"]
    workload = load_workload("small", settings).workload
    store = store_of(workload)
    generate(workload, store)
    ledger = min((folder / "data").rglob("0.csv"))
    manifest = folder / "data" / "manifest.json"
    contents = {path: path.read_bytes() for path in (manifest, ledger)}

    def attempt(chance: random.Random) -> None:
        for path, content in contents.items():
            path.write_bytes(content)
        if chance.random() < 0.7:
            manifest.write_bytes(spoil_json(chance, contents[manifest]))
        else:
            ledger.write_bytes(spoil_bytes(chance, contents[ledger]))
            generate(workload, store)
        check_manifest(workload, store)

    return attempt


KINDS = {
    "workloads and settings": Kind(prepare=workloads, allowed=PacelineError, share=0.3),
    "manifests of data sets": Kind(prepare=manifests, allowed=PacelineError),
}
