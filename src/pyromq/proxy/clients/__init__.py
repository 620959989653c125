"""Who is connected: what each client says of itself, its settings, its telemetry stream."""
