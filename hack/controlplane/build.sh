#!/usr/bin/env bash
# Builds kube-apiserver, etcd and kubectl from the Go modules pinned in this directory and prints,
# as its only line on stdout, the directory that holds them. Progress goes to stderr.
# An existing KUBEBUILDER_ASSETS is used as it is. The first build takes 5 to 8 minutes on two cores;
# after that the binaries are found under bin/ and nothing is built.
set -euo pipefail

module=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$module/../.." && pwd)
say() { printf '%s\n' "$*" >&2; }

if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
  for binary in kube-apiserver etcd kubectl; do
    [ -x "$KUBEBUILDER_ASSETS/$binary" ] || {
      say "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS has no executable $binary: unset it to build the control plane, or point it at a directory that holds all three"
      exit 1
    }
  done
  printf '%s\n' "$KUBEBUILDER_ASSETS"
  exit 0
fi

cd "$module"
export GOFLAGS=-mod=readonly CGO_ENABLED=0
kubernetes=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
etcd=$(go list -m -f '{{.Version}}' go.etcd.io/etcd/server/v3)
out="$root/bin/controlplane/$kubernetes-etcd-$etcd-$(go env GOOS)-$(go env GOARCH)"
mkdir -p "$out"

# Without a version kubectl cannot parse the server's.
version_flags="-s -w
  -X k8s.io/component-base/version.gitVersion=$kubernetes
  -X k8s.io/component-base/version.gitMajor=$(cut -d. -f1 <<<"${kubernetes#v}")
  -X k8s.io/component-base/version.gitMinor=$(cut -d. -f2 <<<"$kubernetes")"

# build NAME PACKAGE: compiles into a temporary name, so that a stopped build never looks finished.
build() {
  local name=$1 package=$2
  [ -x "$out/$name" ] && return
  say "building $name ($package)"
  local started=$SECONDS
  go build -v -trimpath -ldflags "$version_flags" -o "$out/.$name" "$package" 2> >(
    # go build -v prints a package path a line, among which whatever else it says must not drown.
    awk -v name="$name" '/^go: |^#|[ :]/ { print; fflush(); next }
      { n++; if (n % 100 == 0) { printf "  %s: %d packages compiled\n", name, n; fflush() } }' >&2)
  mv "$out/.$name" "$out/$name"
  say "  $name is ready after $((SECONDS - started)) s"
}

if [ ! -x "$out/kube-apiserver" ] || [ ! -x "$out/etcd" ] || [ ! -x "$out/kubectl" ]; then
  say "building the local control plane (kubernetes $kubernetes, etcd $etcd): 5 to 8 minutes on two cores the first time"
  go mod download
fi
build etcd go.etcd.io/etcd/server/v3
build kubectl k8s.io/kubernetes/cmd/kubectl
build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
printf '%s\n' "$out"
