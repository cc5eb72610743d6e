"""CodeGym: environments made from coding problems (primary source: arXiv 2509.17325).

A decomposed solution's functions become tools, its inputs are hidden behind observation tools, and the answer that is
submitted is compared with the solution's own. Nothing that comes from a problem or an author is run with our rights:
see `rlspec.runtime.worlds.codegym.host`.
"""
