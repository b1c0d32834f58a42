"""What qualified names mean: which calls make modules, optimizers, schedulers, loaders and losses."""

from __future__ import annotations

import re

SCHEDULER = re.compile(r"torch\.optim\.lr_scheduler\.\w+|transformers\.get_\w*schedule\w*|timm\.scheduler\.\w+")
OPTIMIZER = re.compile(
    r"torch\.optim\.(?!lr_scheduler|swa_utils|Optimizer$)([A-Z?]\w*|\w+\.[A-Z]\w*|\?)"
    r"|torch_optimizer\.[A-Z]\w*|transformers\.(AdamW|Adafactor)|timm\.optim\.\w+|apex\.optimizers\.\w+"
    r"|bitsandbytes\.optim\.\w+|adabound\.AdaBound|radam\.RAdam|lion_pytorch\.Lion"
)
MODULE = re.compile(
    r"torch\.nn\.(modules\.\w+\.)?[A-Z](?!arameter$)\w*"
    r"|torchvision\.models\.(\w+\.)*\w+|timm\.(models\.)?create_model|torch\.hub\.load"
    r"|segmentation_models_pytorch\.\w+|efficientnet_pytorch\.\w+\.\w+|pretrainedmodels\.\w+"
    r"|transformers\.\w*(Model|For[A-Z]\w+)(\.from_pretrained|\.from_config)?"
)
LOADER = re.compile(r"torch\.utils\.data\.(dataloader\.)?DataLoader|torch_geometric\.(loader|data)\.\w*Loader")
WRAPPER = re.compile(
    r"torch\.nn\.(parallel\.)?(data_parallel\.)?DataParallel"
    r"|torch\.nn\.(parallel\.)?(distributed\.)?DistributedDataParallel|torch\.compile"
    r"|apex\.parallel\.DistributedDataParallel"
)
LOSS_MODULE = re.compile(r"torch\.nn\.(modules\.loss\.)?\w*Loss\w*")
LOSS_FUNCTION = re.compile(
    r"torch\.nn\.functional\.(\w*_loss|cross_entropy|binary_cross_entropy\w*|kl_div|nll_loss\w*)|torch\.nn\.functional\.\w*loss\w*"
)
AUTOCAST = re.compile(r"torch\.(cuda\.amp\.|amp\.|cpu\.amp\.)?(autocast_mode\.)?autocast")
SCALER = re.compile(r"torch\.(cuda\.amp\.|amp\.|cpu\.amp\.)?(grad_scaler\.)?GradScaler|.*\bNativeScaler\w*")
CLIP = re.compile(
    r"torch\.nn\.utils\.(clip_grad\.)?clip_grad_(norm_?|value_?)|torch\.nn\.utils\.(clip_grad\.)?(get_total_norm|clip_grads_with_norm_)"
)
RECURRENT = re.compile(r"torch\.nn\.(modules\.rnn\.)?(RNN|LSTM|GRU)(Base)?")
PROBABILITY_LOSS = re.compile(r"torch\.nn\.(modules\.loss\.)?BCELoss|torch\.nn\.functional\.binary_cross_entropy")
PROGRESS = re.compile(r"(.*\.)?(tqdm\w*|trange|track|progress_bar|ProgressBar|prange|Bar)$")
SELF_RETURNING = {
    "to", "cuda", "cpu", "train", "eval", "half", "float", "double", "bfloat16", "apply", "requires_grad_", "xpu",
    "share_memory", "type", "to_empty",
}  # fmt: skip


def is_module(name: str) -> bool:
    """Whether a call of this name makes an `nn.Module` with weights or a container of them."""
    return bool(MODULE.fullmatch(name)) and not name.startswith("torch.nn.utils")


def is_optimizer(name: str) -> bool:
    """Whether a call of this name makes an optimizer; `torch.optim.?` is one chosen at run time."""
    return bool(OPTIMIZER.fullmatch(name))


ENGINES = {
    "transformers.Trainer": "set `fp16=True` or `torch_compile=True` in its TrainingArguments",
    "transformers.Seq2SeqTrainer": "set `fp16=True` or `torch_compile=True` in its TrainingArguments",
    "pytorch_lightning.Trainer": 'pass `precision="16-mixed"` to its Trainer',
    "lightning.Trainer": 'pass `precision="16-mixed"` to its Trainer',
    "lightning.pytorch.Trainer": 'pass `precision="16-mixed"` to its Trainer',
    "lightning.fabric.Fabric": 'pass `precision="16-mixed"` to Fabric',
    "lightning.Fabric": 'pass `precision="16-mixed"` to Fabric',
    "accelerate.Accelerator": 'pass `mixed_precision="fp16"` to Accelerator',
    "deepspeed.initialize": "set `fp16` in its configuration",
    "fastai.vision.all.Learner": "call `.to_fp16()` on the Learner",
}
"""Constructors of other training engines, and their own switch for the same gain."""
