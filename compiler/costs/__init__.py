"""What an experiment costs and whether it fits, computed from its plan alone: calls and their price, tokens, memory,
hours. Nothing here imports torch or starts anything."""
