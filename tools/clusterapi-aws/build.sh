#!/usr/bin/env bash
# Builds Cluster API's infrastructure provider for AWS from the module proxy, the whole program of its authors, with its
# definitions and webhooks: build.sh DIRECTORY. The definitions of other products in the module are left out.
set -euo pipefail

out=$(realpath -m "$1")
cd "$(dirname "$0")"
go=${GO:-go} module=sigs.k8s.io/cluster-api-provider-aws/v2
../../hack/retry.sh "$go" mod download
echo "building Cluster API's provider for AWS $("$go" list -m -f '{{.Version}}' "$module") (about seven minutes, once)"
# The final rename shows that the directory is complete.
rm -rf "$out" "$out.new"
mkdir -p "$out.new/definitions" "$out.new/webhooks"
"$go" build -ldflags '-s -w' -o "$out.new/provider" "$module"
from=$("$go" list -m -f '{{.Dir}}' "$module")
install -m 644 "$from"/config/crd/bases/infrastructure.cluster.x-k8s.io_aws*.yaml "$out.new/definitions/"
install -m 644 "$from/config/webhook/manifests.yaml" "$out.new/webhooks/aws.yaml"
mv "$out.new" "$out"
