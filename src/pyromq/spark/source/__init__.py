"""The driver's side of reading: from what Spark asks to ranges of queues for its tasks.

`formats` is what Spark finds, `streamreader` and `batchreader` what it calls. A stream is tracked by `tracker`: where
it stands (`offsets`), whether topics are those that it knew (`marks`), how much it takes (`batchsize`). `bounds` says
where reads begin and end, `filters` narrows them, `partitions` cuts them into tasks. `brokers` has the questions.
"""
