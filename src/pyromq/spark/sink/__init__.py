"""Where rows go: files with manifests and table formats (`table`), topics. Each commits a batch once, however often
it is told.

`sink` is the protocol of all, `fanout` gives rows to any number of them, `writers` is what `df.write` comes down to. A
topic (`topic`): `messages` are made of rows, `sender` sends them, `lanes` and `marks` see to it that each is there
once, `writabletopic` asks its brokers.
"""
