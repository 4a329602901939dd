"""Learners: one file per algorithm, on- and off-policy; `registry.py` lists them."""
