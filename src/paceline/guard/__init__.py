"""Watches the calls of every rank and says who falls out of line, where and why."""

from paceline.guard.enable import enable

__all__ = ["enable"]
