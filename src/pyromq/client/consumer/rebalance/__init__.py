"""Rebalancing: how the queues of a topic are shared out among the members of a group."""
