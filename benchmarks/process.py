"""A worker seen from outside: it can be asked, may fail, die or take too long, and is stopped."""

import json
import os
import select
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Both change how OpenBLAS multiplies, in NumPy alone.
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
STARTING_SECONDS = 180


class Failed(Exception):
    """Why a worker has no answer."""


class Process:
    """The process of a family; one that died or was stopped is started again when next asked."""

    def __init__(self, family, *, threads, logs, python=sys.executable, environment=None):
        self.family = family
        self._command = [python, "-m", "benchmarks.worker", family.module, str(threads)]
        self._command += family.distributions
        self._environment = _environment(threads) | family.environment | (environment or {})
        self._log = logs / f"{family.name}.log"
        self._process = None
        self.starts = 0  # what was prepared in an earlier process is gone
        self.hello = self._start()

    def ask(self, what, *, seconds, **request):
        """The answer of the worker. Raises Failed."""
        if self._process is None:
            self._start()
        try:
            self._process.stdin.write(json.dumps({"do": what, **request}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:  # killed while it had nothing to do
            self.stop()
            raise Failed("its process was ended") from None
        return self._answer(seconds)

    @property
    def alive(self):
        return self._process is not None

    def stop(self):
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self):
        self.starts += 1
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        return self._answer(STARTING_SECONDS)

    def _answer(self, seconds):
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        if not ready:
            self.stop()
            raise Failed(f"took longer than {seconds:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            self._process = None
            raise Failed(f"its process ended with {code}; {self._log.name} says why")
        answer = json.loads(line)
        if "failed" in answer:
            raise Failed(answer["failed"])
        return answer


def _environment(threads):
    environment = {name: x for name, x in os.environ.items() if name not in UNSET}
    # Before the first import of any library, which is when all of them read it.
    environment["OMP_NUM_THREADS"] = str(threads)
    environment["TF_CPP_MIN_LOG_LEVEL"] = "3"
    return environment
