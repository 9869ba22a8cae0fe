#!/bin/sh
# Captures a node in a sandbox, and writes the terminal's last screen to docs/images/progress.svg.
# usage: hack/picture/progress.sh BIN
set -eu
bin=$1
dir=$(mktemp -d)
end() { "$bin/kamino-sandbox" down --dir "$dir/sandbox" >/dev/null || true; rm -rf "$dir"; }
trap end EXIT
"$bin/kamino-sandbox" up --dir "$dir/sandbox" --kamino "$bin/kamino" --cloud aws --pool name=pool1,profile=eks --time-scale 100 >"$dir/log" 2>&1 &
until grep -q ^ready "$dir/log"; do sleep 1; done
# shellcheck source=/dev/null
. "$dir/sandbox/env"
"$bin/kamino" manifests | kubectl apply --server-side -f - >/dev/null
"$bin/kamino-sandbox" workload
node=$(kubectl get nodes -o name | head -n 1 | cut -d / -f 2)
"$bin/kamino-sandbox" patch "$node"
echo 'settings: {trial: {soak: 10s}}' >"$dir/settings.yaml"
go run ./hack/picture -o docs/images/progress.svg -title "kamino capture $node" -from "Capturing version" "$bin/kamino" capture "$node" -f "$dir/settings.yaml"
