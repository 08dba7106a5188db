"""The commands that only need the arms: generate, distill, models, bench."""
