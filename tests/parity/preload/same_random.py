"""Run before a compiled script: compiled code draws the random numbers that eager code draws."""

import torch._inductor.config

torch._inductor.config.fallback_random = True
