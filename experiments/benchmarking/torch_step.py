"""A plain PyTorch train step of the same model, data and optimizer, at its fastest.

Data on the device, channels_last for convolutions, fused attention, the config's
optimizer and average of the parameters, torch.compile, and autocast where the JAX model
computes in 16 bits. Weight decay covers all parameters, which costs what a mask costs.
Images are normalised on the device and not augmented. The loss is not scaled in
float16, which would take additional time.
"""

import numpy as np
import torch
from torch.nn import functional
from torch.optim import swa_utils

from experiments.benchmarking import timing, torch_models
from experiments.benchmarking.jax_step import NUM_IMAGES
from vit_jax import models
from vit_jax.data import Dataset, batches
from vit_jax.errors import UserError
from vit_jax.training.experiment import Experiment


def make_optimizers(config, net: torch.nn.Module) -> list[torch.optim.Optimizer]:
    """PyTorch's counterparts of `config.optim`, fused where it has that.

    Muon trains the matrices of the blocks, and AdamW the rest.
    """
    parameters, decay = list(net.parameters()), config.weight_decay
    if config.name == "sgd":
        return [
            torch.optim.SGD(
                parameters, config.learning_rate, config.momentum, weight_decay=decay,
                nesterov=config.nesterov, fused=True,
            )
        ]  # fmt: skip
    optimizers = []
    if config.name == "muon":
        matrices = [p for p in net.blocks.parameters() if p.ndim == 2]
        optimizers.append(
            torch.optim.Muon(
                matrices, config.muon_learning_rate, decay, config.momentum,
                config.nesterov,
            )
        )  # fmt: skip
        ids = {id(p) for p in matrices}
        parameters = [p for p in parameters if id(p) not in ids]
    adamw = torch.optim.AdamW(
        parameters, config.learning_rate, (config.b1, config.b2), weight_decay=decay,
        fused=True,
    )  # fmt: skip
    return [*optimizers, adamw]


class TorchStep:
    """`steps_per_dispatch` train steps in one call.

    Attributes:
      num_params: of the model; raises if the JAX model has another number.
      mode: of torch.compile, or "eager", also where the compiler failed.
      warmup_seconds: of the first two calls, compilation included.
    """

    def __init__(
        self, experiment: Experiment, num_params: int, dataset: Dataset,
        steps_per_dispatch: int, mode: str,
    ):  # fmt: skip
        torch.set_num_threads(timing.num_threads())
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True  # XLA, too, times convolutions first.
        self.steps_per_dispatch, self.mode, self._step = steps_per_dispatch, mode, 0
        self.config = config = experiment.config
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        net = torch_models.make_model(experiment.model, dataset.images.shape[1])
        self.num_params = sum(p.numel() for p in net.parameters())
        if self.num_params != num_params:
            raise UserError(
                f"--against=torch has {self.num_params:,} parameters, but the model in "
                f"JAX has {num_params:,}, so that PyTorch's has no counterpart of one "
                "of its settings; leave --against out, or take a model of --models' "
                "default."
            )
        model = experiment.model
        if isinstance(model, models.ResNet) or model.stem == "conv":
            net = net.to(memory_format=torch.channels_last)
        self.net = net.to(self.device).train()
        self.optimizers = make_optimizers(config.optim, self.net)
        self._averaged = None
        if config.optim.ema_decay:
            self._averaged = swa_utils.AveragedModel(
                self.net,
                multi_avg_fn=swa_utils.get_ema_multi_avg_fn(config.optim.ema_decay),
            )
        pixels = torch.from_numpy(dataset.images).to(self.device)
        # In channels_last the shape is NCHW and the bytes lie as NHWC.
        self._images = pixels.permute(0, 3, 1, 2)
        self._labels = torch.from_numpy(dataset.labels).long().to(self.device)
        self._mean, self._std = (
            255 * torch.tensor(x, device=self.device).view(1, 3, 1, 1)
            for x in (config.data.mean, config.data.std)
        )
        self._loss = self._mean_loss
        if mode != "eager":
            self._loss = torch.compile(self._mean_loss, mode=mode)
        self.warmup_seconds = timing.seconds_of(self._warm_up)

    def __call__(self) -> None:
        for _ in range(self.steps_per_dispatch):
            self._train_step()
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def _warm_up(self) -> None:
        try:
            self()
        except Exception as error:
            # Of any stage of the compiler, or of the C++ compiler that it calls. What
            # was not the compiler's comes again without it, and is raised then.
            if self.mode == "eager":
                raise
            print(f"torch.compile failed, going on without: {type(error).__name__}")
            self.mode, self._loss = "eager", self._mean_loss
            self()
        self()

    def _mean_loss(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        dtype = getattr(torch, self.config.model.dtype)
        with torch.autocast(self.device.type, dtype, enabled=dtype != torch.float32):
            logits = self.net((images.float() - self._mean) / self._std)
        return functional.cross_entropy(
            logits.float(), labels, label_smoothing=self.config.augment.label_smoothing
        )

    def _train_step(self) -> None:
        indices = torch.from_numpy(
            batches.train_indices(
                NUM_IMAGES, self.config.batch_size, 0, self._step
            ).astype(np.int64)
        ).to(self.device, non_blocking=True)
        self._step += 1
        if self.device.type == "cuda":
            torch.compiler.cudagraph_mark_step_begin()
        self._loss(self._images[indices], self._labels[indices]).backward()
        if self.config.optim.clip_norm:
            torch.nn.utils.clip_grad_norm_(
                self.net.parameters(), self.config.optim.clip_norm, foreach=True
            )
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if self._averaged:
            self._averaged.update_parameters(self.net)
