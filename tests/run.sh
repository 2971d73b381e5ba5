#!/usr/bin/env bash
# Runs the tests from a fresh clone: makes .venv, installs everything, passes its arguments on to pytest.
set -euo pipefail
source "$(dirname "$0")/../samples/environment.sh" cpu,build,hf,test
pytest -n 2 --dist loadfile "${@:--m not full}"
