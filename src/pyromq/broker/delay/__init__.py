"""Messages that come back later: delay levels, the timer, recalls."""
