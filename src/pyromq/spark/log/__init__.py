"""Reading a store's files directly, without a broker: format `rocketmq-log`, and `readMode=log` of `rocketmq`."""
