"""timm, and the few torchvision operators that it would otherwise miss.

torchvision has no build for every PyTorch for CPUs; another build of it imports once
the compiled operators that it lacks are declared. They are never called here.
"""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

_OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_library = torch.library.Library("torchvision", "FRAGMENT")
for _operator in _OPERATORS:
    if not hasattr(torch.ops.torchvision, _operator.split("(")[0]):
        _library.define(_operator)

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
