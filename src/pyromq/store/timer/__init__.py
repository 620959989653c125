"""The files of the timer: wheel, log, checkpoint."""
