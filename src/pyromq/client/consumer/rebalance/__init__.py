"""Rebalancing: how queues are shared out among the members of a group, who had them before, and where to begin."""
