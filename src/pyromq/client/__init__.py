"""Producers, consumers and admin: routes, fault avoidance, rebalance, hooks, trace."""
