"""What studies runs: comparisons, reports, sweeps, the paper's experiments. The library never imports it."""
