"""What Python imports first under a run: no process notices it, of any version, whatever its modules are called."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import paceline.guard

_BOOT = Path(paceline.guard.__file__).parent / "boot"
_DEADLINE = 60.0
_VERSIONS = ("2.7", *(f"3.{minor}" for minor in range(4, 15)))


def _pythons() -> dict[str, str]:
    """Return the Pythons of this machine, by version."""
    found = {version: shutil.which(f"python{version}") for version in _VERSIONS}
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for path in root.glob("versions/*/bin/python"):
        found[".".join(path.parts[-3].split(".")[:2])] = str(path)
    return {version: path for version, path in found.items() if path is not None}


def _run(command: list[str], folder: Path, *, watched: bool, path: str = "") -> tuple[int, str, str]:
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    if watched:
        records = folder / "records"
        records.mkdir(mode=0o700, exist_ok=True)
        environment |= {
            "PYTHONPATH": os.pathsep.join(filter(None, [str(_BOOT), path])),
            "PACELINE_RUN_FOLDER": str(records),
        }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_DEADLINE, check=False
    )
    if watched:
        assert not list(records.glob("problem.*")), [path.read_text() for path in records.glob("problem.*")]
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("customized", ["", "import sys; sys.stdout.write('mine ')", "import not_there", "1 / 0"])
@pytest.mark.parametrize("version", _VERSIONS)
def test_any_python_starts_as_it_does_alone(version: str, customized: str, tmp_path: Path) -> None:
    python = _pythons().get(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    custom = tmp_path / "custom"
    custom.mkdir()
    if customized:
        (custom / "sitecustomize.py").write_text(customized)
    command = [python, "-c", "import sys; print(sys.path); print('sitecustomize' in sys.modules)"]
    bare = _run(command, tmp_path, watched=False, path=str(custom))
    watched = _run(command, tmp_path, watched=True, path=str(custom))
    assert watched[0] == bare[0] == 0
    assert watched[2] == bare[2]
    assert watched[1].splitlines()[0] == bare[1].splitlines()[0]


def test_the_first_file_has_only_what_every_python_can_parse() -> None:
    tree = ast.parse((_BOOT / "sitecustomize.py").read_text(), feature_version=(3, 4))
    new = (
        ast.JoinedStr,
        ast.AnnAssign,
        ast.NamedExpr,
        ast.AsyncFunctionDef,
        ast.FunctionDef,
        ast.Nonlocal,
        ast.Starred,
    )
    assert not [node for node in ast.walk(tree) if isinstance(node, new)]


_LOADED = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
_IMPORT_ALL = """
import sys
for name in {names!r}:
    module = __import__(name)
    print(name, getattr(module, "MINE", False))
"""
_JOIN = """
from pathlib import Path
from paceline.guard.rank.watched_process import SESSION
assert SESSION.join("mpi", rank=0, world_size=2, job="one") is not None
"""


def _hidden_names(folder: Path) -> list[str]:
    """Return the modules that are loaded in a watched process before its script, and not without the guard."""
    loaded = [
        set(_run([sys.executable, "-c", _LOADED], folder, watched=watched)[1].split()) for watched in (False, True)
    ]
    return sorted(loaded[1] - loaded[0] - {"paceline", "sitecustomize"})


@pytest.mark.parametrize("start", ["script", "module", "package", "text"])
def test_a_script_gets_its_own_modules_whatever_they_are_called(start: str, tmp_path: Path) -> None:
    names = ["queue", "logging", "concurrent", "json", "struct", "token"]
    if start in ("script", "text"):  # Python itself needs some of the others for modules
        names += _hidden_names(tmp_path)
        assert {"json", "struct", "token"} <= {*names[6:]}
    job = tmp_path / "job"
    job.mkdir()
    for name in names:
        (job / f"{name}.py").write_text("MINE = True\n")
    text = _IMPORT_ALL.format(names=names)
    (job / "train.py").write_text(text)
    (job / "__main__.py").write_text(text)
    arguments = {
        "script": [str(job / "train.py")],
        "module": ["-m", "train"],
        "package": [str(job)],
        "text": ["-c", text],
    }
    command = [sys.executable, *arguments[start]]
    bare = _run(command, job, watched=False)
    assert bare[0] == 0
    assert "token True" in bare[1]
    assert _run(command, job, watched=True) == bare


def test_a_rank_whose_modules_hide_those_of_python_is_watched(tmp_path: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    for name in ("queue", "logging", "json", "hashlib", "signal", "struct"):
        (job / f"{name}.py").write_text("MINE = True\n")
    (job / "train.py").write_text("import json, signal\nassert json.MINE\n" + _JOIN)
    assert _run([sys.executable, "train.py"], job, watched=True) == (0, "", "")
    assert len(list((job / "records").glob("ring.*"))) == 1


def test_modules_that_nothing_hides_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "json").mkdir()  # a folder of data: Python prefers its own module
    (tmp_path / "train.py").write_text("import json, threading; print(hasattr(json, 'dumps'))\n")
    assert _run([sys.executable, "train.py"], tmp_path, watched=True) == (0, "True\n", "")


@pytest.mark.parametrize(("job", "is_watched"), [("17", True), ("18", False), (None, True)])
def test_a_batch_job_that_inherits_the_variables_of_another_is_left_alone(
    job: str | None, is_watched: bool, tmp_path: Path
) -> None:
    records = tmp_path / "records"
    records.mkdir(mode=0o700)  # it is there, so no watcher is started
    environment = {name: value for name, value in os.environ.items() if name != "SLURM_JOB_ID"} | {
        "PYTHONPATH": str(_BOOT), "PACELINE_RUN_FOLDER": str(records), "PACELINE_HEAD": "127.0.0.1:1",
        "PACELINE_BATCH_JOB": "SLURM_JOB_ID=17", **({} if job is None else {"SLURM_JOB_ID": job}),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", "import sys; print('paceline.guard' in sys.modules)"],
        env=environment, capture_output=True, text=True, timeout=_DEADLINE, check=True,
    )  # fmt: skip
    assert done.stdout == f"{is_watched}\n"
