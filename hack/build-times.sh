#!/usr/bin/env bash
# Measures `make build` with an empty build cache, without a change, and after a change of one file per command. The
# download of modules is not measured. On a busy machine, only the processor time is valid.
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
