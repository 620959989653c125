"""What the clients of one client id share: connections, routes, heartbeat, periodic work."""
