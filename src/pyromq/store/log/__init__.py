"""The commit log: mapped files, the put path, flushing, damage."""
