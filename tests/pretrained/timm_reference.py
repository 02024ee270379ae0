"""timm, with random weights, for tests that need it as a reference.

timm imports torchvision, whose compiled operators fit one build of PyTorch only. Where
they are missing, two that its Python code expects are declared; nothing calls them.
"""

import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def _declare_operators():
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor a, Tensor b, float c) -> Tensor")
    for name in [x for x in sys.modules if x.split(".")[0] == "torchvision"]:
        del sys.modules[name]
    return library


try:
    pytest.importorskip("torchvision", reason="torchvision is not installed")
except RuntimeError:
    # The declarations last as long as the object.
    _library = _declare_operators()

timm = pytest.importorskip("timm", reason="timm is not installed")


def randomized(model):
    """The model with every parameter drawn anew, so that none of them is a constant."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            scale = 0.2 * parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 0.2
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_(scale * noise)
    return model.eval()
