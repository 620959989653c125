"""The messages of RocketMQ's gRPC calls: `messaging.proto`, and the classes made of it at import."""
