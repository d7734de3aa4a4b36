"""The NumPy family after a regression: its parallel form goes token by token."""

from benchmarks.contenders import numpy
from benchmarks.contenders.numpy import FRAMEWORK as FRAMEWORK

CONTENDERS = {
    name: numpy.CONTENDERS[name.replace("parallel", "recurrent")] for name in numpy.CONTENDERS
}
