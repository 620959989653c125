"""Reading the files of a store without its broker: queue by queue (`ranges`), or the log from end to end (`walk`).

`reader` is what Spark calls; `storefiles` finds and reads files, `windows` records by position, `stretches` cuts the
work into tasks, `storeoffsets` answers in the place of brokers.
"""
