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

// under tells whether a package is the prefix or below it.
func under(name, prefix string) bool {
	return name == prefix || strings.HasPrefix(name, strings.TrimSuffix(prefix, "/")+"/")
}

// The binary that runs on every donor holds no server of Kubernetes, nothing that only tests need, and
// knows of no sandbox. etcd's file format (bbolt) is containerd's too, which is why it is there.
func TestTheBinaryHoldsNothingForeign(t *testing.T) {
	all := deps(t, module+"cmd/kamino")
	if len(all) < 100 {
		t.Fatalf("only %d packages: the list can't be right", len(all))
	}
	for _, forbidden := range []string{
		"k8s.io/kubernetes", "k8s.io/apiserver", "k8s.io/kube-aggregator", "k8s.io/kubelet", "go.etcd.io/etcd", "go.etcd.io/raft",
		module + "sandbox", module + "internal/cloud/memory", module + "internal/cloud/cloudtest", module + "internal/tmpdeps",
		"testing", "net/http/httptest", "github.com/rogpeppe/go-internal", "pgregory.net/rapid",
		"k8s.io/client-go/kubernetes/fake", "sigs.k8s.io/controller-runtime/pkg/client/fake", "sigs.k8s.io/controller-runtime/pkg/envtest",
		"github.com/stretchr/testify", "github.com/onsi",
	} {
		for _, name := range all {
			if under(name, forbidden) {
				t.Errorf("the binary holds %s", name)
			}
		}
	}
}

// Who may build on whom, of the project's own packages; see docs/architecture.md. What is not named here
// may build on everything.
var walls = map[string][]string{
	"api/v1alpha1":          {},
	"internal/imageversion": {},
	"internal/cloud":        {},
	"internal/selection":    {"api", "internal/cloud", "internal/imageversion"},
	"internal/retention":    {"api", "internal/cloud", "internal/imageversion"},
	"internal/capture/plan": {"api", "internal/cloud", "internal/imageversion"},
	"internal/node":         {"api"},
	"internal/cloud/azure":  {"internal/cloud", "internal/imageversion"},
	"internal/capture":      {"api", "internal/capture/plan", "internal/cloud", "internal/held", "internal/history", "internal/imageversion", "internal/node", "internal/retention", "internal/selection"},
	"internal/manifest":     {"api"},
	"internal/replace":      {"api", "internal/cloud", "internal/node"},
	"internal/doctor":       {"api", "internal/cloud", "internal/history", "internal/imageversion", "internal/retention"},
	"internal/history":      {"api", "internal/cloud", "internal/imageversion", "internal/retention"},
	"internal/estimate":     {"api"},
	"internal/held":         {"api"},
	"internal/cli/print": {"api", "internal/cloud", "internal/doctor", "internal/estimate", "internal/held", "internal/history", "internal/imageversion", "internal/retention",
		"internal/selection"},
	"internal/controller/prototype": {"api", "internal/capture", "internal/capture/plan", "internal/cloud", "internal/held", "internal/history", "internal/imageversion",
		"internal/node", "internal/retention", "internal/selection"},
}

// Packages that touch nothing: they get values and give values.
var pure = []string{"internal/selection", "internal/retention", "internal/imageversion", "internal/history", "internal/estimate", "internal/held", "internal/capture/plan"}

func TestWalls(t *testing.T) {
	for name, allowed := range walls {
		t.Run(name, func(t *testing.T) {
			for _, dep := range deps(t, module+name) {
				own, isOwn := strings.CutPrefix(dep, module)
				if !isOwn || own == name {
					continue
				}
				// A provider is not the contract: internal/cloud does not stand for what is below it.
				if !slices.ContainsFunc(allowed, func(a string) bool { return own == a || a == "api" && under(own, a) }) {
					t.Errorf("%s builds on %s", name, own)
				}
			}
		})
	}
}

func TestPurePackagesTouchNothing(t *testing.T) {
	for _, name := range pure {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{join .Imports "\n"}}`, module+name).Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		for _, dep := range strings.Fields(string(out)) {
			for _, forbidden := range []string{"context", "log", "os", "net", "k8s.io/client-go", "sigs.k8s.io/controller-runtime", "github.com/go-logr", "github.com/Azure"} {
				if under(dep, forbidden) {
					t.Errorf("%s imports %s", name, dep)
				}
			}
		}
	}
}

// Only the provider speaks its cloud's SDK.
func TestTheSDKStaysWithItsProvider(t *testing.T) {
	for _, name := range []string{"internal/capture", "internal/controller/prototype", "internal/node", "internal/manifest"} {
		for _, dep := range deps(t, module+name) {
			if under(dep, "github.com/Azure") {
				t.Errorf("%s builds on %s", name, dep)
			}
		}
	}
}

// Package text/template calls methods by name. A linker that sees that keeps every method of every package:
// the binary was half as big again, and so was what of it stood in memory.
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
