#!/usr/bin/env bash
# Does the training runtime work on a GPU, and what do queues and state in the host's memory bring there?
#
#   benchmarks/on_gpu.sh             all tests marked `device`, then benchmarks/on_gpu.py, whose record is results/on_gpu.json
#   benchmarks/on_gpu.sh --rehearse  the same tests and measurements on the CPU; no record
#
# It takes ten minutes at most with the environment. PYTHON names a Python that has JAX for the GPU; without it an environment is made in
# .venv-gpu. Exit status: 0 all is well, 1 a test failed or time was up, 3 there is no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."

rehearse=
case ${1:-} in
  --rehearse) rehearse=1 ;;
  '') ;;
  *) echo "on_gpu.sh: $1 is no option: it takes --rehearse or nothing" >&2; exit 2 ;;
esac
if [[ -n $rehearse ]]; then
  python=${PYTHON:-.venv/bin/python}
  export JAX_PLATFORMS=cpu TILESTEP_DEVICE_TESTS_ON_CPU=1
else
  if ! command -v nvidia-smi >/dev/null || ! nvidia-smi --list-gpus 2>/dev/null | grep -q GPU; then
    echo "on_gpu.sh: there is no GPU here, so nothing was tried; --rehearse runs the same on the CPU" >&2
    exit 3
  fi
  python=${PYTHON:-.venv-gpu/bin/python}
  if [[ ! -x $python && -z ${PYTHON:-} ]]; then
    python3 -m venv .venv-gpu
    .venv-gpu/bin/python -m pip install --quiet '.[checkpoints]' 'jax[cuda12]' pytest pytest-timeout hypothesis
  fi
  export JAX_PLATFORMS=cuda,cpu XLA_PYTHON_CLIENT_PREALLOCATE=false
fi
unset XLA_FLAGS
record=()
[[ -n $rehearse ]] || record=(--json benchmarks/results/on_gpu.json)
if timeout 300 "$python" -m pytest -q -p no:cacheprovider -m device tests/device && timeout 180 "$python" benchmarks/on_gpu.py "${record[@]}"; then
  echo "on_gpu.sh: ${rehearse:+rehearsed on the CPU: }all tests passed${rehearse:+; it is still not tried on a GPU}"
else
  echo "on_gpu.sh: ${rehearse:+rehearsed on the CPU: }a test or a measurement failed, or time was up" >&2
  exit 1
fi
