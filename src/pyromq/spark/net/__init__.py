"""Blocking connections of drivers and tasks to name servers and brokers."""
