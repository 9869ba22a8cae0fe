package judge

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// record is a recorded run: the lines of the audit log, and of the cloud's.
type record struct {
	cloud         string
	audit, called []object
}

// load reads a run from testdata, or the first start of a sandbox.
func load(t *testing.T, dir string) *record {
	t.Helper()
	facts := lines(t, filepath.Join(dir, "sandbox.json"))[0]
	r := &record{cloud: text(facts, "cloud")}
	start := filepath.Join(dir, "record", "0001")
	for _, name := range []string{"audit.log", "audit.log.gz"} {
		if _, err := os.Stat(filepath.Join(start, name)); err == nil {
			r.audit = lines(t, filepath.Join(start, name))
		}
	}
	r.called = lines(t, filepath.Join(start, "cloud.log.gz"))
	for _, o := range r.called { // numbers change with inserted lines
		if same, _ := at(o, "same").(float64); same > 0 {
			o["out"] = copyOf(t, part(r.called[int(same)-1], "out"))
			delete(o, "same")
		}
	}
	return r
}

func lines(t *testing.T, path string) (all []object) {
	t.Helper()
	if err := each(path, func(o object) error { all = append(all, o); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// write writes the run as a sandbox does.
func (r *record) write(t *testing.T, dir string) {
	t.Helper()
	start := filepath.Join(dir, "record", "0001")
	if err := os.MkdirAll(start, 0o700); err != nil {
		t.Fatal(err)
	}
	for i, o := range r.called {
		o["seq"] = float64(i + 1)
	}
	put(t, filepath.Join(dir, "sandbox.json"), []object{{"cloud": r.cloud}})
	put(t, filepath.Join(start, "audit.log"), r.audit)
	put(t, filepath.Join(start, "cloud.log.gz"), r.called)
	put(t, filepath.Join(start, "complete.json"), []object{{"events": len(r.audit), "requests": len(r.called)}})
}

func put(t *testing.T, path string, all []object) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	to := bufio.NewWriter(file)
	packed := gzip.NewWriter(file)
	if strings.HasSuffix(path, ".gz") {
		to = bufio.NewWriter(packed)
	}
	for _, o := range all {
		line, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = to.Write(append(line, '\n')) // Flush has the error
	}
	err = to.Flush()
	if strings.HasSuffix(path, ".gz") {
		err = packed.Close()
	}
	if err != nil || file.Close() != nil {
		t.Fatal(path, err)
	}
}

// recordVariable names the directory of a stopped sandbox, or its copy in KAMINO_RECORDS. TestRecord makes a run for testdata of it.
const recordVariable = "KAMINO_RECORD"

// TestRecord replaces a run in testdata by the logs of a sandbox, without the lines that the judge does not read.
func TestRecord(t *testing.T) {
	dir := os.Getenv(recordVariable)
	if dir == "" {
		t.Skipf("%s is not set: the runs in testdata stay", recordVariable)
	}
	r := load(t, dir)
	r.audit = slices.DeleteFunc(r.audit, func(o object) bool {
		writes := slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, text(o, "verb"))
		resource, agent := text(o, "objectRef", "resource"), text(o, "userAgent")
		switch {
		case strings.HasPrefix(agent, "kamino/") || strings.HasPrefix(agent, "kamino-generalize"):
			return false
		case text(o, "objectRef", "namespace") == "kube-node-lease":
			return text(o, "verb") != "create"
		case slices.Contains([]string{"nodes", "prototypes", "prototypepolicies", "nodeorders", "leases"}, resource):
			return !writes
		}
		inside := strings.HasPrefix(text(o, "objectRef", "namespace"), "kamino")
		return text(o, "responseObject", "metadata", "labels", "app.kubernetes.io/name") != "kamino" && (!writes || !inside)
	})
	for _, o := range r.audit {
		for _, name := range []string{"annotations", "sourceIPs", "requestReceivedTimestamp", "kind", "apiVersion", "level", "stage"} {
			delete(o, name)
		}
		for _, name := range []string{"requestObject", "responseObject"} {
			status := part(o, name, "status")
			for _, big := range []string{"images", "volumesInUse", "daemonEndpoints", "capacity", "features", "runtimeHandlers"} {
				delete(status, big)
			}
			delete(part(o, name, "metadata"), "managedFields")
			for _, big := range []string{"kamino.dev/contents", "kubectl.kubernetes.io/last-applied-configuration"} {
				delete(part(o, name, "metadata", "annotations"), big)
			}
		}
	}
	to := filepath.Join("testdata", r.cloud)
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	r.write(t, to)
	start := filepath.Join(to, "record", "0001")
	put(t, filepath.Join(start, "audit.log.gz"), r.audit)
	for _, name := range []string{"audit.log", "complete.json"} {
		if err := os.Remove(filepath.Join(start, name)); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println(len(r.audit), "events and", len(r.called), "requests in", to)
}
