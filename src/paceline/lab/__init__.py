"""The catalogue of breaks: small broken jobs that run for real, with symptom, hints and fix."""

from paceline.lab.case import Case, all_cases, find_case

__all__ = ["Case", "all_cases", "find_case"]
