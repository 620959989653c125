"""The driver's side of reading: from what Spark asks to ranges of queues for its tasks.

`formats` is what Spark finds, `streamreader` and `batchreader` what it calls. A stream is tracked by `tracker`: where
it stands (`offsets`), how much it takes (`batchsize`), how it waits (`longpoll`). `bounds` says where reads begin and
end, `partitions` cuts them into tasks, `cluster` asks name servers and brokers.
"""
