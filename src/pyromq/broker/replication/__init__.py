"""Master and slaves: the log over a port of its own, in Apache's classic format; the rest over the normal port."""
