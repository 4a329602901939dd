"""The paper's tables and figures, and ours: what to run, what was measured, and what to draw from it."""
