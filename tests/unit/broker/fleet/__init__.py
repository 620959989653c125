"""Several brokers under one supervisor, without processes and sockets."""
