"""Reads YAML that anybody may have written: a value, or an error of ours that says why there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paceline.errors import InputError
from paceline.process.foreign_files import read_foreign

_MOST_BYTES = 1 << 20  # a workload has about a thousand


def read_yaml_file(path: Path) -> Any:
    """Return what is in a YAML file; raise InputError if it cannot be read."""
    try:
        text = read_foreign(path.resolve(), most=_MOST_BYTES).decode()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not YAML: byte {error.start} is not UTF-8") from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, source: str) -> Any:
    """Return the value of a YAML text; `source` names it in errors.

    Raises:
        InputError: It is not YAML, or holds what Python has no value for.
    """
    try:
        import yaml
    except ModuleNotFoundError:
        raise InputError("workloads need pyyaml, which is not installed: pip install 'paceline[bench]'") from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{source} is not YAML: {' '.join(str(error).split())}") from None
    except Exception as error:  # pyyaml raises anything for a tag that does not fit, a wrong date or deep lists
        raise InputError(f"{source} cannot be read as YAML: {type(error).__name__}: {error}") from None
