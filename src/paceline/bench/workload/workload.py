"""Reads a workload: YAML in DLIO's words, then `section.key=value` overrides. What is misspelt is an error."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from paceline.bench.workload import dlio_keys as keys
from paceline.bench.workload.sections import Workload
from paceline.bench.workload.value_parsers import Duration
from paceline.errors import InputError

SHIPPED = Path(__file__).parent / "workloads"
_FEWEST_SAMPLES = 1024  # that scaling leaves, before records are made smaller
_FEWEST_FILES = 8
_SECTIONS = {field.name: field.type for field in fields(Workload)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A workload, and what was said in it that has no effect: (key, reason)."""

    workload: Workload
    notes: tuple[tuple[str, str], ...]


def shipped_names() -> list[str]:
    """Name the workloads that are in the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def load_workload(name: str, overrides: Sequence[str] = (), *, scale: float = 1.0) -> Described:
    """Return the workload of a file, or of a name that is shipped.

    Args:
        name: A YAML file, or one of `shipped_names`.
        overrides: Texts `section.key=value`; DLIO's prefix `++workload.` may be there.
        scale: The share of its bytes that is to be left; see `scaled`. Overrides are made after it.
    """
    path = _find(name)
    given = _parse(path)
    described = describe(given, str(path))
    if scale != 1.0:
        described = replace(described, workload=scaled(described.workload, scale))
    if not overrides:
        return described
    changed = _changed_by(overrides)
    workload, notes = _build(described.workload, changed, "the command line")
    return Described(workload=_checked(workload), notes=(*described.notes, *notes))


def describe(given: Mapping[str, Any], source: str) -> Described:
    """Return the workload that a mapping of sections describes."""
    plain = Workload(**{name: _class_of(name)() for name in _SECTIONS})
    workload, notes = _build(plain, given, source)
    return Described(workload=_checked(workload), notes=tuple(notes))


def scaled(workload: Workload, scale: float) -> Workload:
    """Return it with that share of its bytes.

    First samples become fewer, down to about a thousand; then records become smaller, and the emulated compute shorter
    by the same factor: the bytes per second that the accelerators ask for stay the same. The model shrinks by `scale`.
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
    raise InputError(
        f"there is no workload {name!r}{_nearest(name, shipped_names())}; `paceline bench list` names them"
    )


def _parse(path: Path) -> Mapping[str, Any]:
    try:
        import yaml
    except ModuleNotFoundError:
        raise InputError("workloads need pyyaml, which is not installed: pip install 'paceline[bench]'") from None
    try:
        given = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise InputError(f"{path} is no YAML: {error}") from None
    if not isinstance(given, Mapping):
        raise InputError(f"{path} has no sections: a workload has model, dataset, reader, train and others")
    if set(given) == {"workload"} and isinstance(given["workload"], Mapping):
        return dict(given["workload"])
    return given


def _changed_by(overrides: Iterable[str]) -> dict[str, Any]:
    import yaml

    changed: dict[str, Any] = {}
    for override in overrides:
        key, equals, value = override.lstrip("+").removeprefix("workload.").partition("=")
        section, dot, name = key.partition(".")
        if not (equals and dot and name):
            raise InputError(f"{override!r} is no override: write section.key=value, such as reader.batch_size=8")
        changed.setdefault(section, {})[name] = yaml.safe_load(value)
    return changed


def _build(base: Workload, given: Mapping[str, Any], source: str) -> tuple[Workload, list[tuple[str, str]]]:
    """Return the workload with what is given, and the notes on what has no effect."""
    notes: list[tuple[str, str]] = []
    changes: dict[str, dict[str, Any]] = {}
    for written, value in _flat(given):
        key = keys.SAME.get(written, written)
        if key in keys.WITHOUT_EFFECT:
            notes.append((key, keys.WITHOUT_EFFECT[key]))
            continue
        section, _, name = key.partition(".")
        if key in keys.SPREADS:
            section, _, name = keys.SPREADS[key].partition(".")
            now = changes.setdefault(section, {}).get(name, getattr(getattr(base, section), name))
            stdev = float(value)
            changes[section][name] = replace(now, stdev=stdev, spread="normal" if stdev else None)
            continue
        read = _reader_of(key, source)
        changes.setdefault(section, {})[name] = read(key, value)
    parts = {section: replace(getattr(base, section), **values) for section, values in changes.items()}
    return replace(base, **parts), notes


