"""Make existing plain PyTorch training scripts train faster by editing their source."""

from pathlib import Path

__version__ = "0.1.0"

# In a checkout the codemods lie beside this folder; an installed package holds them inside it.
if not (Path(__file__).parent / "codemods").is_dir():
    __path__.append(str(Path(__file__).parent.parent))
