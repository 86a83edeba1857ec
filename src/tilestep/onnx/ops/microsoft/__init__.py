"""The domain com.microsoft: what ONNX Runtime's optimiser, quantiser and tools for transformers write. Importing it registers all.

Meanings are those of ONNX Runtime's CPU kernels. An attribute or an input beyond them is an error that names it.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
