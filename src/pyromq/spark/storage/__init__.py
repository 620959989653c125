"""Files by name, on a local disk or in an object store: where tables and the state of pipelines are kept.

`store` is what all can do and how they fail; `folder`, `objects` and `hadoop` are the kinds there are; `place` finds
that of a path or URL.
"""
