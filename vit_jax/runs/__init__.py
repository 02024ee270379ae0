"""Runs on disk: a run's folder, its checkpoints, and loading it.

folder.py        paths and small files; lock.py: one training at a time;
                 environment.py: versions and devices; records.py: metrics.jsonl
checkpoint.py    save and restore, best and newest; orbax_manager.py: Orbax's settings;
                 manifest.py: SHA-256 of the files; ranking.py: which one is best
run.py           `Run`: a trained model with everything needed to use it; load.py:
                 `load_run` and, where it must have classes, `load_classifier`;
                 model_input.py: a user's images in the form that it takes
user_code.py     a user's own models, data sources and augmentations

Imports `config`, `parallel`, `models`, `data`, `augment` and the rooms below them, but
neither `pretrained` nor `training`.
"""
