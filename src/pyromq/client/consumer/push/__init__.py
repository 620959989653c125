"""The push consumer: queues owned, pull loops, listeners."""
