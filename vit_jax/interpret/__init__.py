"""What a trained model looks at, and whether a picture of that can be trusted.

Imports `runs` and the rooms below it, not `training`.
"""
