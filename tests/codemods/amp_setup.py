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
LOOP = """
for x, y in loader:
    out = model(x)
    loss = criterion(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SCALED_LOOP = """
for x, y in loader:
    with torch.autocast("cuda", dtype=torch.float16):
        out = model(x)
        loss = criterion(out, y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
