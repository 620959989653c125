"""The calls of the messaging service, a module for each group of them."""
