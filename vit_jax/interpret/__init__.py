"""What a trained model looks at, and how faithful a picture of that is.

Imports `runs` and the rooms below it, not `training`.
"""
