"""Functions from arrays to matplotlib figures; nothing is computed but percentages.

Figures are made without pyplot, so that no backend, window or global setting changes. A
notebook displays them, and `style.save` writes them. Accuracies, probabilities and
confidences are given as fractions (0 to 1) and shown in per cent.

Imports nothing else of `vit_jax` but `errors` and `files`.
"""
