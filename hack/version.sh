#!/usr/bin/env bash
# Prints the version of this tree: the tag of a clean tree, else devel-COMMIT, with -dirty if files differ.
set -euo pipefail

cd "$(dirname "$0")/.."
dirty=""
[[ -z $(git status --porcelain 2>/dev/null) ]] || dirty=-dirty
if [[ -z $dirty ]] && tag=$(git describe --tags --exact-match 2>/dev/null); then
	echo "$tag"
elif commit=$(git rev-parse --short=12 HEAD 2>/dev/null); then
	echo "devel-$commit$dirty"
else
	echo devel
fi
