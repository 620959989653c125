"""gRPC for RocketMQ 5.x clients: inside a broker, or in front of any cluster."""
