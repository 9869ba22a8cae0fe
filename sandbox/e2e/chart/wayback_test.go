package chart

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/chart"
	"github.com/kamino-dev/kamino/sandbox/machine"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
	"github.com/kamino-dev/kamino/sandbox/unverified"
)

const (
	// previousVariable names a directory with the programs and the chart of the version before (`make previous`).
	previousVariable = "KAMINO_PREVIOUS"
	previousTag      = "previous"
)

// previousDir is empty without the version before.
func previousDir() string {
	dir := os.Getenv(previousVariable)
	if _, err := os.Stat(filepath.Join(dir, "kamino")); dir == "" || err != nil {
		return ""
	}
	return dir
}

// previousImages are the images whose containers run the programs of the version before.
func previousImages() map[string]string {
	dir := previousDir()
	if dir == "" {
		return nil
	}
	return map[string]string{
		sandboxdir.KaminoImage + ":" + previousTag: filepath.Join(dir, "kamino"),
		sandboxdir.NodeImage + ":" + previousTag:   filepath.Join(dir, "kamino-node"),
	}
}

// TestUpgradeAndBack upgrades from the version before and goes back, with the commands of docs/tasks/upgrade.md. Each version
// captures with its own program and definitions, and continues the capture that the other version has begun. The policy of the version
// before has a field that the new definitions lack.
func TestUpgradeAndBack(t *testing.T) {
	skipOtherClouds(t)
	previous := previousDir()
	if previous == "" {
		t.Skip("the version before is not built, or this clone lacks its commit: run `make previous`")
	}
	helm := newHelm(t, "back", "restricted")
	defer showLogs(t)
	machines := sandbox.Pool(t, "name=back,nodes=4")
	cloudSecret(t, helm.Namespace)
	values := readValues(t, filepath.Join(sandbox.Dir(), sandboxdir.ValuesFile))
	listenLocally(t, values)

	definitionsOf(t, filepath.Join(previous, "chart", "crds"))
	old := helm
	old.Chart = filepath.Join(previous, "chart")
	values["image"] = chart.Values{"repository": sandboxdir.KaminoImage, "tag": previousTag}
	values["generalize"] = chart.Values{"namespace": "back-pods", "image": chart.Values{"repository": sandboxdir.NodeImage, "tag": previousTag}}
	values["policies"] = chart.Values{"back": chart.Values{"suspend": true,
		"settings": chart.Values{"donor": chart.Values{"afterCapture": "Return"}, "trial": unverified.Policy()["trial"]}}}
	if err := old.install(t.Context(), "back", values, true); err != nil {
		t.Fatal(err)
	}
	captureOf(t, machines[0], 1)
	waitEnded(t, 1)

	captureOf(t, machines[1], 2)
	waitBegun(t, 2)
	shell(t, commandsOf(t, "## Definitions")[0])
	delete(values, "image")
	values["generalize"], values["policies"] = chart.Values{"namespace": "back-pods"}, chart.Values{"back": chart.Values{"suspend": true}}
	listenLocally(t, values)
	if err := helm.upgrade(t.Context(), "back", values, true); err != nil {
		t.Fatal(err)
	}
	waitEnded(t, 2)
	captureOf(t, machines[2], 3)
	waitEnded(t, 3)

	// Without the definitions, Helm refuses, and the commands of the page repair the release.
	captureOf(t, machines[3], 4)
	waitBegun(t, 4)
	if err := helm.rollback("back", 1); err == nil || !strings.Contains(err.Error(), "afterCapture") {
		t.Errorf("a rollback with the new definitions: %v", err)
	}
	shell(t, "PATH="+previous+":$PATH; "+commandsOf(t, "## Go back")[0])
	if err := helm.rollback("back", 1); err != nil {
		t.Fatal(err)
	}
	waitEnded(t, 4)
	captureOf(t, machines[0], 5)
	waitEnded(t, 5)
	if err := helm.uninstall("back"); err != nil {
		t.Fatal(err)
	}
	shell(t, commandsOf(t, "## Definitions")[0])
}

// commandsOf returns the commands of a section of docs/tasks/upgrade.md that replace the definitions.
func commandsOf(t *testing.T, section string) []string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/tasks/upgrade.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), section)
	commands := regexp.MustCompile(`(?m)^.*kubectl apply .*--field-manager=helm .*$`).FindAllString(text, -1)
	if !found || len(commands) == 0 {
		t.Fatalf("the page has no section %q with a command for definitions", section)
	}
	return commands
}

// definitionsOf applies the definitions of a directory as the page does.
func definitionsOf(t *testing.T, dir string) {
	t.Helper()
	sandbox.Must(t, "kubectl", "apply", "--server-side", "--force-conflicts", "--field-manager=helm", "-f", dir)
}

// captureOf asks for the capture of a machine's node.
func captureOf(t *testing.T, m machine.Status, n int) {
	t.Helper()
	node := sandbox.Must(t, "kubectl", "get", "node", m.Node, "-o", "jsonpath={.spec.providerID}")
	set := path.Base(m.Pool)
	shell(t, fmt.Sprintf(`kubectl create -f - <<'END'
apiVersion: kamino.dev/v1alpha1
kind: Prototype
metadata: {name: %[1]s}
spec:
  pool: %[2]s
  version: %[3]s
  donor: {nodeName: %[4]s, providerID: %[5]q}
  settings: {trial: {mode: "Off"}}
END`, nameOf(n), set, versionOf(n), m.Node, node))
}

func nameOf(n int) string { return "back-" + versionOf(n) }

// versionOf is the version of the n-th capture of the day on which the test began.
func versionOf(n int) string {
	version := began.Format("2006.01.02")
	if n > 1 {
		version += fmt.Sprintf("%02d", n)
	}
	return version
}

var began = time.Now().UTC()

// waitBegun waits until a capture has a record and holds its donor.
func waitBegun(t *testing.T, n int) {
	t.Helper()
	eventually(t, nameOf(n)+" has begun", func() bool {
		p := prototypeOf(t, n)
		return p.Status.Record != nil && p.Status.Donor != nil && !p.Status.Terminal()
	})
}

// waitEnded waits until a capture has succeeded, and the pool uses its version.
func waitEnded(t *testing.T, n int) {
	t.Helper()
	eventually(t, nameOf(n)+" has succeeded", func() bool {
		p := prototypeOf(t, n)
		if p.Status.Phase == v1alpha1.PhaseFailed {
			t.Fatalf("capture %d failed: %+v", n, p.Status.Failure)
		}
		return p.Status.Phase == v1alpha1.PhaseSucceeded
	})
	p := prototypeOf(t, n)
	if recipe := sandbox.Must(t, "kamino", "status", p.Spec.Pool); !strings.Contains(recipe, p.Spec.Version) {
		t.Errorf("the recipe doesn't point at %s:\n%s", p.Spec.Version, recipe)
	}
	t.Logf("capture %d succeeded", n)
}

func prototypeOf(t *testing.T, n int) (found v1alpha1.Prototype) {
	t.Helper()
	list, err := prototypes(t)
	if err != nil {
		return found
	}
	for _, p := range list.Items {
		if p.Name == nameOf(n) {
			found = p
		}
	}
	return found
}
