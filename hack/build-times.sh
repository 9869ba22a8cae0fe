#!/usr/bin/env bash
# Measures how long the two binaries take to build: with an empty build cache, again with nothing changed, and
# after a change of one file. The modules are downloaded before. Run it on a machine that does nothing else.
set -euo pipefail

cd "$(dirname "$0")/.."
cache=$(mktemp -d)
trap 'rm -rf "$cache" sandbox/cmd/kamino-sandbox/build_times.go' EXIT
export GOCACHE=$cache CGO_ENABLED=0
go mod download
(cd sandbox && go mod download)

measure() {
	local what=$1 began=$SECONDS
	shift
	"$@"
	printf '| %s | %d s |\n' "$what" $((SECONDS - began))
}

kamino() { go build -trimpath -ldflags '-s -w' -o "$cache/kamino" ./cmd/kamino; }
sandbox() { (cd sandbox && go build -ldflags '-s -w' -o "$cache/kamino-sandbox" ./cmd/kamino-sandbox); }
change() { echo "package main // $RANDOM" >sandbox/cmd/kamino-sandbox/build_times.go; }

echo "$(nproc) cores, $(go env GOVERSION)"
echo
printf '| build | time |\n|---|---|\n'
measure 'kamino-sandbox, empty cache' sandbox
measure 'kamino-sandbox, nothing changed' sandbox
change
measure 'kamino-sandbox, one file changed' sandbox
measure 'kamino, after that' kamino
measure 'kamino, nothing changed' kamino
