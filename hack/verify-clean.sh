#!/usr/bin/env bash
# Fails if the working tree differs from the commit, and prints the difference.
set -euo pipefail

cd "$(dirname "$0")/.."
changes=$(git status --porcelain)
if [[ -n $changes ]]; then
	git --no-pager diff
	echo "the tree is not what is committed:"
	echo "$changes"
	echo "commit what \`make generate\` wrote (and everything else that belongs to the change), then try again"
	exit 1
fi
echo "generated code is up to date and the tree is clean"
