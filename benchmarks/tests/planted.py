"""Contenders whose faults are known: the benchmark must find each of them."""

import os
import time

from benchmarks.contenders import numpy
from benchmarks.contenders.numpy import FRAMEWORK as FRAMEWORK

SOUND = numpy.CONTENDERS["numpy-parallel"]


def _spoilt(spoil):
    """The sound contender whose every call goes through `spoil`."""

    def build(*arguments):
        call = SOUND.build(*arguments)
        return lambda: spoil(call())

    return SOUND._replace(build=build)


def _slow(results):
    time.sleep(0.2)
    return results


def _wrong(name):
    def spoil(results):
        return {n: 1.01 * x if n == name else x for n, x in results.items()}

    return _spoilt(spoil)


def _build_hoarding(*arguments):
    results = SOUND.build(*arguments)()
    return lambda: results


def _raise(results):
    raise RuntimeError("no")


CONTENDERS = {
    "planted-slow": _spoilt(_slow),
    "planted-wrong-output": _wrong("output"),
    "planted-wrong-state": _wrong("final_state"),
    "planted-wrong-gradient": _wrong("gradient.beta"),
    "planted-missing": _spoilt(lambda results: {"output": results["output"]}),
    "planted-nan": _spoilt(lambda results: {n: x * float("nan") for n, x in results.items()}),
    "planted-raising": _spoilt(_raise),
    "planted-dying": _spoilt(lambda results: os._exit(3)),
    "planted-hoarding": SOUND._replace(build=_build_hoarding),
    "planted-sound": SOUND,
}
