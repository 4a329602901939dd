"""What studies runs: compare, report, sweep, reproduce. The library never imports it."""
