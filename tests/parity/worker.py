"""python -m parity.worker PACKAGE RUN DIRECTORY: every call of the plan, answered by one package.

One process per package, because the thread pools of the frameworks disturb each other. It judges
nothing: it writes what came of every call. On stdout it prints, after each, "done total".
"""

import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from linattn_spec.conformance import run_case
from linattn_spec.fixtures import Case, load_cases
from parity.plan import PACKAGES, Package, calls
from parity.results import Outcome, Results, fixtures_fingerprint, save

Adapter = Callable[..., dict[str, Any]]


def main(name: str, run: str, directory: str) -> None:
    # What a framework prints goes to the log with stderr; the pipe is for progress alone.
    progress = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    package = PACKAGES[name]
    adapter = _load_adapter(package)
    plan = list(calls(load_cases()))
    outcomes = {}
    print(0, len(plan), file=progress)
    for done, (call, case) in enumerate(plan, 1):
        outcomes[call] = _answer(adapter, case, package.options | {"execution_mode": call.mode})
        print(done, len(plan), file=progress)
    versions = {x: importlib.metadata.version(x) for x in package.distributions}
    save(Results(name, run, fixtures_fingerprint(), versions, outcomes), Path(directory))


def _load_adapter(package: Package) -> Adapter:
    spec = importlib.util.spec_from_file_location("adapter", package.adapter)
    module = importlib.util.module_from_spec(spec)
    # As pytest does, so that what the tests of the package can import the adapter can too.
    sys.path.insert(0, str(package.adapter.parent))
    spec.loader.exec_module(module)
    return module.adapter


def _answer(adapter: Adapter, case: Case, options: dict[str, Any]) -> Outcome:
    try:
        results = run_case(case, partial(adapter, **options))
    except Exception as error:
        return Outcome(raised=(type(error).__name__, str(error)))
    return Outcome({tensor: np.asarray(x) for tensor, x in results.items() if x is not None})


if __name__ == "__main__":
    main(*sys.argv[1:])
