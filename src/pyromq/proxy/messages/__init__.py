"""Messages of gRPC calls into stored ones, and back."""
