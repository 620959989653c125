"""gRPC on asyncio: connections, calls, deadlines, status. It knows nothing of RocketMQ."""
