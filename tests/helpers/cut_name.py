"""A process with a name that the kernel has cut in the middle of a character, as it does at 15 bytes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# the 15th byte is the first half of the last character
_CODE = """
import sys, time
with open("/proc/self/comm", "wb") as file:
    file.write("aaaaaaaaaaaaaa\\u00e4".encode())
{more}
print("ready", flush=True)
while True:
    {work}
"""


@contextmanager
def process_with_cut_name(*, more: str = "", work: str = "time.sleep(1)") -> Iterator[subprocess.Popen[str]]:
    """Start such a process; `more` is run before it is ready, and `work` again and again."""
    code = _CODE.format(more=more, work=work)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            assert b"(aaaaaaaaaaaaaa\xc3)" in Path(f"/proc/{process.pid}/stat").read_bytes()
            yield process
        finally:
            process.kill()
