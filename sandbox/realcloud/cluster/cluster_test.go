package cluster

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kamino-dev/kamino/sandbox/realcloud"
)

// program is a kamino that leaves a file for each command, and waits for its promotion as kamino does.
const program = `#!/bin/sh
touch "$DIR/$1"
case $1 in
plan) cat "$DIR/plan.json" ;;
capture) cat > "$DIR/settings"; trap 'exit 130' INT; while :; do sleep 0.05; done ;;
cancel) rm -f "$DIR/capture" ;;
history) [ -e "$DIR/delete-version" ] && [ ! -e "$DIR/keeps" ] && echo '{}' || echo "{\"version\":\"$(cat "$DIR/version")\"}" ;;
esac
`

// lab is a cluster of two nodes and one pod. Files in its directory are its state.
type lab struct {
	*testing.T
	dir string
}

func (l *lab) has(name string) bool {
	_, err := os.Stat(filepath.Join(l.dir, name))
	return err == nil
}

func (l *lab) write(name, text string, mode os.FileMode) {
	l.Helper()
	if err := os.WriteFile(filepath.Join(l.dir, name), []byte(text), mode); err != nil {
		l.Fatal(err)
	}
}

type object = map[string]any

func (l *lab) node(name, boot string) object {
	return object{"metadata": object{"name": name, "uid": "uid-of-" + name}, "spec": object{"unschedulable": l.has("cordoned") && name == "donor"},
		"status": object{"nodeInfo": object{"bootID": boot}, "conditions": []object{{"type": "Ready", "status": "True"}}}}
}

// ServeHTTP is the API server.
func (l *lab) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	boot, restarts := "boot-1", 0
	if l.has("rebooted") && l.has("capture") {
		boot = "boot-2"
	}
	if l.has("restarted") && l.has("cancel") {
		restarts = 1
	}
	nodes := []object{l.node("donor", boot), l.node("other", "boot-9")}
	if l.has("grown") && l.has("cancel") {
		nodes = append(nodes, l.node("trial", "boot-8"))
	}
	items := []object{}
	switch path := r.URL.Path; {
	case path == "/api/v1/nodes":
		items = nodes
	case path == "/api/v1/nodes/donor":
		_ = json.NewEncoder(w).Encode(nodes[0])
		return
	case path == "/api/v1/pods":
		items = []object{{"metadata": object{"name": "web", "namespace": "default", "uid": "pod-1"}, "status": object{"phase": "Running",
			"containerStatuses": []object{{"restartCount": restarts}}}}}
	case strings.HasSuffix(path, "/prototypes") && l.has("capture"):
		version, _ := os.ReadFile(filepath.Join(l.dir, "settings"))
		if len(version) == 0 {
			break
		}
		var state before
		text, _ := os.ReadFile(filepath.Join(l.dir, "report.json.state"))
		_ = json.Unmarshal(text, &state)
		_ = os.WriteFile(filepath.Join(l.dir, "version"), []byte(state.Version), 0o600)
		result := map[bool]string{true: "Failed", false: "Passed"}[l.has("bad")]
		items = []object{{"metadata": object{"name": "p"}, "spec": object{"version": state.Version, "donor": object{"nodeName": "donor"},
			"settings": object{"donor": object{"method": "Copy"}}}, "status": object{"phase": "AwaitingPromotion", "trial": object{"result": result}}}}
	}
	_ = json.NewEncoder(w).Encode(object{"items": items})
}

func newLab(t *testing.T, state ...string) (*lab, []string) {
	t.Helper()
	l := &lab{t, t.TempDir()}
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	t.Setenv("DIR", l.dir)
	l.write("kamino", program, 0o755)
	l.write("plan.json", `{"pools":[{"pool":"workers","poolID":"arn:aws:autoscaling:x","donor":"donor","method":{"method":"Copy"},"change":{"from":"ami-1"}}]}`, 0o600)
	l.write("kubeconfig", `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],
		"clusters":[{"name":"c","cluster":{"server":"`+server.URL+`"}}]}`, 0o600)
	for _, name := range state {
		l.write(name, "", 0o600)
	}
	return l, []string{"--kubeconfig", filepath.Join(l.dir, "kubeconfig"), "--kamino", filepath.Join(l.dir, "kamino"),
		"--report", filepath.Join(l.dir, "report.json"), "--pool", "workers"}
}

