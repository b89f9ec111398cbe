"""Reads a workload: YAML with DLIO's keys, then `section.key=value` overrides. A misspelt key is an error."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from paceline.bench.workload import dlio_keys as keys
from paceline.bench.workload.sections import Workload
from paceline.bench.workload.value_parsers import Duration, ValueParser, number
from paceline.bench.workload.yaml_text import parse_yaml, read_yaml_file
from paceline.errors import InputError, brief

SHIPPED = Path(__file__).parent / "workloads"
_FEWEST_SAMPLES = 1024  # scaling leaves at least these, and then makes records smaller
_FEWEST_FILES = 8
_SECTIONS: dict[str, Any] = get_type_hints(Workload)  # name of a section -> its class
_COMPRESSIONS = {"npz": ("gzip",), "hdf5": ("gzip",), "parquet": ("gzip", "snappy", "zstd")}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedWorkload:
    """A workload, and the keys in it that have no effect: (key, reason)."""

    workload: Workload
    ignored_keys: tuple[tuple[str, str], ...]


def shipped_names() -> list[str]:
    """Return the names of the workloads that are shipped."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def load_workload(name: str, overrides: Sequence[str] = (), *, scale: float = 1.0) -> LoadedWorkload:
    """Return a workload that is in a file, or that is shipped.

    Args:
        name: A YAML file, or one of `shipped_names`.
        overrides: Texts `section.key=value`; DLIO's prefix `++workload.` may be there.
        scale: The share of its bytes that is left; see `scaled`. Overrides are applied after it.
    """
    path = _find(name)
    loaded = parse_workload(_read_sections(path), str(path))
    if scale != 1.0:
        loaded = replace(loaded, workload=scaled(loaded.workload, scale))
    if not overrides:
        return loaded
    workload, ignored = _build(loaded.workload, _parse_overrides(overrides), "the command line")
    return LoadedWorkload(workload=_checked(workload), ignored_keys=(*loaded.ignored_keys, *ignored))


def parse_workload(sections: Mapping[str, Any], source: str) -> LoadedWorkload:
    """Return the workload that a mapping of sections describes; `source` names it in errors."""
    default = Workload(**{name: section() for name, section in _SECTIONS.items()})
    workload, ignored = _build(default, sections, source)
    return LoadedWorkload(workload=_checked(workload), ignored_keys=tuple(ignored))


