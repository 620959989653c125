"""The filter server: runs filter classes that consumers upload, next to a broker, each class in a jail of its own."""
