#!/usr/bin/env bash
# Runs `go build -v` and shows the progress: compiled packages, total packages, and the elapsed time.
# Usage: build-progress.sh OUTPUT -- go build -v … PACKAGE
#
# If OUTPUT exists, a short build is likely. Then the script prints progress only for builds of five seconds or more.
set -euo pipefail

output=$1
shift 2

total=""
if [[ ! -e $output ]]; then
	# Stale packages are missing in the build cache.
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

# go prints the import path of a package at the start of the compilation. Other lines are errors.
count() {
	local compiled=0 package="" line part="" status pause=15 next=5
	[[ -t 1 ]] && pause=1
	while true; do
		status=0
		IFS= read -r -t 1 line || status=$?
		line=$part$line part=""
		if ((status > 128)); then
			part=$line # read timed out in the middle of a line
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
