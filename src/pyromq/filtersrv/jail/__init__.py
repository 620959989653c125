"""The inside of a jail: the process in which one uploaded filter class runs.

Three fences, each meant to hold when the one before it falls: the language (`policy`), the process (`confine`: no
rights, no files, little memory) and the kernel (`seccomp`: nearly no system calls). The keeper outside, `worker`, adds
time. Nothing here may import what the filter server itself uses: less code in the jail is less to break out with.
"""
