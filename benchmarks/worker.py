"""The process of one family: takes requests as lines of JSON, and answers each with one.

    python -m benchmarks.worker MODULE THREADS DISTRIBUTION...

A request is {"do": ..., ...}; an answer has "failed" with the reason if there is none.
"""

import ctypes
import gc
import importlib
import json
import os
import sys
import time
import traceback
from importlib.metadata import version
from pathlib import Path

from benchmarks import correctness, memory
from benchmarks.inputs import read_expected, read_inputs
from benchmarks.problems import Problem

# Shorter calls are repeated for as long, or the clock would be part of what is measured.
LEAST_SECONDS = 0.01
# Before a call shorter than this one is not timed: since the last one others have used the caches
# and the memory that it uses.
COLD_SECONDS = 0.5


class Worker:
    """The contenders of a family, and the calls that are ready to be timed."""

    def __init__(self, module, threads, distributions):
        path = module if "." in module else f"benchmarks.contenders.{module}"
        self.family = importlib.import_module(path)
        self.family.FRAMEWORK.use(threads)
        self.versions = {name: version(name) for name in distributions}
        self.ready = {}

    def hello(self):
        return {"contenders": list(self.family.CONTENDERS), "versions": self.versions}

    def takes(self, contender, problem, which):
        taken = self.family.CONTENDERS[contender].takes(Problem.of(problem), which)
        return {"takes": bool(taken)}

    def prepare(self, key, contender, problem, which, inputs, expected):
        """Builds a call, runs it for the first time, and compares its results."""
        chosen, problem = self.family.CONTENDERS[contender], Problem.of(problem)
        arrays, cotangents = read_inputs(Path(inputs), problem)
        begin = time.perf_counter()
        call = chosen.build(problem, which, arrays, cotangents)
        results = call()
        first = time.perf_counter() - begin
        found = correctness.errors(
            self.family.FRAMEWORK.arrays(results),
            read_expected(Path(expected)),
            arrays,
            chosen.normalizes,
        )
        del results
        wrong = correctness.verdict(found, problem.dtype)
        answer = {"first_call": first, "errors": {n: repr(x) for n, x in found.items()}}
        if wrong is not None:
            return answer | {"wrong": wrong}
        # Once more, before anything counts: allocators and caches are warm then.
        begin = time.perf_counter()
        call()
        warm = time.perf_counter() - begin
        self.ready[key] = call, warm
        return answer | {"warm": warm}

    def time(self, key):
        call, warm = self.ready[key]
        if warm < COLD_SECONDS:
            call()
        repeats = max(1, round(LEAST_SECONDS / warm))
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        return {"seconds": (time.perf_counter() - begin) / repeats}

    def release(self, key):
        self.ready.pop(key, None)
        _collect()
        return {}

    def memory(self, contender, problem, which, inputs):
        """The peak of a call beyond what was there before it; everything is compiled by then."""
        chosen, problem = self.family.CONTENDERS[contender], Problem.of(problem)
        call = chosen.build(problem, which, *read_inputs(Path(inputs), problem))
        results = self.family.FRAMEWORK.arrays(call())
        needed = sum(x.nbytes for x in results.values() if x.nbytes >= memory.BLOCK)
        del results
        _collect()
        peak = memory.peak_beyond_now(call)
        if peak < needed:
            raise MemoryError(f"{peak} bytes do not hold the results: memory was used again")
        return {"bytes": peak}


def _collect():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def main():
    # Libraries print what they like on standard output, so answers have a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value):
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    module, threads, *distributions = sys.argv[1:]
    # XLA has no setting for threads: it takes as many as there are cores to run on.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(threads)])
    try:
        worker = Worker(module, int(threads), distributions)
        answer(worker.hello())
    except Exception as error:
        answer({"failed": _reason(error)})
        return
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer(getattr(worker, request.pop("do"))(**request))
        except Exception as error:  # whatever a contender raises is why it fails
            traceback.print_exc()
            answer({"failed": _reason(error)})


def _reason(error):
    text = str(error).strip().partition("\n")[0][:200]
    return f"{type(error).__name__}: {text}"


if __name__ == "__main__":
    main()
