"""Starts the workers, two at a time, shows their progress, and passes the verdict."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from linattn_spec.fixtures import load_cases
from parity.cells import cells
from parity.compare import compare
from parity.heatmap import draw
from parity.plan import PACKAGES, ROOT
from parity.report import show, write_json
from parity.results import ResultError, discard, fixtures_fingerprint, load

# The slowest first, so that none of them is left to run alone at the end; and keras-jax, which
# compiles the very programs of jax, long after it, to find them in the cache.
_START_ORDER = (
    "jax",
    "keras-jax-portable",
    "keras-tf-portable",
    "keras-tf",
    "tf",
    "keras-jax",
    "keras-torch-portable",
    "keras-torch",
    "torch",
    "numpy",
)
_WORKERS = 2
_ENVIRONMENT = {
    "JAX_ENABLE_X64": "1",
    "OMP_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


def main() -> int:
    parser = argparse.ArgumentParser("parity", description="Compares the packages on all fixtures.")
    parser.add_argument("packages", nargs="*", metavar="package", help=", ".join(PACKAGES))
    parser.add_argument("--results", type=Path, default=ROOT / "parity-results")
    options = parser.parse_args()
    unknown = set(options.packages) - PACKAGES.keys()
    if unknown:
        parser.error(f"no such package: {', '.join(sorted(unknown))}")
    packages = [name for name in PACKAGES if name in (options.packages or PACKAGES)]
    directory = options.results.resolve()
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)

    started, run, fixtures = time.monotonic(), uuid.uuid4().hex, fixtures_fingerprint()
    _run_workers(packages, run, directory, console)
    results, absent = {}, []
    for name in packages:
        try:
            results[name] = load(name, directory)
        except ResultError as error:
            absent.append(f"{name}: {error}")
    comparison = compare(load_cases(), results, run, fixtures)
    comparison.faults[:0] = absent
    filled = cells(comparison.measurements)
    write_json(comparison, filled, results, run, fixtures, directory / "results.json")
    if filled:
        draw(filled, results, directory / "heatmap.png")
        show(comparison, filled, results, console)
    verdict = "[bold green]Parity holds" if comparison.passed else "[bold red]Parity is broken"
    console.print(
        f"{verdict}[/]: {', '.join(packages)}; {len(comparison.measurements)} tensors compared, "
        f"{comparison.refusals} refused calls, {time.monotonic() - started:.0f} s.\n"
        f"In {directory}: results.json, heatmap.png, and each package's own results and log.",
        soft_wrap=True,
    )
    return 0 if comparison.passed else 1


def _run_workers(packages: Iterable[str], run: str, directory: Path, console: Console) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for leftover in (directory / "results.json", directory / "heatmap.png"):
        leftover.unlink(missing_ok=True)
    for name in packages:
        discard(name, directory)
    progress = Progress(
        TextColumn("{task.description:20}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )
    with (
        tempfile.TemporaryDirectory() as cache,
        progress,
        ThreadPoolExecutor(_WORKERS) as pool,
    ):
        bars = {name: progress.add_task(name, total=None, start=False) for name in packages}
        order = sorted(packages, key=_START_ORDER.index)
        for finished in [
            pool.submit(_run_worker, name, run, directory, cache, progress, bars[name])
            for name in order
        ]:
            finished.result()


def _run_worker(
    name: str, run: str, directory: Path, cache: str, progress: Progress, bar: int
) -> None:
    """Runs one worker to its end. What it fails to write, the comparison finds missing."""
    started = time.monotonic()
    progress.start_task(bar)
    log = directory / f"{name}.log"
    environment = _ENVIRONMENT | PACKAGES[name].environment | {"JAX_COMPILATION_CACHE_DIR": cache}
    with log.open("w") as stderr:
        worker = subprocess.Popen(
            [sys.executable, "-m", "parity.worker", name, run, str(directory)],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        for line in worker.stdout:
            done, total = map(int, line.split())
            progress.update(bar, completed=done, total=total)
    progress.stop_task(bar)
    if not progress.console.is_terminal:
        progress.console.print(f"{name}: {time.monotonic() - started:.0f} s")
    if worker.wait() != 0:
        progress.console.print(f"[red]{name}: the worker ended with {worker.returncode}[/]")
        progress.console.print("".join(log.read_text().splitlines(True)[-15:]), markup=False)


if __name__ == "__main__":
    sys.exit(main())
