"""Transactional messages: half messages, their end, and asking producers back."""
