"""What a trained model looks at, and whether a picture of that can be trusted."""
