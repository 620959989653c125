"""Requests behind the admin tools, one module for each subject. They see the broker as a whole and own no state."""
