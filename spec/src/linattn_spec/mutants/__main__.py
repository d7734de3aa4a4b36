"""python -m linattn_spec.mutants"""

from linattn_spec.fixtures import load_cases
from linattn_spec.mutants import markdown

print(markdown(load_cases()))
