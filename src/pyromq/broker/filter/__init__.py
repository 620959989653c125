"""What consumers do not want to see: tag and SQL filters, filter servers."""
