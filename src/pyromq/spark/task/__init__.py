"""What runs in Spark's tasks: ranges of queues in, Arrow record batches out.

`ranges` reads from files where it may (`log`) and pulls the rest (`pull`); `rowshape` knows which columns, `decoder`
makes them of records (`recordlayout`, `fields`, `pieces`, `propertytext`; `scalar` where vectors do not fit), `body`
of JSON.
"""
