"""The workings of `experiments.forecast`: programs for a GPU that is not there.

targets.py    the GPUs, each a file of public figures in targets/
programs.py   the programs of a config, compiled for a target
hlo.py        the text of a compiled program: kernels, bytes, operations
work.py       what a kernel computes: products, convolutions, everything else
budget.py     kernels by kind, and the time that they take by the figures of a target
report.py     the forecast as a table
"""
