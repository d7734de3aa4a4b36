"""The machine that a run was made on, without which its numbers say nothing."""

import os
import platform
from pathlib import Path


def cores():
    """How many this process may use."""
    return len(os.sched_getaffinity(0))


def facts(threads):
    return {
        "processor": _processor(),
        "cores": cores(),
        "threads": threads,
        "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": platform.system(),
        "python": platform.python_version(),
        # Above the number of cores, others were computing too.
        "load": os.getloadavg()[0],
    }


def _processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
