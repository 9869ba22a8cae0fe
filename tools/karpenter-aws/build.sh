#!/usr/bin/env bash
# Builds Karpenter with its provider for AWS from the module proxy, the whole program of its authors, with its definitions: build.sh
# DIRECTORY. go.mod requires the release of sigs.k8s.io/karpenter, because the provider names a version of it that no proxy serves.
set -euo pipefail

out=$(realpath -m "$1")
cd "$(dirname "$0")"
go=${GO:-go} module=github.com/aws/karpenter-provider-aws
../../hack/retry.sh "$go" mod download
echo "building Karpenter's provider for AWS $("$go" list -m -f '{{.Version}}' "$module") (about six minutes, once)"
# The final rename shows that the directory is complete.
rm -rf "$out" "$out.new"
mkdir -p "$out.new/definitions"
"$go" build -ldflags '-s -w' -o "$out.new/karpenter" "$module/cmd/controller"
from=$("$go" list -m -f '{{.Dir}}' "$module")
install -m 644 "$from"/pkg/apis/crds/*.yaml "$out.new/definitions/"
mv "$out.new" "$out"
