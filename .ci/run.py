"""What continuous integration runs: README's test command, on a machine that has only Python 3.11 and PyPI.

Ends non-zero if a test fails, and ends every process that was started under it, by id: as their subreaper this
process is the parent of whatever outlives its own parent.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
ROOT = Path(__file__).resolve().parents[1]


def children() -> list[int]:
    """Live direct children, orphans of others included."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in listed]


def end_children() -> None:
    """SIGTERM, a few seconds, SIGKILL; again for what then becomes an orphan."""
    deadline_s = time.monotonic() + 5
    while left := children():
        for pid in left:
            try:
                os.kill(pid, signal.SIGTERM if time.monotonic() < deadline_s else signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
            except (ProcessLookupError, ChildProcessError):
                pass
        time.sleep(0.2)


def main() -> int:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # SIGTERM from outside ends the tests as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return subprocess.call(["make", "test"], cwd=ROOT)
    except KeyboardInterrupt:
        return 130
    finally:
        end_children()


if __name__ == "__main__":
    sys.exit(main())
