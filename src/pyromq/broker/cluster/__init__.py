"""The broker's place in the cluster: registration, members, the clients that are connected."""
