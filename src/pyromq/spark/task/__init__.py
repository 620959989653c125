"""What runs in Spark's tasks: ranges of queues in, Arrow record batches out."""
