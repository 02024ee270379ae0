"""Functions from arrays to matplotlib figures; nothing is computed but percentages.

style.py         colours, sizes, labels, which of many classes are shown, and `save`
history.py, compare.py    one run's training curves; several runs side by side
confusion.py, per_class.py, roc.py, calibration.py    the scores of a split
images.py, embedding.py    images and their pixel values, features in a plane
attention.py, predict.py    heat maps; the prediction for one image
architecture.py  a network as boxes and arrows

Figures are made without pyplot, so that no backend, window or global setting changes. A
notebook displays them, and `style.save` writes them. Accuracies, probabilities and
confidences are given as fractions (0 to 1) and shown in per cent.

Imports nothing else of `vit_jax` but `errors` and `files`.
"""
