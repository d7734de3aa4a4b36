"""How much memory a call takes at its peak, as Linux counts it."""

import threading
import time
from pathlib import Path

STATUS = Path("/proc/self/status")
# For a peak, blocks of this size and above are given back when freed, so that what a call no longer
# needs is not counted, and what an earlier one left behind is not used again.
BLOCK = 2**16
GIVEN_BACK = {
    "MALLOC_MMAP_MAX_": "65536",
    "MALLOC_MMAP_THRESHOLD_": str(BLOCK),
    "MALLOC_TRIM_THRESHOLD_": str(BLOCK),
    # TensorFlow has a pool of its own otherwise, which gives nothing back.
    "TF_ONEDNN_USE_SYSTEM_ALLOCATOR": "1",
}
# For times nothing is, as long-running programs keep what they will need again: the kernel clears
# the pages of every block of 32 MiB anew, which takes as long as the call at some lengths only.
KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
SAMPLE_SECONDS = 0.001


def peak_beyond_now(call):
    """The largest resident set while `call` runs, less the one before it."""
    if _forget_the_peak():
        before = _resident("VmRSS")
        call()
        return _resident("VmHWM") - before
    return _sampled(call)


def _forget_the_peak():
    """Resets the kernel's own high-water mark, where that is allowed."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _sampled(call):
    before = peak = _resident("VmRSS")
    done = threading.Event()

    def watch():
        nonlocal peak
        while not done.is_set():
            peak = max(peak, _resident("VmRSS"))
            time.sleep(SAMPLE_SECONDS)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        call()
    finally:
        done.set()
        watcher.join()
    return peak - before


def _resident(field):
    for line in STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"{STATUS} has no {field}")
