//go:build machines

package real

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/scan"
	"github.com/kamino-dev/kamino/internal/rules"
	"github.com/kamino-dev/kamino/sandbox/machine/disk"
)

// tool prepares a disk for a copy.
type tool struct {
	name string
	// program that the host needs for the tool; empty for none.
	program string
	// use runs the tool on a raw disk. Some tools work on the tree, some on the image.
	use func(t *testing.T, l *lab, image string)
}

// preparations are compared with all their options, but without lists of single files.
var preparations = []tool{
	{"cloud-init clean", "", inTree("cloud-init", "clean", "--logs", "--seed", "--machine-id")},
	{"waagent -deprovision+user", "", inTree("waagent", "-deprovision+user", "-force")},
	{"virt-sysprep", "virt-sysprep", func(t *testing.T, _ *lab, image string) { run(t, "virt-sysprep", "-q", "-a", image) }},
	{"kamino-node generalize", "", func(t *testing.T, l *lab, image string) {
		mounted(t, image, func(root string) { generalized(t, l.kamino, root, "--profile", "static") })
	}},
}

// inTree runs a program of the disk like on its machine, but without network and other processes.
func inTree(command ...string) func(*testing.T, *lab, string) {
	return func(t *testing.T, _ *lab, image string) {
		mounted(t, image, func(root string) {
			run(t, "systemd-nspawn", append([]string{"-q", "-D", root, "--register=no", "--keep-unit", "--private-network", "--pipe", "--resolv-conf=off", "--timezone=off", "--link-journal=no"}, command...)...)
		})
	}
}

// toolResult is the result of a tool.
type toolResult struct {
	// left counts remaining files by rule. lost has near misses that were removed.
	left map[string]int
	lost []string
	// findings of kamino-node verify, and the numbers of files whose content is in used or free blocks, before and after
	// a trim.
	findings, blocks, trimmed int
	took                      time.Duration
	// machineID and seed describe the results for both files.
	machineID, seed string
}

// TestTools runs each common tool on the same disk, and reports the remaining files by rule. Only Kamino's result
// is asserted. Without virt-sysprep, this tool is skipped.
func TestTools(t *testing.T) {
	requireMeasurements(t)
	requireTools(t, programs)
	l := &lab{dir: t.TempDir(), kamino: os.Getenv("KAMINO_AGENT_BIN")}
	image, planted, list := l.livedIn(t)
	results := map[string]toolResult{"before": l.measure(t, image, planted, list, 0)}
	for _, tool := range preparations {
		if _, err := exec.LookPath(tool.program); tool.program != "" && err != nil {
			t.Logf("%s is left out: %v", tool.name, err)
			continue
		}
		// Each copy has a separate file, because the data of a used disk may be written late.
		copied := copyDisk(t, image, l.imageOf(strings.Fields(tool.name)[0]))
		begun := time.Now()
		tool.use(t, l, copied)
		results[tool.name] = l.measure(t, copied, planted, list, time.Since(begun))
		discard(t, copied)
	}
	t.Logf("\n%s", compared(t, planted, results))
	if left := results["kamino-node generalize"]; len(left.left) > 0 || len(left.lost) > 0 || left.findings > 0 {
		t.Errorf("kamino left %v and %d findings, and took near misses %v", left.left, left.findings, left.lost)
	}
}

// requireMeasurements skips a measurement that proves nothing, unless measurements are requested.
func requireMeasurements(t *testing.T) {
	t.Helper()
	if os.Getenv("KAMINO_MEASURE") == "" {
		t.Skip("a measurement, not a test: run `make measure-disk`")
	}
}

// livedIn creates the disk: Debian with the Azure agent as an AKS Engine node after years of service, with all
// planted files. list is the path of the donor's identities.
func (l *lab) livedIn(t *testing.T) (image string, planted *plants, list string) {
	t.Helper()
	root := filepath.Join(l.dir, "lived-in")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "tar", "-xf", rootTarball(t, packageList+",waagent"), "-C", root)
	status, err := os.ReadFile(filepath.Join(root, "var/lib/dpkg/status"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "etc/fstab"), "LABEL=cloudimg-rootfs / ext4 discard,errors=remount-ro 0 1\n", 0o644)
	if _, err := disk.UsedNode(root, disk.Static, disk.TemplateValues{Hostname: "donor"}); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "var/lib/dpkg/status"), string(status), 0o644)
	planted = plant(t, root, disk.Static)
	list = filepath.Join(l.dir, "donor.txt")
	write(t, list, run(t, "sh", "-c", "sha256sum "+root+"/etc/machine-id "+root+"/etc/ssh/ssh_host_*_key"), 0o600)
	image = root + ".img"
	run(t, "truncate", "-s", imageSize, image)
	// virt-sysprep looks for the root by the label in fstab.
	run(t, "mkfs.ext4", "-q", "-L", "cloudimg-rootfs", "-d", root, image)
	return image, planted, list
}

