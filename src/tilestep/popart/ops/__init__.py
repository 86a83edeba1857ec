"""The operators of the domain ai.graphcore, in families. Importing this package registers all in the importer's registry."""

import importlib
import pkgutil

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
