"""The operators of the domain ai.graphcore, a file for each family. Importing this package registers all in the importer's registry."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
