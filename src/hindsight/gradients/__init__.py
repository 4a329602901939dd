"""Hindsight policy gradients: importance weights and estimators, and the learners built from them."""
