"""Where calls go: brokers behind links, and the routes of topics."""
