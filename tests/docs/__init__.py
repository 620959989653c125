"""The documentation is true: its code runs, its links lead somewhere."""
