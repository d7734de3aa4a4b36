"""python -m linattn_spec.mutants"""

from linattn_spec.fixtures import load_cases
from linattn_spec.mutants import kill_table, markdown

print(markdown(kill_table(load_cases())))
