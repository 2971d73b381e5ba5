#!/usr/bin/env bash
# Runs what needs timm, and the reported cases, under the torch that torchvision 0.29.1 was built for.
# Makes .venv-timm for that, and removes it at the end: the pair is a CUDA build of 6 GB. It runs on the CPU.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf .venv-timm
trap 'rm -rf .venv-timm' EXIT

"${PYTHON:-python3}" -m venv .venv-timm
PATH="$PWD/.venv-timm/bin:$PATH"
pip install --quiet --disable-pip-version-check torch==2.14.1 torchvision==0.29.1
pip install --quiet --disable-pip-version-check --editable ".[cpu,build,hf,timm,test]"
python -c "import timm"  # else its tests would be skipped
mapfile -t uses < <(grep -l tiny_timm -r tests/unit tests/build tests/cli)
pytest -n 2 --dist loadfile -m "not full" "${uses[@]}" tests/cases
pytest -n 2 -m full tests/full/test_zoo.py -k timm
