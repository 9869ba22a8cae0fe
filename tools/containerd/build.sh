#!/usr/bin/env bash
# Builds containerd, containerd-shim-runc-v2 and ctr from the module proxy: build.sh DIRECTORY. The tags leave out plugins
# that need a C library or a separate daemon.
set -euo pipefail

out=$(realpath -m "$1")
cd "$(dirname "$0")"
go=${GO:-go} package=github.com/containerd/containerd/v2
../../hack/retry.sh "$go" mod download
version=$("$go" list -m -f '{{.Version}}' "$package")
echo "building containerd $version (about three minutes, once)"
# The final rename shows that the directory is complete.
rm -rf "$out" "$out.new"
"$go" build -tags 'no_btrfs no_devmapper no_zfs no_erofs no_nri no_tracing osusergo netgo static_build urfave_cli_no_docs' \
	-ldflags "-s -w -X $package/version.Version=$version -X $package/version.Revision=module" -o "$out.new/" \
	"$package/cmd/containerd" "$package/cmd/containerd-shim-runc-v2" "$package/cmd/ctr"
mv "$out.new" "$out"
