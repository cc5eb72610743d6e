"""tau-bench (Yao et al. 2024, arXiv 2406.12045): its airline desk, over the benchmark's own data."""
