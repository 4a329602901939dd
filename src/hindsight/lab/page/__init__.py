"""The page of a comparison: one HTML file, made from templates."""
