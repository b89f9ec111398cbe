"""Workers of Ray get our variables beside the user's, without the key; the user's own hook is called as before."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from paceline.guard.rank.ray.runtime_env_hook import add_variables, hook_variables, with_variables
from paceline.guard.run.run_folder import watched_environment
from paceline.guard.shared_memory.host_folder import DRIVER

_RUN = {
    "PACELINE_RUN_FOLDER": "/dev/shm/paceline-run-x",
    "PACELINE_HEAD": "10.0.0.1:40000",
    "PACELINE_JOB": "ray 0123",
    "PACELINE_BUFFERS": "off",
}


def test_variables_of_the_run_are_added_and_those_of_the_user_stay() -> None:
    given = {"pip": ["rich"], "env_vars": {"SEED": "1", "PYTHONPATH": "/my/code"}}
    made = with_variables(given, {**_RUN, "HOME": "/home/me"})
    boot = watched_environment(Path("/dev/shm/x"))["PYTHONPATH"].partition(":")[0]
    assert made == {"pip": ["rich"], "env_vars": {"SEED": "1", **_RUN, "PYTHONPATH": f"{boot}:/my/code"}}
    assert given["env_vars"] == {"SEED": "1", "PYTHONPATH": "/my/code"}


@pytest.mark.parametrize("given", [None, {}, {"env_vars": None}])
def test_a_script_without_a_runtime_environment_keeps_the_python_path_of_the_node(given: dict[str, None]) -> None:
    made = with_variables(given, _RUN)["env_vars"]
    assert made["PYTHONPATH"].endswith("/guard/boot:${PYTHONPATH}")
    assert made["PACELINE_HEAD"] == "10.0.0.1:40000"


def test_the_key_is_never_handed_to_ray() -> None:
    key = "ab" * 32
    assert key not in str(with_variables(None, {**_RUN, "PACELINE_KEY": key}))


def test_ray_finds_the_hook_by_the_name_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    module, _, function = hook_variables({})["RAY_RUNTIME_ENV_HOOK"].rpartition(".")
    assert getattr(sys.modules[module], function) is add_variables
    for name in ("PACELINE_RAY_HOOK", "PACELINE_RUN_FOLDER"):
        monkeypatch.delenv(name, raising=False)
    assert add_variables({"env_vars": {"SEED": "1"}})["env_vars"]["SEED"] == "1"


def test_the_hook_of_the_user_is_called_first(monkeypatch: pytest.MonkeyPatch) -> None:
    users = ModuleType("users_hooks")
    users.pin = lambda runtime_env: {"pip": ["rich"], "env_vars": {"GIVEN": str(runtime_env)}}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "users_hooks", users)
    set_by_user = {"RAY_RUNTIME_ENV_HOOK": "users_hooks.pin"}
    for name, value in {**set_by_user, **hook_variables(set_by_user), **_RUN}.items():
        monkeypatch.setenv(name, value)
    made = add_variables(None)
    assert made["pip"] == ["rich"]
    assert (made["env_vars"]["GIVEN"], made["env_vars"]["PACELINE_JOB"]) == ("None", "ray 0123")


def test_a_run_within_a_run_does_not_make_the_hook_call_itself() -> None:
    assert hook_variables(hook_variables({})) == hook_variables({})


def test_the_run_learns_that_a_driver_asks_for_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PACELINE_RAY_HOOK", raising=False)
    monkeypatch.setenv("PACELINE_RUN_FOLDER", str(tmp_path))
    add_variables(None)
    assert (tmp_path / DRIVER).exists()


def test_a_driver_that_has_outlived_its_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PACELINE_RAY_HOOK", raising=False)
    monkeypatch.setenv("PACELINE_RUN_FOLDER", str(tmp_path / "gone"))
    assert add_variables({"pip": ["rich"]})["pip"] == ["rich"]
