"""Coverage-guided fuzzing of everything that reads bytes from strangers: `make fuzz`, or `python -m tests.fuzz --help`.

What to feed is in `targets`; `tests/hostile/test_hostile_targets.py` runs the same without a fuzzer.
"""
