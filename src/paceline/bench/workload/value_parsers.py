"""Parses single values of a workload: what YAML gives becomes what a section holds, or an error says why not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from paceline.errors import InputError, brief

ValueParser = Callable[[str, Any], Any]  # name of the key, value in YAML -> value in the section
_LARGEST = 1 << 62
_SPREADS = ("normal", "uniform", "gamma", "exponential", "poisson")


def whole(least: int) -> ValueParser:
    """Parse a whole number; sizes may be written as floats, as some of DLIO's are."""

    def parse(name: str, value: Any) -> int:
        number = _number(name, value)
        if number < least:
            raise InputError(f"{name} must be at least {least}, got {brief(value)}")
        if number > _LARGEST:
            raise InputError(f"{name} must be at most {_LARGEST:,}, got {brief(value)}")
        return round(number)

    return parse


def number(name: str, value: Any) -> float:
    """Parse a number that is not below 0."""
    parsed = _number(name, value)
    if parsed < 0:
        raise InputError(f"{name} must not be below 0, got {brief(value)}")
    return parsed


def share(name: str, value: Any) -> float:
    """Parse a share: from 0 to 1."""
    parsed = number(name, value)
    if parsed > 1:
        raise InputError(f"{name} must be from 0 to 1, got {brief(value)}")
    return parsed


def flag(name: str, value: Any) -> bool:
    """Parse true or false."""
    if not isinstance(value, bool):
        raise InputError(f"{name} must be true or false, got {brief(value)}")
    return value


def text(name: str, value: Any) -> str:
    """Parse a text; a number is taken as written."""
    if isinstance(value, Mapping | list) or value is None:
        raise InputError(f"{name} must be a text, got {brief(value)}")
    return str(value)


def one_of(*names: str, **other_names: str) -> ValueParser:
    """Parse one of several names; `other_names` maps other spellings to them."""

    def parse(name: str, value: Any) -> str:
        # YAML reads a bare `off` as false
        written = {False: "off", True: "on"}[value] if isinstance(value, bool) else str(value).lower()
        written = other_names.get(written, written)
        if written not in names:
            raise InputError(f"{name} must be one of {', '.join(names)}, got {brief(value)}")
        return written

    return parse


def dims(name: str, value: Any) -> tuple[int, ...]:
    """Parse the dimensions of a record."""
    if not isinstance(value, list) or not all(isinstance(part, int) and part > 0 for part in value):
        raise InputError(f"{name} must be a list of whole numbers above 0, got {brief(value)}")
    return tuple(value)


def mapping(name: str, value: Any) -> dict[str, Any]:
    """Parse a mapping, whose values are taken as they are."""
    if not isinstance(value, Mapping):
        raise InputError(f"{name} must be a mapping, got {brief(value)}")
    for key in value:
        if not isinstance(key, str):
            raise InputError(f"{name} must have texts for keys, got {brief(key)}")
    return dict(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """Seconds that something takes: constant, or drawn from a distribution.

    Attributes:
        spread: None if it is constant, otherwise the kind of distribution.
        mean: The mean, or the constant.
        stdev: The standard deviation of a normal distribution.
        low: The lower end of a uniform one.
        high: The upper end of a uniform one.
        shape: The shape of a gamma one.
    """

    spread: str | None = None
    mean: float = 0.0
    stdev: float = 0.0
    low: float = 0.0
    high: float = 0.0
    shape: float = 1.0

    def draw(self, random: Any) -> float:
        """Return a duration in seconds, never below 0; `random` is a numpy generator."""
        if self.spread is None:
            return self.mean
        if self.spread == "normal":
            drawn = random.normal(self.mean, self.stdev)
        elif self.spread == "uniform":
            drawn = random.uniform(self.low, self.high)
        elif self.spread == "gamma":
            drawn = random.gamma(self.shape, self.mean / self.shape)
        elif self.spread == "exponential":
            drawn = random.exponential(self.mean)
        else:  # whole milliseconds
            drawn = random.poisson(self.mean * 1000) / 1000
        return max(0.0, float(drawn))

    @property
    def expected(self) -> float:
        """The seconds that it takes on average.

        >>> Duration(spread="uniform", low=1.0, high=2.0).expected
        1.5
        """
        return (self.low + self.high) / 2 if self.spread == "uniform" else self.mean

    def times(self, factor: float) -> Duration:
        """Return a duration that is longer by a factor.

        >>> Duration(mean=0.5).times(2).mean
        1.0
        """
        parts = {name: getattr(self, name) * factor for name in ("mean", "stdev", "low", "high")}
        return Duration(spread=self.spread, shape=self.shape, **parts)


def duration(name: str, value: Any) -> Duration:
    """Parse seconds: a number, or DLIO's mapping such as `{type: normal, mean: 0.3, stdev: 0.1}`."""
    if not isinstance(value, Mapping):
        return Duration(mean=number(name, value))
    settings = {"low" if key == "min" else "high" if key == "max" else key: part for key, part in value.items()}
    if "scale" in settings:  # DLIO's gamma and exponential
        settings["mean"] = number(name, settings.pop("scale")) * number(name, settings.get("shape", 1.0))
    spread = settings.pop("type", "normal" if settings.get("stdev") else None)
    if spread is not None and spread not in _SPREADS:
        raise InputError(f"{name}.type must be one of {', '.join(_SPREADS)}, got {brief(spread)}")
    unknown = set(settings) - {"mean", "stdev", "low", "high", "shape"}
    if unknown:
        raise InputError(
            f"{name} has no {brief(min(unknown, key=str))}; it has type, mean, stdev, min, max, shape, scale"
        )
    return Duration(spread=spread, **{key: number(f"{name}.{key}", part) for key, part in settings.items()})


def _number(name: str, value: Any) -> float:
    try:
        if isinstance(value, bool):
            raise TypeError
        parsed = float(value)  # YAML takes 1e-3 for a text
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be a number, got {brief(value)}") from None
    if not math.isfinite(parsed):
        raise InputError(f"{name} must be a finite number, got {brief(value)}")
    return parsed
