"""Delta tables as sinks, without Java: `layout` is what a table asks of its writers, `task` writes files that obey it,
`statistics` describes them, `storage` is where they go, and `commit` makes a batch one version of the table.
"""
