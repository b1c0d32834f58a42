"""Stand in for CUDA on a machine without one: run this before a script (`preload`), importing it installs it.

A script sees one CUDA device; everything is computed on the CPU. Tensors know that they "are on the device", so
`tensor.device`, `tensor.is_cuda` and copies between host and device behave. torch itself still sees the CPU.
autocast and GradScaler for cuda do the CPU's with the same type, and what CUDA's autocast refuses is refused.

Not modelled: errors for operands on different devices, threads of the script's own, hard-coded cuda devices inside
compiled code, sizes and speed of real kernels.
"""

from . import compilation, precision, residency, runtime

runtime.install()
precision.install()
compilation.install()
residency.install()
