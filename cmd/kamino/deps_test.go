package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kamino-dev/kamino/"

// deps lists what the packages are built from.
func deps(t *testing.T, packages ...string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, packages...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.Fields(string(out))
}

// under reports whether a package is the prefix or below it.
func under(name, prefix string) bool {
	return name == prefix || strings.HasPrefix(name, strings.TrimSuffix(prefix, "/")+"/")
}

// The binary on every donor holds no server of Kubernetes, no test code, and no sandbox. bbolt, etcd's file format, is also
// containerd's format, so the binary holds bbolt.
func TestBinaryDependencies(t *testing.T) {
	for program, never := range map[string][]string{
		"kamino": {module + "internal/agent"},
		"kamino-node": {module + "internal/cloud/aws", module + "internal/cloud/azure", module + "internal/cloud/capi", module + "internal/cluster",
			module + "internal/capture", "github.com/aws", "github.com/Azure", "sigs.k8s.io/controller-runtime", "k8s.io/client-go/kubernetes"},
	} {
		holds(t, program, append(never,
			"k8s.io/kubernetes", "k8s.io/apiserver", "k8s.io/kube-aggregator", "k8s.io/kubelet", "go.etcd.io/etcd", "go.etcd.io/raft",
			module+"sandbox", module+"internal/testing/apitest", module+"internal/testing/memory", module+"internal/testing/cloudtest",
			module+"internal/testing/example", module+"internal/tmpdeps",
			"testing", "net/http/httptest", "github.com/rogpeppe/go-internal", "pgregory.net/rapid",
			"sigs.k8s.io/kwok", "k8s.io/client-go/kubernetes/fake", "sigs.k8s.io/controller-runtime/pkg/client/fake",
			"sigs.k8s.io/controller-runtime/pkg/envtest", "github.com/stretchr/testify", "github.com/onsi"))
	}
}

// holds reports packages that a program must not have.
func holds(t *testing.T, program string, never []string) {
	t.Helper()
	all := deps(t, module+"cmd/"+program)
	if len(all) < 100 {
		t.Fatalf("only %d packages: the list is incomplete", len(all))
	}
	for _, name := range all {
		if slices.ContainsFunc(never, func(forbidden string) bool { return under(name, forbidden) }) {
			t.Errorf("%s holds %s", program, name)
		}
	}
}

// Package text/template calls methods by name, so the linker keeps every method of every package: the binary was half as
// big again, also in memory.
func TestNoPackageOfOursUsesTemplates(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"cmd/kamino").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if strings.HasPrefix(fields[0], module) && (slices.Contains(fields[1:], "text/template") || slices.Contains(fields[1:], "html/template")) {
			t.Errorf("%s uses templates", fields[0])
		}
	}
}