def scaled(workload: Workload, scale: float) -> Workload:
    """Return a workload with a share of its bytes.

    First the number of samples is reduced, down to about a thousand. Then records become smaller, and the emulated
    compute shorter by the same factor, so that accelerators still ask for the same number of bytes per second. The
    model shrinks by `scale`.
    """
    if not scale > 0:
        raise InputError(f"scale must be above 0, got {scale}")
    data = workload.dataset
    num_samples = data.num_files_train * data.num_samples_per_file
    fewer = max(min(num_samples, _FEWEST_SAMPLES), math.ceil(num_samples * scale))
    per_file = min(data.num_samples_per_file, max(1, fewer // _FEWEST_FILES))
    smaller = min(1.0, scale * num_samples / fewer) if scale < 1 else 1.0
    eval_files = math.ceil(data.num_files_eval * min(1.0, data.num_samples_per_file / per_file * fewer / num_samples))
    sizes = {
        name: math.ceil(getattr(data, name) * smaller)
        for name in ("record_length_bytes", "record_length_bytes_stdev", "record_length_bytes_resize")
    }
    return replace(
        workload,
        dataset=replace(
            data,
            num_files_train=math.ceil(fewer / per_file),
            num_files_eval=eval_files,
            num_samples_per_file=per_file,
            **sizes,
        ),
        train=replace(workload.train, computation_time=workload.train.computation_time.times(smaller)),
        evaluation=replace(workload.evaluation, eval_time=workload.evaluation.eval_time.times(smaller)),
        model=replace(workload.model, model_size_bytes=math.ceil(workload.model.model_size_bytes * min(1.0, scale))),
    )


def _find(name: str) -> Path:
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        if not path.is_file():
            raise InputError(f"there is no workload file {name!r}")
        return path
    if (SHIPPED / f"{name}.yaml").is_file():
        return SHIPPED / f"{name}.yaml"
    raise InputError(f"there is no workload {name!r}{_nearest(name, shipped_names())}; `paceline bench list` shows all")


def _read_sections(path: Path) -> Mapping[str, Any]:
    sections = read_yaml_file(path)
    if not isinstance(sections, Mapping):
        raise InputError(f"{path} has no sections: a workload has model, dataset, reader, train and others")
    if set(sections) == {"workload"} and isinstance(sections["workload"], Mapping):
        return dict(sections["workload"])
    return sections


def _parse_overrides(overrides: Iterable[str]) -> dict[str, Any]:
    """Return the sections with the keys that overrides change."""
    sections: dict[str, Any] = {}
    for override in overrides:
        key, equals, value = override.lstrip("+").removeprefix("workload.").partition("=")
        section, dot, name = key.partition(".")
        if not (equals and dot and name):
            raise InputError(
                f"{brief(override)} is not an override: write section.key=value, such as reader.batch_size=8"
            )
        sections.setdefault(section, {})[name] = parse_yaml(value, f"{key}={brief(value)}")
    return sections


def _build(base: Workload, sections: Mapping[str, Any], source: str) -> tuple[Workload, list[tuple[str, str]]]:
    """Return the workload with some keys changed, and the keys that have no effect."""
    ignored: list[tuple[str, str]] = []
    changes: dict[str, dict[str, Any]] = {}
    for written, value in _flatten(sections):
        key = keys.SAME.get(written, written)
        if key in keys.WITHOUT_EFFECT:
            ignored.append((key, keys.WITHOUT_EFFECT[key]))
            continue
        section, _, name = key.partition(".")
        if key in keys.SPREADS:
            section, _, name = keys.SPREADS[key].partition(".")
            mean = changes.setdefault(section, {}).get(name, getattr(getattr(base, section), name))
            stdev = number(key, value)
            changes[section][name] = replace(mean, stdev=stdev, spread="normal" if stdev else None)
            continue
        parse = _parser_of(key, source)
        changes.setdefault(section, {})[name] = parse(key, value)
    changed = {section: replace(getattr(base, section), **values) for section, values in changes.items()}
    return replace(base, **changed), ignored


def _flatten(sections: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield `section.key` and value; spreads come last, after the means that they belong to."""
    pairs: list[tuple[str, Any]] = []
    for written, inside in sections.items():
        section = keys.SECTIONS.get(written, written)
        content = {"name": inside} if section == "model" and isinstance(inside, str) else inside
        if section in keys.WITHOUT_EFFECT or section in keys.NOT_SUPPORTED:
            pairs.append((section, content))
        elif content is None:
            continue
        elif not isinstance(content, Mapping):
            raise InputError(f"{section} must be a section with keys, got {brief(content)}")
        else:
            pairs += [pair for key, value in content.items() for pair in _flatten_key(f"{section}.{key}", value)]
    yield from sorted(pairs, key=lambda pair: pair[0] in keys.SPREADS)


def _flatten_key(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a key, or the keys inside it where DLIO has a section within a section."""
    inner = [name for name in keys.SAME if name.startswith(f"{key}.")]
    if isinstance(value, Mapping) and inner:
        for name, part in value.items():
            yield f"{key}.{name}", part
    else:
        yield key, value


def _parser_of(key: str, source: str) -> ValueParser:
    """Return what parses the value of a key; a key that is not there is an error with a suggestion."""
    for known, reason in keys.NOT_SUPPORTED.items():
        if key == known or key.startswith(f"{known}."):
            raise InputError(f"{source}: {key} is a key of DLIO that is not supported: {reason}; leave it out")
    section, _, name = key.partition(".")
    if section not in _SECTIONS:
        raise InputError(f"{source}: there is no section {section!r}{_nearest(section, _known_sections())}")
    for field in fields(_SECTIONS[section]):
        if field.name == name:
            parser: ValueParser = field.metadata["parse"]
            return parser
    here = [known.partition(".")[2] for known in _known_keys() if known.partition(".")[0] == section]
    guess = _nearest(name, here)
    elsewhere = "" if guess else _nearest(key, _known_keys())
    raise InputError(f"{source}: {section} has no key {name!r}{guess or elsewhere}")


def _known_sections() -> list[str]:
    return [*_SECTIONS, *keys.SECTIONS, "framework", "profiling"]


def _known_keys() -> list[str]:
    own = [f"{name}.{field.name}" for name, section in _SECTIONS.items() for field in fields(section)]
    return [*own, *keys.SAME, *keys.SPREADS, *keys.WITHOUT_EFFECT, *keys.NOT_SUPPORTED]


def _nearest(name: str, known: Sequence[str]) -> str:
    matches = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {matches[0]!r}?" if matches else ""


def _checked(workload: Workload) -> Workload:
    """Return the workload; raise InputError if some of its keys contradict each other."""
    data, flow = workload.dataset, workload.workflow
    if data.format in ("jpeg", "png") and data.num_samples_per_file != 1:
        raise InputError(f"dataset.num_samples_per_file must be 1 for {data.format}: an image file holds one sample")
    if data.compression != "none" and data.compression not in _COMPRESSIONS.get(data.format, ()):
        known = ", ".join(_COMPRESSIONS.get(data.format, ())) or "none"
        raise InputError(f"dataset.compression {data.compression} does not exist for {data.format}, which has: {known}")
    if flow.evaluation and not data.num_files_eval:
        raise InputError("workflow.evaluation is on, but dataset.num_files_eval is 0")
    if flow.checkpoint and not flow.train:
        raise InputError("a run of checkpoints alone is not supported: workflow.checkpoint needs workflow.train")
    if data.record_dims and data.record_length_bytes_stdev:
        raise InputError("dataset.record_dims gives all records one shape: leave out record_length_bytes_stdev")
    if is_ragged(workload) and workload.dataset.record_element_type != "uint8":
        raise InputError("records of different lengths are bytes: leave out dataset.record_element_type")
    if workload.reader.balance != "none" and not is_ragged(workload):
        raise InputError("reader.balance needs records of different lengths: set dataset.record_length_bytes_stdev")
    return workload


def is_ragged(workload: Workload) -> bool:
    """Say whether samples reach the model with different lengths."""
    data = workload.dataset
    return data.record_length_bytes_stdev > 0 and data.record_length_bytes_resize == 0


def as_mapping(workload: Workload) -> dict[str, dict[str, Any]]:
    """Return the workload as YAML has it, without the values that may be secret."""
    sections: dict[str, dict[str, Any]] = {}
    for name in _SECTIONS:
        section = getattr(workload, name)
        sections[name] = {field.name: _yaml_value(getattr(section, field.name)) for field in fields(section)}
    sections["storage"]["storage_options"] = sorted(sections["storage"]["storage_options"])
    return sections


def _yaml_value(value: Any) -> Any:
    if isinstance(value, Duration):
        if value.spread is None:
            return value.mean
        parts = {"type": value.spread, "mean": value.mean, "stdev": value.stdev, "shape": value.shape}
        return parts | ({"min": value.low, "max": value.high} if value.spread == "uniform" else {})
    return list(value) if isinstance(value, tuple) else value
