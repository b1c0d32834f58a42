"""What most cases of mixed precision start with, before and after."""

from __future__ import annotations

SETUP = """import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(8, 2).cuda()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
SCALED = SETUP + 'scaler = torch.amp.GradScaler("cuda")\n'
