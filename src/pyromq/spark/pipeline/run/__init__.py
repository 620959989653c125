"""Running a pipeline: `runner` starts one Spark query and watches it, `dryrun` only plans it, `replay` repeats a time.

Spark calls `rowsource` and `rowsink`; between them are the `stages`. Bad bodies become dead letters (`deadletter`).
What a run tells: `progress`, completed by a `survey`, and `metrics`.
"""
