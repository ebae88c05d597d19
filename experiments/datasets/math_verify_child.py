"""The child of `MathComparer`: a question a line on standard input, true or false a line on standard output.

The only file that imports math-verify. Run as a script, so it imports nothing of the project.
"""

import contextlib
import json
import logging
import resource
import sys
from typing import TextIO

# Room for sympy and an honest answer; a power tower meets this bound instead of the machine's.
_MEMORY_BYTES = 4 << 30


def equal(expected: str, answered: str) -> bool:
    """Whether both parse and agree in value. The parent keeps the time."""
    from math_verify import parse, verify

    gold = parse(f"\\boxed{{{expected}}}", parsing_timeout=None)
    target = parse(f"\\boxed{{{answered}}}", parsing_timeout=None)
    return bool(verify(gold, target, timeout_seconds=None))


def serve(questions: TextIO, replies: TextIO) -> None:
    """Answer until the parent closes the pipe."""
    logging.disable(logging.CRITICAL)
    with contextlib.suppress(ValueError, OSError):  # not every system lets a process bound itself
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    import math_verify  # noqa: F401 - loaded before the parent starts counting

    print("ready", file=replies, flush=True)
    for line in questions:
        question = json.loads(line)
        _bound_cpu(question["limit_s"])
        try:
            verdict = equal(question["expected"], question["answered"])
        except (Exception, MemoryError, RecursionError):
            verdict = False  # what cannot be read is a wrong answer
        print("true" if verdict else "false", file=replies, flush=True)


def _bound_cpu(limit_s: float) -> None:
    """Let the kernel end this process if it outlives its question, even where the parent is gone."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    soft_s = int(usage.ru_utime + usage.ru_stime + limit_s) + 5
    _, hard_s = resource.getrlimit(resource.RLIMIT_CPU)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (soft_s, hard_s))


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
