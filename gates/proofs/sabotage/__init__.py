"""The sabotage bank: faults planted from outside, each of which a gate or audit must catch."""
