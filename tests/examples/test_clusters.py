"""Scripts and manifests for clusters pass the linters of others, and name what exists."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import paceline

CLUSTERS = Path(__file__).parents[2] / "examples" / "clusters"
IMAGES = (CLUSTERS / "Dockerfile", CLUSTERS / "train.def")
KUBERNETES_VERSIONS = ("1.37", "1.31")  # the newest that the schemas have, and one of two years before


def lint(tool: str, *arguments: str) -> None:
    program = shutil.which(tool, path=str(Path(sys.executable).parent))
    assert program is not None, f"{tool} is among the packages for development"
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_the_manifest_fits_the_schemas_of_kubernetes(version: str) -> None:
    lint("kubernetes-validate", "--strict", "--kubernetes-version", version, str(CLUSTERS / "kubernetes.yaml"))


def test_the_schemas_refuse_what_kubernetes_does_not_know(tmp_path: Path) -> None:
    spoiled = (CLUSTERS / "kubernetes.yaml").read_text().replace("completionMode", "completionmode")
    (tmp_path / "spoiled.yaml").write_text(spoiled)
    with pytest.raises(AssertionError, match="completionmode"):
        lint("kubernetes-validate", "--strict", str(tmp_path / "spoiled.yaml"))


def test_pods_find_each_other_by_the_names_that_the_manifest_gives_them() -> None:
    service, job, policy = yaml.safe_load_all((CLUSTERS / "kubernetes.yaml").read_text())
    pod = job["spec"]["template"]
    labels = pod["metadata"]["labels"]
    assert service["spec"]["selector"] == policy["spec"]["podSelector"]["matchLabels"] == labels
    assert pod["spec"]["subdomain"] == service["metadata"]["name"]
    (container,) = pod["spec"]["containers"]
    options = option_values(container["args"])
    assert options["master-addr"] == f"{job['metadata']['name']}-0.{service['metadata']['name']}"
    assert int(options["nnodes"]) == job["spec"]["completions"] == job["spec"]["parallelism"]
    (rule,) = job["spec"]["podFailurePolicy"]["rules"]
    assert rule["onExitCodes"] == {"containerName": container["name"], "operator": "In", "values": [90]}
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["spec"]["volumes"]}


def option_values(arguments: list[str]) -> dict[str, Any]:
    return dict(argument[2:].split("=", 1) for argument in arguments if argument.startswith("--"))


def test_the_dockerfile_passes_its_linter() -> None:
    lint("hadolint", str(CLUSTERS / "Dockerfile"))


@pytest.mark.parametrize("image", IMAGES, ids=lambda path: path.name)
def test_images_install_this_version(image: Path) -> None:
    assert re.findall(r"'paceline\[[\w,]+\]==([\d.]+)'", image.read_text()) == [paceline.__version__]


def test_files_that_the_image_copies_exist() -> None:
    (copied,) = re.findall(r"^COPY (\S+) ", (CLUSTERS / "Dockerfile").read_text(), flags=re.MULTILINE)
    assert (CLUSTERS.parents[1] / copied).is_file()


def test_what_the_apptainer_image_runs_passes_the_linter_of_shells(tmp_path: Path) -> None:
    sections = re.split(r"^%(\w+)\n", (CLUSTERS / "train.def").read_text(), flags=re.MULTILINE)[1:]
    scripts = dict(zip(sections[::2], sections[1::2], strict=True))
    assert set(scripts) == {"post", "runscript"}
    for name, script in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}")
        lint("shellcheck", str(tmp_path / name))
