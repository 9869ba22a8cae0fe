#!/usr/bin/env bash
# Builds Cluster API's own controllers from the module proxy, and copies their definitions and webhooks from the module:
# build.sh DIRECTORY. This repository keeps no copy.
set -euo pipefail

out=$(realpath -m "$1")
cd "$(dirname "$0")"
go=${GO:-go} module=sigs.k8s.io/cluster-api
../../hack/retry.sh "$go" mod download
echo "building Cluster API $("$go" list -m -f '{{.Version}}' "$module") (about four minutes, once)"
# The final rename shows that the directory is complete.
rm -rf "$out" "$out.new"
mkdir -p "$out.new/definitions" "$out.new/webhooks"
"$go" build -ldflags '-s -w' -o "$out.new/" "$module/core" "$module/bootstrap/kubeadm" "$module/cmd/clusterctl"
from=$("$go" list -m -f '{{.Dir}}' "$module")
install -m 644 "$from"/core/config/crd/bases/*.yaml "$from"/bootstrap/kubeadm/config/crd/bases/*.yaml \
	"$from"/cmd/clusterctl/config/crd/bases/*_providers.yaml "$out.new/definitions/"
install -m 644 "$from/core/config/webhook/manifests.yaml" "$out.new/webhooks/core.yaml"
install -m 644 "$from/bootstrap/kubeadm/config/webhook/manifests.yaml" "$out.new/webhooks/kubeadm.yaml"
mv "$out.new" "$out"
