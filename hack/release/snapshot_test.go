//go:build release

package release

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const dist, charts = "../../dist", "../../bin/release"

// platforms of the programs. Nodes run Linux.
var platforms = map[string][]string{
	"kamino":      {"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"},
	"kamino-node": {"linux_amd64", "linux_arm64"},
	// verify-cloud runs on the machine of someone with an account.
	"verify-cloud": {"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64"},
}

// version is the version of the snapshot, from the name of the chart.
func version(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(charts + "/kamino-*.tgz")
	if err != nil || len(found) != 1 {
		t.Fatalf("%d charts in %s (%v): run `make release-snapshot`", len(found), charts, err)
	}
	return "v" + strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), "kamino-"), ".tgz")
}

// unpacked is the content of the regular files of an archive, by path. Unpacked files keep their modes in dir, if dir is set.
func unpacked(t *testing.T, archive, dir string) map[string]string {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	zip, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(zip); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
		if dir != "" {
			if err := os.WriteFile(filepath.Join(dir, path.Base(header.Name)), text, header.FileInfo().Mode()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func digest(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// TestChecksums: checksums.txt has each file of the release, with the digest of the file.
func TestChecksums(t *testing.T) {
	file, err := os.Open(dist + "/checksums.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	found := map[string]bool{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		sum, name, _ := strings.Cut(lines.Text(), "  ")
		at := filepath.Join(dist, name)
		if strings.HasSuffix(name, ".tgz") {
			at = filepath.Join(charts, name)
		}
		if found[name] = true; digest(t, at) != sum {
			t.Errorf("%s has another checksum", name)
		}
	}
	v := version(t)
	want := []string{"kamino-" + strings.TrimPrefix(v, "v") + ".tgz"}
	for program, all := range platforms {
		for _, platform := range all {
			want = append(want, program+"_"+v+"_"+platform+".tar.gz", program+"_"+v+"_"+platform+".cdx.json")
		}
	}
	slices.Sort(want)
	if names := slices.Sorted(maps.Keys(found)); !slices.Equal(names, want) {
		t.Errorf("checksums of %v, want %v", names, want)
	}
}

// TestSBOM: each SBOM names the modules of the program.
func TestSBOM(t *testing.T) {
	var files []string
	for program, all := range platforms {
		for _, platform := range all {
			files = append(files, dist+"/"+program+"_"+version(t)+"_"+platform+".cdx.json")
		}
	}
	for _, file := range files {
		var bom struct {
			Components []struct{ Name string }
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &bom)
		}
		has := slices.ContainsFunc(bom.Components, func(c struct{ Name string }) bool { return c.Name == "k8s.io/client-go" })
		if err != nil || !has || len(bom.Components) < 40 {
			t.Errorf("%s: %d components, %v", file, len(bom.Components), err)
		}
	}
}

// TestChart: the chart has the version of the release, and its image.
func TestChart(t *testing.T) {
	v := strings.TrimPrefix(version(t), "v")
	var about struct{ Version, AppVersion string }
	if err := yaml.Unmarshal([]byte(unpacked(t, charts+"/kamino-"+v+".tgz", "")["kamino/Chart.yaml"]), &about); err != nil {
		t.Fatal(err)
	}
	if about.Version != v || about.AppVersion != v {
		t.Errorf("%+v, want %s", about, v)
	}
}

// TestPlugin installs the archive that the krew manifest names for this machine, as krew does, and runs the plugin by the
// real kubectl.
func TestPlugin(t *testing.T) {
	text, err := os.ReadFile(dist + "/krew/kamino.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Metadata struct{ Name string }
		Spec     struct {
			Version   string
			Platforms []struct {
				URI, SHA256, Bin string
				Selector         struct{ MatchLabels map[string]string }
			}
		}
	}
	if err := yaml.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	v, dir := version(t), t.TempDir()
	if manifest.Metadata.Name != "kamino" || manifest.Spec.Version != v || len(manifest.Spec.Platforms) != 4 {
		t.Errorf("%+v", manifest)
	}
	for _, p := range manifest.Spec.Platforms {
		archive := filepath.Join(dist, path.Base(p.URI))
		if sum := digest(t, archive); sum != p.SHA256 {
			t.Errorf("%s has the digest %s, and the manifest %s", p.URI, sum, p.SHA256)
		}
		if p.Selector.MatchLabels["os"] == runtime.GOOS && p.Selector.MatchLabels["arch"] == runtime.GOARCH {
			unpacked(t, archive, dir)
			if err := os.Symlink(p.Bin, filepath.Join(dir, "kubectl-kamino")); err != nil {
				t.Fatal(err)
			}
		}
	}
	kubectl := func(args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), args...)
		command.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "KUBECONFIG="+filepath.Join(dir, "none"))
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	var build struct{ Version, Image string }
	if err := json.Unmarshal([]byte(kubectl("kamino", "version", "--client", "-o", "json")), &build); err != nil {
		t.Fatal(err)
	}
	if build.Version != v || build.Image != "ghcr.io/kamino-dev/kamino-node:"+v {
		t.Errorf("%+v, want version %s and its image", build, v)
	}
	for want, args := range map[string][]string{
		"  kubectl kamino capture NODE ": {"kamino", "capture", "--help"},
		"\ncapture\t":                    {"__complete", "kamino", "ca"},
		"/kubectl-kamino":                {"plugin", "list"},
	} {
		if out := kubectl(args...); !strings.Contains("\n"+out, want) {
			t.Errorf("kubectl %v lacks %q:\n%s", args, want, out)
		}
	}
}
