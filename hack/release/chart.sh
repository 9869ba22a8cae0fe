#!/usr/bin/env bash
# Packages the chart of a version into bin/release. Usage: chart.sh VERSION
set -euo pipefail

cd "$(dirname "$0")/../.."
rm -rf bin/release
helm package charts/kamino --version "$1" --app-version "$1" --destination bin/release >/dev/null
