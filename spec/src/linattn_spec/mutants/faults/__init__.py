"""The faults. Importing a file puts its mutants into the table."""
