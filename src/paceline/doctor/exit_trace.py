"""Sees from outside whether a process has begun to exit: by the return addresses on the stack of its main thread.

A process enters Py_FinalizeEx once, when its program is over, and MPI_Finalize once. So a word on its stack that points
into one of them, or behind an instruction that calls it, proves that it did, even if the interpreter has gone and
py-spy finds nothing. It only reads; a process that it cannot read, or does not understand, gives no sign.
"""

from __future__ import annotations

import mmap
import os
import platform
import struct
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from io import FileIO
from typing import NamedTuple

PYTHON_EXIT, MPI_EXIT = "Py_FinalizeEx", "MPI_Finalize"

# where return addresses lie if a compiler has made the function a jump to another one
_SYMBOLS = {PYTHON_EXIT: ("Py_FinalizeEx", "_Py_Finalize"), MPI_EXIT: ("MPI_Finalize", "ompi_mpi_finalize")}
_FILES = {PYTHON_EXIT: "python", MPI_EXIT: "mpi"}  # part of the names of the files that may have it
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_OFFSET, _ADDRESS = struct.Struct("<i"), struct.Struct("<Q")
_ELF_64_LITTLE = b"\x7fELF\x02\x01"
_LOADED, _SYMBOL_TABLES = 1, (2, 11)  # PT_LOAD; SHT_SYMTAB and SHT_DYNSYM
_CALL, _JUMP_BY_TABLE = b"\xe8", b"\xff\x25"  # of x86-64: call rel32; jmp *rel32(%rip)
_MARKS = (b"\xf3\x0f\x1e\xfa", b"\xf2")  # what a stub of the linkage table may begin with: endbr64, bnd
_MAX_STACK = 64 << 20


class _Mapping(NamedTuple):
    """A part of the memory of a process."""

    start: int
    end: int
    offset: int
    is_code: bool
    name: str


class _Function(NamedTuple):
    """A function, or a part that a compiler has split from it, in the memory of a process."""

    start: int
    end: int

    def holds(self, word: int) -> bool:
        """Say whether a word is a return address in it; the first address would be a pointer to it."""
        return self.start < word <= self.end


def exit_calls(pid: int) -> tuple[str, ...]:
    """Return which of the functions that end a rank its main thread has entered; none if that cannot be seen."""
    # a process that ends or is another user's; a file that is none that we can read; a Python without a stack
    with suppress(OSError, ValueError, struct.error, StopIteration):
        mappings = list(_mappings(pid))
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            words = _stack_words(memory, mappings)
            return tuple(name for name in _SYMBOLS if _has_entered(pid, memory, mappings, words, name))
    return ()


def _has_entered(pid: int, memory: FileIO, mappings: list[_Mapping], words: memoryview, name: str) -> bool:
    for first in mappings:
        if first.offset or _FILES[name] not in os.path.basename(first.name):
            continue
        parts, entries = _functions(pid, first, name)
        if not parts:
            continue
        code = [mapping for mapping in mappings if mapping.is_code and mapping.name == first.name]
        near = {word for word in words if any(mapping.start < word <= mapping.end for mapping in code)}
        if any(part.holds(word) for part in parts for word in near):
            return True
        if platform.machine() == "x86_64" and any(_callee(memory, word) in entries for word in near):
            return True
    return False


def _callee(memory: FileIO, word: int) -> int | None:
    """Return what the instruction before a return address has called, through a stub of the linkage table or not."""
    with suppress(OSError, OverflowError, struct.error):  # a number that only looks like a return address
        code = _read(memory, word - 5, 5)
        if code[:1] != _CALL:
            return None
        callee: int = word + _OFFSET.unpack(code[1:])[0]
        stub, at = _read(memory, callee, 16), 0
        for mark in _MARKS:
            at += len(mark) if stub[at:].startswith(mark) else 0
        if stub[at:].startswith(_JUMP_BY_TABLE):
            slot = callee + at + 6 + _OFFSET.unpack(stub[at + 2 : at + 6])[0]
            return int(_ADDRESS.unpack(_read(memory, slot, 8))[0])
        return callee
    return None


def _read(memory: FileIO, address: int, size: int) -> bytes:
    memory.seek(address)
    return memory.read(size) or b""


def _mappings(pid: int) -> Iterator[_Mapping]:
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            fields = line.rstrip("\n").split(maxsplit=5)
            start, _, end = fields[0].partition("-")
            name = fields[5] if len(fields) > 5 else ""
            yield _Mapping(int(start, 16), int(end, 16), int(fields[2], 16), "x" in fields[1], name)


def _stack_words(memory: FileIO, mappings: list[_Mapping]) -> memoryview:
    """Return the stack of the main thread as words, also of frames that were left: both functions are entered once."""
    stack = next(mapping for mapping in mappings if mapping.name == "[stack]")
    start = max(stack.start, stack.end - _MAX_STACK)
    data = _read(memory, start, stack.end - start)
    return memoryview(data[: len(data) // 8 * 8]).cast("Q")


def _functions(pid: int, first: _Mapping, name: str) -> tuple[list[_Function], set[int]]:
    """Return where the parts of a function lie in the memory of a process, and where the function begins."""
    path = f"/proc/{pid}/root{first.name}"  # as the process sees it: it may be in a container
    with suppress(FileNotFoundError):  # it was replaced since the process began
        stat = os.stat(path)
        base, symbols = _read_symbols(path, (stat.st_dev, stat.st_ino, stat.st_mtime_ns), _SYMBOLS[name])
        at = first.start - base
        parts = [_Function(at + address, at + address + size) for _, address, size in symbols]
        return parts, {at + address for symbol, address, _ in symbols if symbol == name}
    return [], set()


class _SymbolReader:
    """Finds functions in a 64-bit ELF file."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        header = _HEADER.unpack_from(data)
        self._segments = [_SEGMENT.unpack_from(data, header[5] + number * header[9]) for number in range(header[10])]
        self._sections = [_SECTION.unpack_from(data, header[6] + number * header[11]) for number in range(header[12])]

    def base(self) -> int:
        """Return the address that the file gives to its first byte."""
        return next(int(segment[3]) for segment in self._segments if segment[0] == _LOADED and segment[2] == 0)

    def functions(self, names: tuple[str, ...]) -> Iterator[tuple[str, int, int]]:
        """Return name, address and size of functions, and of parts that a compiler has split from them (`x.cold`)."""
        data = self._data
        texts = [(name, name.encode()) for name in names]
        for section in self._sections:
            if section[1] in _SYMBOL_TABLES:
                strings = self._sections[section[6]][4]
                table = data[section[4] : section[4] + section[5]]
                for offset, _, _, _, address, size in _SYMBOL.iter_unpack(table):
                    at = strings + offset
                    for name, text in texts:
                        if size and data[at : at + len(text)] == text and data[at + len(text)] in b"\0.":
                            yield name, address, size


@lru_cache(maxsize=64)
def _read_symbols(
    path: str, identity: tuple[int, ...], names: tuple[str, ...]
) -> tuple[int, tuple[tuple[str, int, int], ...]]:
    """Return the address that a file gives to its first byte, and name, address and size of functions in it."""
    del identity  # the same path may be another file in another container, or later
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:6] != _ELF_64_LITTLE:
            return 0, ()
        reader = _SymbolReader(data)
        return reader.base(), tuple(sorted(set(reader.functions(names))))
