"""Hands our variables on to the workers of a driver's job: Ray starts them with the environment of their node.

Ray calls the hook in the driver, in `ray.init()`, with the runtime environment that the script has given. It shows the
variables of that environment to everybody who may look at its dashboard, so no secret is among them.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from paceline.guard.rank.watched_process import BUFFERS, RESULTS, RUN_FOLDER
from paceline.guard.shared_memory.host_folder import DRIVER, HEAD, JOB, PYTHON
from paceline.process.private_files import write_private

HOOK = "RAY_RUNTIME_ENV_HOOK"  # the variable by which Ray knows whom to call
USERS_HOOK = "PACELINE_RAY_HOOK"  # the one that the user has set, which ours calls first
_NAMES = (RUN_FOLDER, HEAD, JOB, PYTHON, BUFFERS, RESULTS)
_BOOT = Path(__file__).parents[2] / "boot"


def hook_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which Ray calls our hook in the driver, and our hook the user's.

    >>> hook_variables({"RAY_RUNTIME_ENV_HOOK": "site.hook"})["PACELINE_RAY_HOOK"]
    'site.hook'
    """
    ours, theirs = f"{__name__}.{add_variables.__name__}", environ.get(HOOK, "")
    return {HOOK: ours} | ({USERS_HOOK: theirs} if theirs and theirs != ours else {})


def add_variables(runtime_env: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a runtime environment with our variables: Ray calls it."""
    theirs = os.environ.get(USERS_HOOK)
    if theirs:
        module, _, function = theirs.rpartition(".")
        runtime_env = getattr(importlib.import_module(module), function)(runtime_env)
    folder = os.environ.get(RUN_FOLDER)
    if folder:
        with suppress(OSError):  # the run has ended, or there is no room: then nobody is told that workers are missing
            write_private(os.path.join(folder, DRIVER), b"")
    return with_variables(runtime_env, os.environ)


def with_variables(runtime_env: Mapping[str, Any] | None, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return a runtime environment with our variables beside the user's, and our hooks first on the Python path.

    >>> added = with_variables({"env_vars": {"SEED": "1"}}, {"PACELINE_RUN_FOLDER": "/dev/shm/run"})["env_vars"]
    >>> added["SEED"], added["PACELINE_RUN_FOLDER"], added["PYTHONPATH"].endswith("guard/boot:${PYTHONPATH}")
    ('1', '/dev/shm/run', True)
    """
    given = dict(runtime_env or {})
    users = dict(given.get("env_vars") or {})
    # Ray puts the path that the node itself has in the place of the name, as it does for users
    path = os.pathsep.join([str(_BOOT), users.get("PYTHONPATH") or "${PYTHONPATH}"])
    ours = {name: environ[name] for name in _NAMES if name in environ}
    return {**given, "env_vars": {**users, **ours, "PYTHONPATH": path}}
