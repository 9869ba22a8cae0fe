#!/usr/bin/env bash
# Looks for known vulnerabilities that the product's code reaches. Usage: vuln.sh GOVULNCHECK
#
# Exit code 3 means that a vulnerability was found, 75 that the database could not be read, so that a
# caller without a network can tell "nothing known" from "not checked".
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
