#!/usr/bin/env bash
# Runs the linter on one module. Usage: lint.sh GOLANGCI_LINT MODULE_DIRECTORY
set -euo pipefail

cd "$(dirname "$0")/../$2"
echo "== lint: $(go list -m)"
exec "$1" run --allow-parallel-runners ./...
