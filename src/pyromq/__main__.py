"""`python -m pyromq` is the `pyromq` command."""

from pyromq.cli import main

main()
