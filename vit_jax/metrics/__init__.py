"""Numbers from a model's outputs: NumPy, SciPy and scikit-learn, never JAX.

classification.py    accuracy, loss, precision, recall and F1, with intervals
confusions.py, roc.py    which classes are mistaken for which; ROC curves
calibration.py, temperature.py    confidence against accuracy; temperature scaling
paired.py        tests of the difference between two models; mean and std over seeds
epochs.py        logged values by epoch, and when they reach a goal
human.py         agreement with people (CIFAR-10H)
distances.py, duplicates.py    classes in a feature space; images that splits share

Most functions take logits [n, k] and labels [n]. Fractions are 0 to 1, and a number
that is not defined is NaN, or None in what goes into JSON.

Imports `vit_jax.errors` and `files` only.
"""
