"""What a pipeline leaves on disk, and what can be told from it, whether it runs or not.

`checkpoint` is Spark's, `folder` our own beside it, with the table of `losses`. Told from them: `status`, `history`,
the size of `tables`, the `position` against the topics; `letters` are the dead ones.
"""
