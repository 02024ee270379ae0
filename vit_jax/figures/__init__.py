"""Arrays in, matplotlib figures out; nothing is computed but shares for display.

Figures are made without pyplot: no backend, window or global setting is touched. They
show themselves in a notebook, and `style.save` writes them. Accuracies, probabilities
and confidences come in as shares (0 to 1) and are shown in per cent.

Imports nothing else of `vit_jax` but `errors`.
"""
