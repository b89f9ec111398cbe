"""Call sites: which line of the user's own code makes a call. Kept cheap, since every watched call asks.

A site is known by the code objects and instructions of the user's frame and of those that called it, so a helper
function that wraps a barrier has one site for each of its callers, also if these are helpers themselves.
"""

from __future__ import annotations

import os
import site as site_packages
import sys
import sysconfig
from collections.abc import Callable, Sequence
from types import CodeType, FrameType

_MAX_FRAMES = 6
NUM_KEY_FRAMES = 4  # that tell sites apart, from the inside out: each costs time at every call
_MAX_LIBRARY_FRAMES = 4  # of a library that makes calls for the user, such as a trainer
_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# packages that carry a call and are never its reason, even if none of the frames is the user's
_CARRIERS = ("torch", "mpi4py", "numpy")

Frame = tuple[str, int, str]  # file, line, function


def library_folders() -> tuple[str, ...]:
    """Return the folders whose files are not the user's own."""
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")}
    folders |= {*site_packages.getsitepackages(), site_packages.getusersitepackages(), _OWN_FOLDER}
    folders |= {os.path.realpath(folder) for folder in folders if folder}
    return tuple(sorted(f"{folder}{os.sep}" for folder in folders if folder))


def is_library(name: str, folders: tuple[str, ...]) -> bool:
    """Say whether a file is not the user's own: installed, of Python itself, compiled, or of no file at all.

    >>> is_library("src/mpi4py/MPI.src/Comm.pyx", ()), is_library("/home/me/train.py", ())
    (True, False)
    """
    if name.startswith("<"):
        return not name.startswith(("<string>", "<stdin>", "<ipython"))
    if name.endswith((".pyx", ".pxi", ".pxd")) or "/site-packages/" in name or "/dist-packages/" in name:
        return True
    return os.path.abspath(name).startswith(folders)


class Sites:
    """Numbers call sites and tells `describe` about each new one: number, user's frames, and those of a library."""

    def __init__(self, describe: Callable[[int, list[Frame], list[Frame]], None]) -> None:
        self._describe = describe
        self._folders = library_folders()
        # Keys are ids of code objects and instructions. An id names an object only while the object lives, so every
        # code object of a key is kept alive by _kept: by its id, since code objects that are equal are not the same.
        self._numbers: dict[tuple[int, ...], int] = {}
        self._carriers: dict[int, bool] = {}  # by the id of a code object
        self.known: dict[object, int] = {}  # those whose innermost frame is the user's: found without a search
        self.direct: set[int] = set()  # numbers of those at which the user's own frame made the call, and no library
        self._kept: dict[int, CodeType] = {}
        self._by_id: dict[int, bool] = {}  # id of a code object that is kept -> whether it is of a library
        self._next = 1

    def number(self, frame: FrameType) -> int:
        """Return the number of the site of a call made in this frame."""
        found = self.known.get(places(frame))
        return self._search(frame) if found is None else found

    def _search(self, frame: FrameType) -> int:
        """Look outwards for the user's frame. Calls that a library makes for one line are told apart by its frames."""
        here: FrameType | None = frame
        library: list[FrameType] = []
        while here is not None and self.is_of_library(here.f_code):
            if len(library) < _MAX_LIBRARY_FRAMES and not self.is_of_carrier(here.f_code):
                library.append(here)
            here = here.f_back
        if here is None:
            here, library = self._innermost_program_frame(frame), []
        key = places(here)
        for inner in library:
            key += (id(inner.f_code), inner.f_lasti)
        number = self._numbers.get(key)
        if number is None:
            number = self._add(key, here, library)
            if here is frame:
                self.direct.add(number)
                self.known[key] = number  # a frame of a library says nothing by itself: its user must be looked for
        return number

    def is_of_carrier(self, code: CodeType) -> bool:
        """Say whether a frame of a library is one that only carries calls, or is part of Python or of Paceline."""
        found = self._carriers.get(id(code))  # the code object is kept alive
        if found is None:
            parts = code.co_filename.split(os.sep)
            installed = "site-packages" in parts or "dist-packages" in parts
            found = self._carriers[id(code)] = not installed or any(name in parts for name in _CARRIERS)
        return found

    def is_of_library(self, code: CodeType) -> bool:
        """Say whether code is not the user's own."""
        found = self._by_id.get(id(code))
        return self._keep(code) if found is None else found

    def _keep(self, code: CodeType) -> bool:
        """Keep a code object, and whether it is of a library."""
        library = is_library(code.co_filename, self._folders)
        self._kept[id(code)] = code
        self._by_id[id(code)] = library
        return library

    def _innermost_program_frame(self, frame: FrameType) -> FrameType:
        """Return the innermost frame that is not of a carrier: an installed program has no other."""
        here: FrameType | None = frame
        while here is not None:
            path = here.f_code.co_filename
            parts = path.split(os.sep)
            standard = "site-packages" not in parts and "dist-packages" not in parts
            ours = path.startswith(_OWN_FOLDER)
            if not standard and not ours and not any(name in parts for name in _CARRIERS):
                return here
            here = here.f_back
        return frame

    def _add(self, key: tuple[int, ...], frame: FrameType, library: Sequence[FrameType]) -> int:
        frames: list[Frame] = []
        here: FrameType | None = frame
        while here is not None and len(frames) < _MAX_FRAMES:
            code = here.f_code
            if here is frame or not self.is_of_library(code):
                if len(frames) > 1 and _is_of_expression(frames[-1], here):
                    frames.pop()
                frames.append(_frame_text(here))
            here = here.f_back
        for keyed in _key_frames(frame):
            self._keep(keyed.f_code)
        number, self._next = self._next, self._next + 1
        self._numbers[key] = number
        self._describe(number, frames, [_frame_text(inner) for inner in library])
        return number


