// Package testsuite checks testsuite.sh, which splits, runs and measures the tests that `make test` leaves out.
package testsuite

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// script runs testsuite.sh in a folder of this project or of a sample, and returns what the script prints.
func script(t *testing.T, root string, args ...string) (string, error) {
	t.Helper()
	command := exec.Command(filepath.Join(root, "hack/testsuite/testsuite.sh"), args...)
	command.Env = append(os.Environ(), "GOTESTSUM="+filepath.Join(root, "gotestsum"))
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if stderr.Len() > 0 {
		t.Log(stderr.String())
	}
	return string(out), err
}

func sample(t *testing.T) (root string) {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/project.txtar")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testsuite.sh")
	if err != nil {
		t.Fatal(err)
	}
	root = t.TempDir()
	for _, file := range append(archive.Files, txtar.File{Name: "hack/testsuite/testsuite.sh", Data: text}) {
		path := filepath.Join(root, file.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, file.Data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestSample(t *testing.T) {
	root := sample(t)
	for _, c := range []struct{ command, want string }{
		{"list short", "20.0 internal/x TestQuick|200.0 internal/x TestBoth|90.0 internal/x TestInAClosure|20.0 sandbox/e2e TestShort"},
		{"list long 1/3", "200.0 internal/x TestBoth|90.0 internal/x TestInAClosure|40.0 sandbox/e2e/x TestA|50.0 sandbox/e2e/x TestB"},
		{"list long 2/3", "900.0 sandbox/e2e/x TestLong"},
		{"list long 3/3", "20.0 sandbox/e2e/x TestNew"},
		{"list long 7/7", ""},
		{"list machines", "20.0 sandbox/machine/real TestMachine"},
		{"shards long", "4"},
		{"shards machines", "1"},
		{"needs 1/3 KAMINO_THING", ""},
	} {
		out, err := script(t, root, strings.Fields(c.command)...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		for i := range lines {
			lines[i] = strings.TrimSpace(lines[i])
		}
		if diff := cmp.Diff(c.want, strings.Join(lines, "|")); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", c.command, err, diff)
		}
	}
	for _, command := range []string{"needs 1/3 KAMINO_OTHER", "list long 0/3", "list long 4/3", "list long 3", "list long 1/2x", "list long 1/0"} {
		if out, err := script(t, root, strings.Fields(command)...); err == nil {
			t.Errorf("%s: no error, and %q", command, out)
		}
	}
}

func TestEachTestIsInOnePart(t *testing.T) {
	whole, err := script(t, "../..", "list", "long")
	if err != nil || strings.Count(whole, "\n") < 100 {
		t.Fatalf("the long suite: %v\n%s", err, whole)
	}
	text, err := script(t, "../..", "shards", "long")
	if err != nil {
		t.Fatal(err)
	}
	least, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, count := range []int{1, 2, 7, least} {
		joined := ""
		for k := range count {
			part, err := script(t, "../..", "list", "long", strconv.Itoa(k+1)+"/"+strconv.Itoa(count))
			if err != nil {
				t.Fatal(err)
			}
			if total := seconds(part); count == least && total > 300 && strings.Count(part, "\n") > 1 {
				t.Errorf("part %d of %d takes %.0f s:\n%s", k+1, count, total, part)
			}
			joined += part
		}
		if diff := cmp.Diff(whole, joined); diff != "" {
			t.Errorf("%d parts together (-want +got):\n%s", count, diff)
		}
	}
}

func seconds(part string) (total float64) {
	for line := range strings.Lines(part) {
		n, _ := strconv.ParseFloat(strings.Fields(line)[0], 64)
		total += n
	}
	return total
}

// TestTimesAreWritten: passed tests share the wall time of their package, other times stay unless the test is gone, and a failure is
// the exit status. A package can name a test several times.
func TestTimesAreWritten(t *testing.T) {
	root := sample(t)
	if out, err := script(t, root, "times", "long"); err == nil {
		t.Errorf("a test failed, and the script did not:\n%s", out)
	}
	for name, want := range map[string]string{
		"hack/testsuite/times.tsv": "internal/x\tTestBoth\t3.5\ninternal/x\tTestInAClosure\t1.5\n" +
			"sandbox/e2e/x\tTestA\t7.0\nsandbox/e2e/x\tTestB\t50.0\nsandbox/e2e/x\tTestLong\t900.0\n",
		"docs/contribute/tests.md": `| package | CPU | wall | CPU | wall | sees |
|---|---|---|---|---|---|
| ` + "`internal/x`" + ` | 1.0 | 2.0 | 61.8 | 5.0 | one thing |
| ` + "`gone`" + ` | 1.0 | 2.0 | - | - | nothing now |
| ` + "`others`" + ` | - | - | 2.5 | 8.0 | the rest |
`,
	} {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
