"""The network of Spark's processes, drivers and tasks alike: blocking connections, questions, and patience.

What is asked stands in `protocol.requests`; whom to ask, and about what, is known to `source.cluster` and to
`sink.writabletopic`.
"""
