"""What to do where JAX does not find out its place in a cluster."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping


def not_found(missing: list[str], environ: Mapping[str, str]) -> str:
    """What is said of arguments that are not given, and that JAX has not found. Args: missing: their names. environ: of the process."""
    if "SLURM_JOB_ID" in environ:
        lacks = [name for name in ("SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID") if name not in environ]
        found = f"this is a job of Slurm without {', '.join(lacks)}: start the program in it by srun, with --ntasks"
    elif "OMPI_COMM_WORLD_SIZE" in environ:
        found = (
            "mpirun of Open MPI 5 does not tell JAX where process 0 is: give coordinator_address, "
            'num_processes=int(os.environ["OMPI_COMM_WORLD_SIZE"]) and process_id=int(os.environ["OMPI_COMM_WORLD_RANK"])'
        )
    elif "KUBERNETES_SERVICE_HOST" in environ and importlib.util.find_spec("kubernetes") is None:
        found = (
            "in a pod of Kubernetes JAX asks for them by the package kubernetes, which is not installed: pip install kubernetes, or give "
            'coordinator_address, num_processes and process_id=int(os.environ["JOB_COMPLETION_INDEX"])'
        )
    else:
        found = "no cluster says so: start the program by srun of Slurm or mpirun of Open MPI 4, in a pod of Kubernetes, or give them"
    return f"{', '.join(missing)} not given, and JAX does not find out: {found}"