def _flat(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield `section.key` and value; spreads come last, after the means that they go with."""
    found: list[tuple[str, Any]] = []
    for written, inside in given.items():
        section = keys.SECTIONS.get(written, written)
        content = {"name": inside} if section == "model" and isinstance(inside, str) else inside
        if section in keys.WITHOUT_EFFECT or section in keys.NOT_SUPPORTED:
            found.append((section, content))
        elif content is None:
            continue
        elif not isinstance(content, Mapping):
            raise InputError(f"{section} must be a section with keys, got {content!r}")
        else:
            found += [pair for key, value in content.items() for pair in _keys_of(f"{section}.{key}", value)]
    yield from sorted(found, key=lambda pair: pair[0] in keys.SPREADS)


def _keys_of(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a key, or what is in it where it is a section of its own."""
    inner = [name for name in keys.SAME if name.startswith(f"{key}.")]
    if isinstance(value, Mapping) and inner:
        for name, part in value.items():
            yield f"{key}.{name}", part
    else:
        yield key, value


def _reader_of(key: str, source: str) -> Any:
    for known, reason in keys.NOT_SUPPORTED.items():
        if key == known or key.startswith(f"{known}."):
            raise InputError(f"{source}: {key} is a key of DLIO that is not supported: {reason}; leave it out to go on")
    section, _, name = key.partition(".")
    if section not in _SECTIONS:
        raise InputError(f"{source}: there is no section {section!r}{_nearest(section, _known_sections())}")
    for field in fields(_class_of(section)):
        if field.name == name:
            return field.metadata["read"]
    here = [known.partition(".")[2] for known in _known_keys() if known.partition(".")[0] == section]
    guess = _nearest(name, here)
    elsewhere = "" if guess else _nearest(key, _known_keys())
    raise InputError(f"{source}: {section} has no key {name!r}{guess or elsewhere}")


def _known_sections() -> list[str]:
    return [*_SECTIONS, *keys.SECTIONS, "framework", "profiling"]


def _known_keys() -> list[str]:
    own = [f"{section}.{field.name}" for section in _SECTIONS for field in fields(_class_of(section))]
    return [*own, *keys.SAME, *keys.SPREADS, *keys.WITHOUT_EFFECT, *keys.NOT_SUPPORTED]


def _class_of(section: str) -> Any:
    from paceline.bench.workload import sections

    return getattr(sections, str(_SECTIONS[section]))


def _nearest(name: str, known: Sequence[str]) -> str:
    found = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {found[0]!r}?" if found else ""


def _checked(workload: Workload) -> Workload:
    """Refuse what does not go together."""
    data, flow = workload.dataset, workload.workflow
    if data.format in ("jpeg", "png") and data.num_samples_per_file != 1:
        raise InputError(f"dataset.num_samples_per_file must be 1 for {data.format}: an image file holds one sample")
    if data.compression != "none" and data.compression not in _COMPRESSIONS.get(data.format, ()):
        known = ", ".join(_COMPRESSIONS.get(data.format, ())) or "none"
        raise InputError(f"dataset.compression {data.compression} is not there for {data.format}; it has: {known}")
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


_COMPRESSIONS = {"npz": ("gzip",), "hdf5": ("gzip",), "parquet": ("gzip", "snappy", "zstd")}


def is_ragged(workload: Workload) -> bool:
    """Say whether samples reach the model with different lengths."""
    data = workload.dataset
    return data.record_length_bytes_stdev > 0 and data.record_length_bytes_resize == 0


def as_mapping(workload: Workload) -> dict[str, dict[str, Any]]:
    """Return the workload as YAML has it, without what may be secret."""
    told: dict[str, dict[str, Any]] = {}
    for section in _SECTIONS:
        part = getattr(workload, section)
        values = {field.name: getattr(part, field.name) for field in fields(part)}
        told[section] = {name: _plain(value) for name, value in values.items()}
    told["storage"]["storage_options"] = sorted(told["storage"]["storage_options"])
    return told


def _plain(value: Any) -> Any:
    if isinstance(value, Duration):
        if value.spread is None:
            return value.mean
        return {"type": value.spread, **{name: getattr(value, name) for name in ("mean", "stdev", "shape")}} | (
            {"min": value.low, "max": value.high} if value.spread == "uniform" else {}
        )
    return list(value) if isinstance(value, tuple) else value