func TestCourse(t *testing.T) {
	for name, c := range map[string]struct {
		state   []string
		differs string
	}{
		"as promised":            {nil, ""},
		"a cordoned donor":       {[]string{"cordoned"}, "cluster-donor"},
		"a donor that restarted": {[]string{"rebooted"}, "cluster-donor"},
		"a failed trial":         {[]string{"bad"}, "cluster-trial"},
		"a pod that restarted":   {[]string{"restarted"}, "cluster-pods"},
	} {
		t.Run(name, func(t *testing.T) {
			l, args := newLab(t, c.state...)
			out := &bytes.Buffer{}
			code := Main(t.Context(), append(args, "--yes"), strings.NewReader(""), out, out)
			r, err := realcloud.Read(filepath.Join(l.dir, "report.json"))
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var differs []string
			for _, check := range r.Checks {
				if check.Outcome != realcloud.AsAssumed {
					differs = append(differs, check.Name)
				}
			}
			if strings.Join(differs, " ") != c.differs || (code == 0) != (c.differs == "") || len(r.Checks) != 7 {
				t.Errorf("%d: %v\n%s", code, differs, out)
			}
			settings, _ := os.ReadFile(filepath.Join(l.dir, "settings"))
			if !strings.Contains(string(settings), "promotion: {mode: Manual}") || l.has("promote") {
				t.Errorf("the capture has the settings %s", settings)
			}
			if !l.has("cancel") || !l.has("delete-version") || l.has("report.json.state") {
				t.Error("the capture, its version or its state is left")
			}
		})
	}
}

// TestAsks changes nothing without a yes, and without a pool.
func TestAsks(t *testing.T) {
	l, args := newLab(t)
	out := &bytes.Buffer{}
	if code := Main(t.Context(), args, strings.NewReader("no\n"), out, out); code == 0 || l.has("capture") || l.has("report.json.state") {
		t.Errorf("%d: %s", code, out)
	}
	if code := Main(t.Context(), args[:len(args)-2], strings.NewReader("yes\n"), out, out); code == 0 || !strings.Contains(out.String(), "no pool is named") {
		t.Errorf("%d: %s", code, out)
	}
	if code := Main(t.Context(), append(args, "--clean"), nil, out, out); code == 0 || !strings.Contains(out.String(), "no run was interrupted here") {
		t.Errorf("%d: %s", code, out)
	}
}

// TestLeft finds what a removal leaves.
func TestLeft(t *testing.T) {
	for state, want := range map[string]string{"keeps": "the version", "": "nothing"} {
		l, args := newLab(t, "delete-version")
		if state != "" {
			l.write(state, "", 0o600)
		}
		l.write("version", "2026.01.0902", 0o600)
		l.write("report.json.state", `{"Pool":"workers","Donor":"donor","Version":"2026.01.0902"}`, 0o600)
		r := &run{out: &bytes.Buffer{}}
		r.kubeconfig, r.kamino, r.report = args[1], args[3], args[5]
		r.pool, r.clean, r.soak = "workers", true, time.Second
		if err := r.do(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		left, err := r.leftovers(t.Context())
		if err != nil || left != want {
			t.Errorf("left: %q, %v; want %q", left, err, want)
		}
	}
}

func TestDifferences(t *testing.T) {
	was := map[string]identity{"a": {"1", "1"}, "b": {"2", "2"}}
	for want, now := range map[string]map[string]identity{
		"the nodes of before":                   was,
		"1 gone, 0 rebooted or replaced, 0 new": {"a": {"1", "1"}},
		"0 gone, 1 rebooted or replaced, 1 new": {"a": {"1", "3"}, "b": {"2", "2"}, "c": {"4", "4"}},
	} {
		if got := differences(was, now); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
