"""Records as Arrow columns: one decoder for Spark's tasks, for files of a store and for clients. No Spark, no I/O.

Needs pyarrow and numpy: the extras `arrow` and `spark` have both.
"""
