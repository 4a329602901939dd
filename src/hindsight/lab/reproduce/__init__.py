"""The paper's tables and figures, and ours: what to run, what was measured, what to draw."""
