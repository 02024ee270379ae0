"""What the commands do with finished runs and with data.

evaluate.py   scores of a split (scored.py: its logits, parameters, FLOPs; latency.py;
              run_data.py: the data of the run); report.py, page.py: figures, tables,
              one HTML page
compare.py    tables and figures of several runs; entries.py: these runs in numbers;
              tables.py: Markdown and CSV
predict.py    predictions for image files
explain.py    heat maps and their faithfulness; architecture.py: the network, drawn
explore.py    statistics of a dataset, and its augmented images

Imports `training`, `interpret` and the rooms below them.
"""
