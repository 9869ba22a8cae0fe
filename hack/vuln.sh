#!/usr/bin/env bash
# Checks the product's code for reachable known vulnerabilities. Usage: vuln.sh GOVULNCHECK
#
# Exit code 3: a vulnerability was found. Exit code 75: the database was not readable. Without a network, the
# caller then knows that nothing was checked.
set -euo pipefail

cd "$(dirname "$0")/.."
report=$(mktemp)
trap 'rm -f "$report"' EXIT

status=0
"$1" ./... >"$report" 2>&1 || status=$?
cat "$report"
if ((status != 0)) && grep -qE 'vuln\.go\.dev|fetching vulnerabilities|GOVULNDB' "$report"; then
	echo "NOT CHECKED: the vulnerability database (${GOVULNDB:-https://vuln.go.dev}) cannot be reached from here; set GOVULNDB to a mirror"
	exit 75
fi
exit "$status"
