#!/usr/bin/env bash
# Runs a `go build -v` and shows its progress: how many packages are compiled, of how many, and the time so far.
# Usage: build-progress.sh OUTPUT -- go build -v … PACKAGE
#
# Where OUTPUT exists the build is expected to be short, and nothing is said unless it takes a while.
set -euo pipefail

output=$1
shift 2

total=""
if [[ ! -e $output ]]; then
	# Stale packages are those that the build cache does not have.
	total=$(go list -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' "${@: -1}" | awk NF | wc -l)
	echo "building $(basename "$output"), Kubernetes included: $total packages to compile (with an empty build cache, about five minutes on two cores)"
	total=" of $total"
fi

errors=$(mktemp)
trap 'rm -f "$errors"' EXIT

say() {
	local line
	line=$(printf '  %3d:%02d  %5d%s packages compiled  %s' $((SECONDS / 60)) $((SECONDS % 60)) "$compiled" "$total" "$package")
	if [[ -t 1 ]]; then
		printf '\r\033[K%.*s' "$((${COLUMNS:-80} - 1))" "$line"
	else
		echo "$line"
	fi
}

# go prints a package's import path when it has begun on it, and what goes wrong as other lines.
count() {
	local compiled=0 package="" line part="" status pause=15 next=5
	[[ -t 1 ]] && pause=1
	while true; do
		status=0
		IFS= read -r -t 1 line || status=$?
		line=$part$line part=""
		if ((status > 128)); then
			part=$line # the time was over in the middle of a line
		elif ((status != 0)); then
			break
		elif [[ $line =~ ^[A-Za-z0-9._~/@-]+$ ]]; then
			compiled=$((compiled + 1)) package=$line
		else
			echo "$line" >>"$errors"
		fi
		if ((SECONDS >= next)); then
			say
			next=$((SECONDS + pause))
		fi
	done
	if [[ -t 1 ]] && ((SECONDS >= 5)); then
		printf '\r\033[K'
	fi
	if ((SECONDS >= 5)); then
		printf '  %3d:%02d  %5d packages compiled\n' $((SECONDS / 60)) $((SECONDS % 60)) "$compiled"
	fi
}

status=0
"$@" 2>&1 | count || status=$?
cat "$errors" >&2
exit "$status"
