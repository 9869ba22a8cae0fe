#!/usr/bin/env bash
# Measures `make build` with an empty build cache, with nothing changed, and after a change of one file. The modules are
# downloaded before. Processor time holds on a busy machine, too; the wall time needs an idle machine.
set -euo pipefail

cd "$(dirname "$0")/.."
cache=$(mktemp -d)
bin=bin/build-times
changed=(cmd/kamino/build_times.go sandbox/cmd/kamino-sandbox/build_times.go)
trap 'rm -rf "$cache" "$bin" "${changed[@]}"' EXIT
export GOCACHE=$cache
rm -rf "$bin"
make BIN=$bin "$bin/.modules"

measure() {
	local TIMEFORMAT="| $1 | %0R s | %0U s | %0S s |"
	time make BIN=$bin build
}

echo "$(nproc) cores, $(go env GOVERSION)"
echo
printf '| make build | wall time | processor: user | system |\n|---|---|---|---|\n'
measure 'empty cache'
measure 'nothing changed'
echo "package main // $RANDOM" | tee "${changed[@]}" >/dev/null
measure 'a file of each command changed'
