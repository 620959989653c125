"""The broker: one module for each thing it does."""
