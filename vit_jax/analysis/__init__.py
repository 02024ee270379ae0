"""What the commands do with finished runs and with data.

evaluate.py   scores of a split (scored.py: its logits, parameters, FLOPs; latency.py;
              run_data.py: the data of the run)
report.py     the report of a split: report_figures.py, quantities.py (its numbers for
              people), and page.py: CSV files and one HTML page
compare.py    several runs: tables and figures; entries.py: in numbers; tables.py:
              Markdown and CSV
predict.py    predictions for image files
explain.py    heat maps and their faithfulness; architecture.py: the network, drawn
explore.py    statistics of a dataset; augmented.py: its augmented images

Imports `training`, `interpret` and the rooms below them.
"""
