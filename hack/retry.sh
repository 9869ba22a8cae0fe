#!/usr/bin/env bash
# Runs a command up to five times, with growing pauses, for transfers that can fail.
set -euo pipefail

for pause in 2 5 10 20; do
	if "$@"; then
		exit 0
	fi
	echo "failed: $* (trying again in ${pause} s)" >&2
	sleep "$pause"
done
exec "$@"
