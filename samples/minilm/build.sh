#!/usr/bin/env bash
# From a fresh clone to a verified bundle: makes .venv, builds samples/minilm, shows what was verified.
set -euo pipefail
source "$(dirname "$0")/../environment.sh" cpu,build,hf
aotc build samples/minilm/model.py --target ort-cpu -o dist/minilm
aotc inspect dist/minilm
