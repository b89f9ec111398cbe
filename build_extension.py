"""Compiles the extension module while pip builds Paceline: a build hook of hatchling.

The system's C compiler is used. Where there is none, the build asks the package index for one that comes as a wheel.
The module is made for the limited API of CPython 3.11, so one wheel serves all later versions.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("paceline/compiled")
MODULE = "extension.abi3.so"
COMPILER_WHEEL = "ziglang>=0.13"
# Whole numbers are the same with any flags; -ffp-contract=off keeps it so, should a kernel ever compute with others.
FLAGS = ["-std=c11", "-O3", "-ffp-contract=off", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra"]
LIMITED_API = ["-DPy_LIMITED_API=0x030B0000"]
# ziglang compiles for the processor it runs on, unless told otherwise; a wheel must run on others too
COMPILER_OF_WHEEL = [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline"]


def system_compiler() -> list[str] | None:
    """Return the command of the compiler that CC names, that Python was built with, or that the system has."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    built_with = shlex.split(sysconfig.get_config_var("CC") or "")[:1]
    for name in (*built_with, "cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    return None


def compile_module(source: Path, into: Path) -> None:
    """Compile the C files of a folder into one module, which then replaces an old one that may be in use."""
    include = Path(sysconfig.get_paths()["include"])
    if not (include / "Python.h").is_file():
        raise SystemExit(
            f"{include / 'Python.h'} is missing: Paceline compiles a small module in C, and that needs the headers of "
            f"this Python; install them (on Debian and Ubuntu: python3-dev)"
        )
    # More flags for our own builds: -Werror and sanitizers. A user's compiler may warn of what ours does not know.
    extra = shlex.split(os.environ.get("PACELINE_CFLAGS", ""))
    files = sorted(map(str, source.glob("*.c")))
    unfinished = into.with_name(f"{into.name}.{os.getpid()}")
    compiler = system_compiler() or COMPILER_OF_WHEEL
    command = [*compiler, *FLAGS, *LIMITED_API, f"-I{include}", *extra, *files, "-o", str(unfinished)]
    print(shlex.join(command), flush=True)
    try:
        subprocess.run(command, check=True)
        unfinished.replace(into)
    finally:
        unfinished.unlink(missing_ok=True)


class ExtensionHook(BuildHookInterface):  # type: ignore[misc, type-arg]
    """Adds the compiled module to a wheel; for an editable install, puts it beside its sources."""

    def dependencies(self) -> list[str]:
        """Ask for a compiler where there is none."""
        return [] if system_compiler() else [COMPILER_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile."""
        source = Path(self.root) / "src" / FOLDER
        if version == "editable":
            compile_module(source, source / MODULE)
        else:
            self._folder = Path(tempfile.mkdtemp(prefix="paceline-build-"))
            compile_module(source, self._folder / MODULE)
            build_data["force_include"][str(self._folder / MODULE)] = str(FOLDER / MODULE)
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"cp311-abi3-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what is in the wheel by now."""
        if version != "editable":
            shutil.rmtree(self._folder)
