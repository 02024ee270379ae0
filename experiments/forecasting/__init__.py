"""The workings of `experiments.forecast`: programs for a GPU that is not there.

targets.py    the GPUs, each a file of public figures in targets/
programs.py   the programs of a config, compiled for a target
hlo.py        the text of a compiled program: kernels, bytes, operations
kinds.py      what a kernel belongs to: attention, optimizer, augmentation, ...
budget.py     the time that kernels take by the figures of a target
report.py     the forecast as a table
"""
