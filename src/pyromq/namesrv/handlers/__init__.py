"""Requests of the name server, one module for each area. A handler turns a header into a call of the tables and the
result into an answer; it decides nothing that the tables could decide. Bad names, bodies and bounds are raised, and
answered by the transport."""
