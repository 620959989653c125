"""What runs in Spark's tasks: ranges of queues in, Arrow record batches out.

`rangereader` reads from files where it may (`log`) and pulls the rest (`pull`); `rowshape` knows which columns there
are, `decoder` makes them of records (`recordlayout`, `fields`, `pieces`, `propertytext`; `scalar` where vectors do not
fit), `body` of JSON.
"""
