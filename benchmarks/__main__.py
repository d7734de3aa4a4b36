"""Measures what is asked for, shows it, and says which targets are met."""

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import machine, readme, report, targets
from benchmarks.families import FAMILIES
from benchmarks.plan import plan
from benchmarks.run import Run
from benchmarks.suites import REDUCED, SUITES

# The packages alone, without those that take long to import.
REDUCED_FAMILIES = ("numpy", "torch", "jax")


def main(arguments=None, families=FAMILIES):
    options = parse(arguments)
    console = Console()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.reduced:
        families = [family for family in families if family.name in REDUCED_FAMILIES]
        groups, wanted = REDUCED, targets.REDUCED
    else:
        groups = [group for name in options.suite for group in SUITES[name]]
        wanted = targets.TARGETS
    facts = machine.facts(options.threads)
    console.print(facts)
    run = Run(families, options.threads, options.out / "logs", dict(options.python))
    try:
        rounds = plan(groups, run.contenders, options.contender, options.shape)
        for _ in measure(run, rounds, options.repeats, console):
            # Again after each set of rounds: hours are lost otherwise when a run is stopped.
            record(options, run, facts, wanted)
    finally:
        run.close()
    return conclude(options, console, run, facts, wanted)


def measure(run, rounds, repeats, console):
    """Measures all rounds, and yields after each set of them."""
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(rounds))
        for together in rounds:
            run.measure(together, repeats, lambda what: progress.update(task, description=what))
            progress.advance(task)
            yield


def record(options, run, facts, wanted):
    report.write(options.out / "results.json", facts, run, run.measurements.values(), wanted)


def conclude(options, console, run, facts, wanted):
    """Writes and shows the results; the exit status is 1 if a reduced run does not pass."""
    found = list(run.measurements.values())
    record(options, run, facts, wanted)
    report.show(console, run, found, wanted)
    if options.reduced:
        judged = list(report.judged(wanted, found))
        wrong = [m for m in found if m.reason is not None]
        passed = bool(judged) and not wrong and all(target.met(ratio) for target, ratio in judged)
        console.print("passed" if passed else "[bold red]not passed")
        return 0 if passed else 1
    from benchmarks import pictures  # matplotlib is not needed for a reduced run

    drawn = pictures.draw(options.out, found)
    page = options.out / "README.md"
    readme.write(page, facts, run.versions, run.absent, found, wanted, drawn)
    console.print(f"results.json, README.md and {len(drawn)} pictures are in {options.out}")
    return 0


def parse(arguments):
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--suite", action="append", choices=SUITES, help="all of them if none")
    parser.add_argument("--contender", action="append", metavar="GLOB", help='as in "torch-*"')
    parser.add_argument("--shape", action="append", type=shape, metavar="B,T,H,D")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each contender")
    parser.add_argument("--threads", type=int, help="as many as cores; reduced, one")
    parser.add_argument("--out", type=Path, default=Path("bench-results"), metavar="FOLDER")
    parser.add_argument(
        "--reduced", action="store_true", help="a few ratios that a regression breaks"
    )
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        type=lambda text: tuple(text.split("=", 1)),
        metavar="FAMILY=PROGRAM",
        help="the Python that has the family's packages, if it is not this one",
    )
    options = parser.parse_args(arguments)
    options.suite = options.suite or list(SUITES)
    # Threads of a machine that others use too wait for each other, and ratios are all that counts.
    options.threads = options.threads or (1 if options.reduced else machine.cores())
    options.contender = options.contender or ["*"]
    return options


def shape(text):
    sizes = tuple(map(int, text.split(",")))
    if len(sizes) != 4:
        raise argparse.ArgumentTypeError("four sizes, as in 1,2048,8,64")
    return sizes


if __name__ == "__main__":
    sys.exit(main())
