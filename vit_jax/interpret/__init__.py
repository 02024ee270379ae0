"""What a trained model looks at, and how faithful a picture of that is.

attention.py     attention weights of a ViT, rollout, distances in pixels
relevance.py     attention weighted by its gradient, for one class
gradcam.py       Grad-CAM and feature maps of a ResNet
faithfulness.py  deletion and insertion curves of any heat map
weights.py       filters of the first layer, similarity of positions
architecture.py, traced.py    the parts of a network, to draw
inputs.py        image files as a model's input

Everything takes a `runs.run.Run` or a model and returns NumPy arrays; `analysis` draws
and stores them.

Imports `runs` and the rooms below it, not `training`.
"""
