"""POP consumption: the broker keeps the position of a group and who was given what, consumers only acknowledge.

`pops` gives messages out and notes a checkpoint for each queue in the revive topic; `acks` notes what is done; what
is not when its checkpoint comes due, `revive` puts into the group's retry topic, or to the dead letters.
"""
