// Package quickstart runs the commands of the pages for new users, in their order, on the clouds of the pages.
package quickstart

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/sandbox/azure"
	"github.com/kamino-dev/kamino/sandbox/pool"
	"github.com/kamino-dev/kamino/sandbox/region"
	"github.com/kamino-dev/kamino/sandbox/sandboxdir"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
	"github.com/kamino-dev/kamino/sandbox/world"
)

const pages = "../../../docs/"

var sandbox *sandboxtest.Sandbox

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "1") // the pages use the same namespaces
	os.Exit(sandboxtest.EachCloud(m, world.Options{
		TimeScale: 200, Azure: region.AzureOptions{Latencies: azure.Latencies{Version: 10 * time.Minute}},
	}, &sandbox))
}

// onlyOn skips a test on the other cloud.
func onlyOn(t *testing.T, cloud pool.Cloud) {
	t.Helper()
	if sandboxtest.CurrentCloud() != cloud {
		t.Skipf("this page is for %s", cloud)
	}
}

// programs is a directory with stand-ins for commands of the clouds. They know the calls of the pages only, and refuse a
// policy with a word to replace.
func programs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, script := range map[string]string{
		"aws": `#!/bin/sh
set -eu
case "$1 $2" in
"sts get-caller-identity") echo 123456789012 ;;
"iam create-policy")
	file=${6#file://}
	grep -q '"ec2:CreateSnapshot"' "$file"
	! grep -E 'ACCOUNT|ROLE-OF' "$file" ;;
"iam attach-role-policy") ;;
"autoscaling set-desired-capacity") kamino-sandbox scale "$SANDBOX_POOL" "$6" --wait ;;
*) echo "unknown call: aws $*" >&2; exit 1 ;;
esac
`,
		"az": `#!/bin/sh
set -eu
case "$1 $2" in
"role definition")
	grep -q 'Microsoft.Compute/snapshots/write' "$5"
	! grep -E 'SUBSCRIPTION|RESOURCE-GROUP' "$5" ;;
"role assignment") ;;
"vmss scale") kamino-sandbox scale "$SANDBOX_POOL" "$8" --wait ;;
*) echo "unknown call: az $*" >&2; exit 1 ;;
esac
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// run runs a page on a new pool, and then the commands that remove all of Kamino. The soak of ten minutes is shorter.
func run(t *testing.T, page, description string, replacements ...string) {
	t.Helper()
	machines := sandbox.Pool(t, description)
	spec, err := pool.Parse(description)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	custom := customDataOf(t, machines[0].ID)
	if err := os.WriteFile(filepath.Join(dir, "cloud-init.yaml"), custom, 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{
		"SANDBOX_POOL=" + spec.Name,
		"PATH=" + strings.Join([]string{programs(t), sandbox.Programs, os.Getenv("PATH")}, string(os.PathListSeparator)),
	}
	group := groupOf(t, spec.Name)
	sandbox.RunPage(t, pages+page, dir, env, append([]string{
		"registry.example.com/kamino-node:mine", sandboxdir.NodeImage + ":sandbox",
		"kamino doctor", "kamino doctor " + group, // other pages leave pools
		`kamino capture "$NODE"`, `kamino capture "$NODE" -f ` + sandboxtest.SettingsFile(t, "trial: {soak: 1s}"),
		"my-node-role", "node-role", "my-node", machines[0].Node, "my-group", group, "my-pool", group,
	}, replacements...)...)
	uninstall(t, spec, group)
}

// uninstall runs the page that removes Kamino, with its last image. Nothing of Kamino is left in the cloud and the cluster.
func uninstall(t *testing.T, spec pool.Spec, group string) {
	t.Helper()
	versions, err := sandbox.Cloud().Versions(t.Context(), spec)
	if err != nil || len(versions) != 1 {
		t.Fatalf("the pool has the versions %+v (%v), want one", versions, err)
	}
	for _, m := range sandbox.MachinesOf(t, spec.Name) {
		if strings.EqualFold(m.Image, versions[0].ID) {
			if err := sandbox.Remove(t.Context(), m.Node); err != nil {
				t.Fatal(err)
			}
		}
	}
	sandbox.RunPage(t, pages+"tasks/uninstall.md", t.TempDir(), nil, "my-pool", group, "2026.11.27", versions[0].Name)
	sandboxtest.Eventually(t, "no image, snapshot, right or object of Kamino is left", func() (bool, string) {
		versions, err := sandbox.Cloud().Versions(t.Context(), spec)
		snapshots, errSnapshots := sandbox.Cloud().Snapshots(t.Context())
		left := sandbox.Must(t, "kubectl", "get", "-o", "name",
			"clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,crds,namespaces") +
			sandbox.Must(t, "kubectl", "get", "-A", "-o", "name", "roles,rolebindings,serviceaccounts,leases,secrets")
		objects := slices.DeleteFunc(strings.Fields(left), func(name string) bool { return !strings.Contains(name, "kamino") })
		return err == nil && errSnapshots == nil && len(versions)+len(snapshots)+len(objects) == 0,
			fmt.Sprintf("versions %+v (%v), snapshots %v (%v), objects %v", versions, err, snapshots, errSnapshots, objects)
	})
}

// groupOf is the name of a pool in the cloud.
func groupOf(t *testing.T, name string) string {
	t.Helper()
	pools, err := sandbox.Pools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pools {
		if p.Name == name {
			return p.Group
		}
	}
	t.Fatalf("there is no pool %s", name)
	return ""
}

// customDataOf is the customData or user data of an instance.
func customDataOf(t *testing.T, id string) []byte {
	t.Helper()
	for _, spec := range sandbox.Cloud().Specs() {
		if strings.EqualFold(spec.ID, id) {
			return spec.CustomData
		}
	}
	t.Fatalf("the cloud has no instance %s", id)
	return nil
}

func TestEKS(t *testing.T) {
	onlyOn(t, pool.AWS)
	run(t, "get-started/eks.md", "name=eks,nodes=2,profile=eks")
}

func TestKubeadmOnAWS(t *testing.T) {
	onlyOn(t, pool.AWS)
	run(t, "get-started/kubeadm-aws.md", "name=kubeadm,nodes=2,profile=bootstrap")
}

func TestAzure(t *testing.T) {
	onlyOn(t, pool.Azure)
	run(t, "get-started/azure.md", "name=azure,nodes=2,profile=bootstrap")
}

// TestSandbox runs the page about a sandbox of its own, next to the sandbox of this package.
func TestSandbox(t *testing.T) {
	onlyOn(t, pool.Azure)
	dir := t.TempDir()
	if err := os.Symlink(sandbox.Programs, filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	sandbox.RunPage(t, pages+"get-started/sandbox.md", dir, nil, "make build\n", "", "/tmp/kamino", filepath.Join(dir, "s"), "short.yaml",
		filepath.Join(dir, "short.yaml"))
}

// TestReadme runs the demo of README, and compares the table.
func TestReadme(t *testing.T) {
	onlyOn(t, pool.Azure)
	root, err := filepath.Abs(pages + "..")
	if err != nil {
		t.Fatal(err)
	}
	clone := regexp.MustCompile(`^git clone \S+ && cd kamino && `)
	blocks := sandboxtest.Blocks(t, pages+"../README.md")
	if !clone.MatchString(blocks[0].Text) {
		t.Fatalf("README begins with %q, not with a clone", blocks[0].Text)
	}
	// The programs of this test take the place of the build.
	sandbox.RunPage(t, pages+"../README.md", root, nil, clone.FindString(blocks[0].Text)+"make demo", "make -o build demo BIN="+sandbox.Programs)
}
