"""Stored records: the bytes of messages in the log and in answers, and what they are made of."""
