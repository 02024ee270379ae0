"""What the commands do with finished runs and with data.

evaluate.py   scores of a split (scored.py: its logits; cost.py: parameters, FLOPs,
              latency; run_data.py: the data of the run); report.py, page.py: figures,
              tables, one HTML page
compare.py    several runs in numbers; compare_files.py: their tables and figures;
              tables.py: Markdown and CSV
predict.py    predictions for image files
explain.py    heat maps and their faithfulness
explore.py    what data look like

Imports `training`, `interpret` and the rooms below them.
"""
