"""Python runs this at its start under `paceline run`, because its folder is first on PYTHONPATH.

It makes way for the sitecustomize that would have run without it, then puts the hooks in. Every Python that is started
below a run comes here, down to 2.7: so it is written for all of them, and does nothing more where the hooks cannot run.
"""

import os
import sys

_own = os.path.dirname(os.path.abspath(__file__))
_path = os.environ.get("PYTHONPATH", "")
if "PACELINE_JOB" in os.environ and _path.endswith(os.pathsep):
    # Ray has put nothing in the place of a path that its node does not have: Python takes that for the current folder
    os.environ["PYTHONPATH"] = _path[: -len(os.pathsep)]
    for _entry in ("", os.getcwd()):
        if _entry in sys.path:
            sys.path.remove(_entry)
            break
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _own]
_this = sys.modules.pop("sitecustomize", None)
try:
    __import__("sitecustomize")  # another one, if there is one: this folder is no longer on the path
except ImportError as _error:
    if getattr(_error, "name", None) not in (None, "sitecustomize"):
        raise  # there is one, and it fails: Python says so
    if _this is not None:
        sys.modules["sitecustomize"] = _this
finally:
    _folder = os.environ.get("PACELINE_RUN_FOLDER", "")
    # a batch job that was submitted by a rank of another one has all its variables, and is none of ours
    _name, _, _number = os.environ.get("PACELINE_BATCH_JOB", "").partition("=")
    _is_ours = os.environ.get(_name, _number) == _number
    if (
        sys.version_info >= (3, 10)
        and _folder
        and _is_ours
        and ("PACELINE_HEAD" in os.environ or os.path.isdir(_folder))
    ):
        _before = set(sys.modules)
        from importlib.util import module_from_spec, spec_from_file_location

        _spec = spec_from_file_location("_paceline_start", os.path.join(_own, "watched_start.py"))
        if _spec is not None and _spec.loader is not None:
            _start = module_from_spec(_spec)
            _spec.loader.exec_module(_start)
            _start.start(_folder, os.path.dirname(os.path.dirname(_own)), _before)
