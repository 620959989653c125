"""Typed bodies of requests and responses, and of the JSON files that brokers, name servers and clients keep."""
