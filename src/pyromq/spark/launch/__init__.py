"""How Spark's processes start: the Java machine of a runner; Python, which one, from which modules, new or forked."""
