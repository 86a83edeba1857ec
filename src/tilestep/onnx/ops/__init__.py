"""The operators, in ONNX's own families. Importing this package registers all. It imports `interpreter/` and no other room."""

import importlib
import pkgutil

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