func (l *lab) measure(t *testing.T, image string, planted *plants, list string, took time.Duration) toolResult {
	t.Helper()
	a := toolResult{left: map[string]int{}, took: took, blocks: markersIn(t, image, planted.marker)}
	mounted(t, image, func(root string) {
		var survivors []string
		survivors, a.lost = planted.check(t, root)
		rule := ruleOf(t)
		for _, path := range survivors {
			a.left[rule(path)]++
		}
		out, err := exec.CommandContext(t.Context(), l.kamino, "verify", root, "--profile", "static", "--identities", list, "-o", "json").Output()
		var report struct {
			Count    int
			Findings []scan.Finding
		}
		if json.Unmarshal(out, &report) != nil {
			t.Fatalf("kamino-node verify: %v\n%s", err, out)
		}
		a.findings = report.Count
		a.machineID, a.seed = planted.stateOf(root, "etc/machine-id"), planted.stateOf(root, "var/lib/systemd/random-seed")
		run(t, "fstrim", root)
	})
	a.trimmed = markersIn(t, image, planted.marker)
	return a
}

// stateOf describes the result for a file that must be unique per machine.
func (p *plants) stateOf(root, path string) string {
	content, err := os.ReadFile(filepath.Join(root, path))
	switch {
	case err != nil:
		return "missing"
	case len(content) == 0:
		return "empty"
	case bytes.Equal(content, p.gone[path]):
		return "the donor's"
	default:
		return "another, the same for all clones"
	}
}

// markersIn counts planted files whose content is in the blocks of a disk.
func markersIn(t *testing.T, image, marker string) int {
	t.Helper()
	content, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, hit := range regexp.MustCompile(regexp.QuoteMeta(marker)+` \d{4}`).FindAll(content, -1) {
		found[string(hit)] = true
	}
	return len(found)
}

// ruleOf returns a function from a planted path or line to its rule of the static profile.
func ruleOf(t *testing.T) func(path string) string {
	t.Helper()
	profile, err := rules.LoadWith(v1alpha1.ProfileStatic, "")
	if err != nil {
		t.Fatal(err)
	}
	owner := generalize.Owner(profile)
	return func(path string) string {
		path, _, _ = strings.Cut(path, ": ")
		rule := strings.TrimSuffix(owner("/"+path).Rule, "-flatcar")
		// Rules for layers use an index instead of paths.
		if rule == "" || rule == "image-cache" {
			return "container-layers"
		}
		return rule
	}
}

// compared is the table of all tools, by rule.
func compared(t *testing.T, planted *plants, results map[string]toolResult) string {
	t.Helper()
	before, names := results["before"], []string{}
	for _, tool := range preparations {
		if _, done := results[tool.name]; done {
			names = append(names, tool.name)
		}
	}
	var rules []string
	for rule := range before.left {
		rules = append(rules, rule)
	}
	slices.Sort(rules)
	var out bytes.Buffer
	fmt.Fprintf(&out, "| rule | planted | %s |\n|---|---|%s\n", strings.Join(names, " | "), strings.Repeat("---|", len(names)))
	for _, rule := range rules {
		fmt.Fprintf(&out, "| `%s` | %d |", rule, before.left[rule])
		for _, name := range names {
			switch left := results[name].left[rule]; left {
			case 0:
				out.WriteString(" yes |")
			case before.left[rule]:
				out.WriteString(" no |")
			default:
				fmt.Fprintf(&out, " %d left |", left)
			}
		}
		out.WriteByte('\n')
	}
	for _, row := range []struct {
		what string
		of   func(toolResult) string
	}{
		{"planted, still there", func(a toolResult) string { return fmt.Sprint(total(a.left)) }},
		{fmt.Sprintf("near misses lost, of %d", len(planted.stays)+len(planted.staysLines)), func(a toolResult) string { return fmt.Sprint(len(a.lost), " ", a.lost) }},
		{"findings of kamino-node verify", func(a toolResult) string { return fmt.Sprint(a.findings) }},
		{"planted contents in the disk's blocks", func(a toolResult) string { return fmt.Sprint(a.blocks) }},
		{"the same after a trim", func(a toolResult) string { return fmt.Sprint(a.trimmed) }},
		{"machine-id", func(a toolResult) string { return a.machineID }},
		{"random seed", func(a toolResult) string { return a.seed }},
		{"took", func(a toolResult) string { return fmt.Sprintf("%.1f s", a.took.Seconds()) }},
	} {
		fmt.Fprintf(&out, "| %s | %s |", row.what, row.of(before))
		for _, name := range names {
			fmt.Fprintf(&out, " %s |", row.of(results[name]))
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func total(left map[string]int) (sum int) {
	for _, n := range left {
		sum += n
	}
	return sum
}
