"""How far two runs may differ: measured once, written down here.

Figures: the largest relative difference over the steps of short runs (25 to 40) of an MLP, CNNs with and without
batch norm, a transformer and an LSTM on the CPU, same start and same batches. Rounding alone (float32 against
float64) gives 1e-7 to 8e-7. Runs at high learning rates grow apart without bound: keep them short.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """The largest relative difference of a loss and of a gradient norm; `source` is what was measured."""

    loss: float
    norm: float
    source: str


TOLERANCES: dict[str, Tolerance] = {
    "float16": Tolerance(5e-3, 1e-1, "loss 2.3e-4 with nothing skipped; norm 6.4e-2 after 16 steps"),
    "bfloat16": Tolerance(1e-2, 1e-1, "loss 5.6e-4 with AdamW, 1.2e-3 with SGD"),
    "compile": Tolerance(1e-4, 1e-3, "loss 1.6e-7, with batch norm 3.9e-6; no dropout"),
    "compile-low-precision": Tolerance(2e-3, 1e-1, "loss 9.8e-5 against eager bfloat16"),
    "fused-optimizer": Tolerance(1e-5, 1e-4, "loss 1.6e-7"),
    "channels-last": Tolerance(1e-4, 1e-3, "loss 1.4e-7, with batch norm 9.9e-6"),
    "accumulate": Tolerance(1e-5, 1e-4, "loss 1.8e-7 with the same effective batch and no batch norm"),
    "ddp": Tolerance(1e-5, 1e-4, "loss 1.6e-7 with the same global batch and no batch norm"),
}


def tolerance_for(codemods: frozenset[str], amp_dtype: str = "float16") -> Tolerance:
    """The tolerance for codemods applied together: the widest of theirs."""
    names = {amp_dtype if name == "amp" else name for name in codemods}
    if {"amp", "compile"} <= codemods:
        names.add("compile-low-precision")
    known = [TOLERANCES[name] for name in sorted(names) if name in TOLERANCES]
    return max(known, key=lambda tolerance: tolerance.loss, default=Tolerance(0.0, 0.0, "nothing may differ"))
