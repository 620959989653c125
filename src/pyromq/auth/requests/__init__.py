"""Requests about users and rules, of RocketMQ 5 and of RocketMQ 4."""