def places(frame: FrameType) -> tuple[int, ...]:
    """Return which instruction of which code a frame and those that called it are at: what tells sites apart."""
    key: tuple[int, ...] = ()
    for keyed in _key_frames(frame):
        key += (id(keyed.f_code), keyed.f_lasti)
    return key


def _key_frames(frame: FrameType) -> list[FrameType]:
    frames = [frame]
    while len(frames) < NUM_KEY_FRAMES and (caller := frames[-1].f_back) is not None:
        frames.append(caller)
    return frames


def _is_of_expression(inner: Frame, frame: FrameType) -> bool:
    """Say whether a frame is of a comprehension, generator or lambda in the very line of the frame around it."""
    return inner[2].startswith("<") and inner[:2] == _frame_text(frame)[:2]


def _frame_text(frame: FrameType) -> Frame:
    return os.path.abspath(frame.f_code.co_filename), frame.f_lineno, frame.f_code.co_name


def frames_of(exception: BaseException) -> list[Frame]:
    """Return where an exception was raised, from the inside out, the user's own frames if there are any."""
    frames = []
    trace = exception.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return _user_frames(frames[::-1])


def current_frames() -> list[Frame]:
    """Return the user's frames of the caller, from the inside out."""
    frames = []
    here: FrameType | None = sys._getframe(1)
    while here is not None:
        frames.append((here.f_code.co_filename, here.f_lineno, here.f_code.co_name))
        here = here.f_back
    return _user_frames(frames)


def _user_frames(frames: list[Frame]) -> list[Frame]:
    folders = library_folders()
    frames = [frame for frame in frames if not frame[0].startswith(_OWN_FOLDER)] or frames  # our hooks are in between
    own = [frame for frame in frames if not is_library(frame[0], folders)]
    # Python's own frames without a file, such as those that run a script as a module, are no place to look at
    shown = own or [frame for frame in frames if not frame[0].startswith("<frozen ")]
    return [(os.path.abspath(name), line, function) for name, line, function in shown[:_MAX_FRAMES]]
