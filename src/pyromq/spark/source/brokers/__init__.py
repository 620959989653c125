"""What a read asks name servers and brokers on the driver.

`routes` knows who serves which queue, `cluster` asks about offsets, `looks` packs the questions about all queues of a
broker into one, and `longpoll` waits for messages.
"""
