"""Runs rounds: every call is built and checked first, then all of them take turns."""

import tempfile
from pathlib import Path

from benchmarks import memory
from benchmarks.inputs import read_inputs, write, write_inputs
from benchmarks.measurement import Measurement
from benchmarks.process import Failed, Process
from benchmarks.reference import expected

# A first call may compile for minutes; nothing else may take as long.
PREPARING_SECONDS = 600
CALL_SECONDS = 300
# What is slower is timed once: its ratios are far from any limit.
SLOW_SECONDS = 10


class Run:
    """The processes of the families that could be started, and what was measured with them."""

    def __init__(self, families, threads, logs, pythons):
        logs.mkdir(parents=True, exist_ok=True)
        self.absent = {}
        self.versions = {}
        self.measurements = {}
        self._threads, self._logs, self._pythons = threads, logs, pythons
        self._processes = {}
        self._requests = {}
        self._prepared = {}
        for family in families:
            self._start(family)
        self.families = {
            name: family
            for family, process in self._processes.items()
            for name in process.hello["contenders"]
        }

    @property
    def contenders(self):
        return list(self.families)

    def measure(self, rounds, repeats, advance):
        """Measures what takes turns; calls `advance` with what is being done."""
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            ready = [m for entry in rounds.entries if (m := self._prepare(folder, entry, advance))]
            self._take_turns(ready, repeats, advance)
            timed = {m.key for m in ready if m.reason is None}
            for m in ready:
                if m.key in timed:
                    self._ask(m, "release", key=str(m.key))
            for entry in rounds.memory:
                if entry in timed:
                    self._peak(folder, self.measurements[entry], advance)

    def close(self):
        for process in self._processes.values():
            process.stop()

    def _start(self, family):
        try:
            process = self._process(family, **memory.KEPT)
        except (Failed, OSError) as reason:
            self.absent[family.name] = str(reason)
        else:
            self._processes[family.name] = process
            self.versions |= process.hello["versions"]

    def _process(self, family, **environment):
        python = {"python": self._pythons[family.name]} if family.name in self._pythons else {}
        options = {"threads": self._threads, "logs": self._logs, "environment": environment}
        return Process(family, **options, **python)

    def _prepare(self, folder, entry, advance):
        """The measurement of an entry that is ready to be timed; None for any other."""
        contender, problem, which = entry
        measurement = Measurement(contender, problem, which)
        request = {"contender": contender, "problem": problem.json(), "which": which}
        taken = self._ask(measurement, "takes", **request)
        if taken is not None and not taken["takes"]:
            return None
        self.measurements[entry] = measurement
        if taken is None:
            return None
        advance(f"checking {contender}, {which} of {problem}")
        inputs, wanted = self._written(folder, problem, which)
        files = {"inputs": str(inputs), "expected": str(wanted)}
        self._requests[entry] = request | files | {"key": str(entry)}
        answer = self._ask_to_prepare(measurement)
        if answer is None:
            return None
        measurement.first_call = answer["first_call"]
        measurement.errors = {name: float(x) for name, x in answer["errors"].items()}
        if "wrong" in answer:
            measurement.reason = f"wrong: {answer['wrong']}"
            return None
        if answer["warm"] > SLOW_SECONDS:
            measurement.seconds.append(answer["warm"])
        return measurement

    def _take_turns(self, ready, repeats, advance):
        fast = [m for m in ready if not m.seconds]
        for turn in range(repeats):
            # Each round begins elsewhere, so that nobody always follows the same one.
            start = turn * len(fast) // repeats
            for m in fast[start:] + fast[:start]:
                if m.reason is None:
                    advance(
                        f"round {turn + 1} of {repeats}: {m.contender}, {m.which} of {m.problem}"
                    )
                    answer = self._ask_for_time(m)
                    if answer is not None:
                        m.seconds.append(answer["seconds"])

    def _ask_to_prepare(self, m):
        answer = self._ask(m, "prepare", seconds=PREPARING_SECONDS, **self._requests[m.key])
        self._prepared[m.key] = self._of(m).starts
        return answer

    def _ask_for_time(self, m):
        """Another contender of the family may have ended the process that this was prepared in."""
        if self._prepared[m.key] != self._of(m).starts or not self._of(m).alive:
            self._ask_to_prepare(m)
        return None if m.reason else self._ask(m, "time", key=str(m.key))

    def _of(self, m):
        return self._processes[self.families[m.contender]]

    def _peak(self, folder, m, advance):
        """In a process of its own, so that nothing is left of other measurements."""
        advance(f"memory: {m.contender}, {m.which} of {m.problem}")
        inputs = write_inputs(folder, m.problem.shape, m.problem.dtype)
        family = self._of(m).family
        try:
            process = self._process(family, **memory.GIVEN_BACK)
        except Failed as reason:
            m.peak_reason = str(reason)
            return
        request = {"contender": m.contender, "problem": m.problem.json(), "which": m.which}
        try:
            answer = process.ask("memory", seconds=PREPARING_SECONDS, inputs=str(inputs), **request)
            m.peak = answer["bytes"]
        except Failed as reason:
            m.peak_reason = str(reason)
        finally:
            process.stop()

    def _written(self, folder, problem, which):
        """The folders of the inputs and of what is expected of them."""
        inputs = write_inputs(folder, problem.shape, problem.dtype)
        wanted = folder / f"expected {which} of {problem}"
        if not wanted.exists():
            write(wanted, expected(problem, which, *read_inputs(inputs, problem)))
        return inputs, wanted

    def _ask(self, m, what, seconds=CALL_SECONDS, **request):
        """The answer, or None; then the measurement says why, and has no times."""
        try:
            return self._of(m).ask(what, seconds=seconds, **request)
        except Failed as reason:
            m.reason = m.reason or str(reason)
            m.seconds.clear()
            return None
