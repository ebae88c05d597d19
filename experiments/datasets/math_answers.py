"""Asks a child process whether two mathematical answers are equal in value, and never waits for long.

The comparison runs in a process of its own because nothing else stops it: math-verify's time-outs are signals
that work on a main thread only, and an answer such as 9^(9^(9^9)) keeps the interpreter inside one operation
that neither a thread nor a signal can end.
"""

import atexit
import contextlib
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from pathlib import Path

CHILD = Path(__file__).with_name("math_verify_child.py")


class MathComparer:
    """One child process, started when needed and again after it had to be ended. Any thread may call."""

    def __init__(self, timeout_s: float = 10.0, start_timeout_s: float = 60.0) -> None:
        self._timeout_s = timeout_s
        self._start_timeout_s = start_timeout_s
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def equal(self, expected: str, answered: str) -> bool:
        """Whether both are the same in value; False where that takes longer than the time-out.

        Raises RuntimeError where math-verify itself cannot be started.
        """
        if "".join(expected.split()) == "".join(answered.split()):
            return True
        question = json.dumps({"expected": expected, "answered": answered, "limit_s": self._timeout_s})
        with self._lock:
            process = self._started()
            assert process.stdin is not None
            try:
                process.stdin.write(question.encode() + b"\n")
                process.stdin.flush()
            except OSError:
                self._end()
                return False
            line = _read_line(process, self._timeout_s)
            if line is None:
                self._end()
                return False
            return line == "true"

    def close(self) -> None:
        """End the child. The next call starts another."""
        with self._lock:
            self._end()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        # -P: the folder of the script is no place to import from.
        command = [sys.executable, "-P", str(CHILD)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        line = _read_line(self._process, self._start_timeout_s)
        if line != "ready":
            self._end()
            raise RuntimeError(
                f"the grader of MATH answers did not start ({line or 'no reply'}); "
                f"run `{' '.join(command)}` to see why"
            )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):  # what was buffered for a dead child is of no use
                    stream.close()


def _read_line(process: subprocess.Popen[bytes], timeout_s: float) -> str | None:
    """The child's next line without its end; None where the child ended or `timeout_s` passed."""
    assert process.stdout is not None
    deadline_s = time.monotonic() + timeout_s
    received = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not received.endswith(b"\n"):
            if not selector.select(max(0.0, deadline_s - time.monotonic())):
                return None
            piece = os.read(process.stdout.fileno(), 4096)
            if not piece:
                return None
            received += piece
    return received.decode().strip()


_comparer = MathComparer()
atexit.register(_comparer.close)


def equal_in_value(expected: str, answered: str) -> bool:
    """`MathComparer.equal` on the comparer that this process shares."""
    return _comparer.equal(expected, answered)
