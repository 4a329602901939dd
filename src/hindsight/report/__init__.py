"""Pictures of runs: learning curves and videos."""
