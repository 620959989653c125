"""A cluster of processes under a schedule of faults, a workload that writes down what happens, and a judge of that."""
