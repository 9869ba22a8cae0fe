package judge

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// Of runs in testdata: azure has two captures with donors that return, by an administrator, and a rollback. aws has a capture by the
// account of the engine, with a trial and a donor that is replaced.

func TestRightRuns(t *testing.T) {
	for _, cloud := range []string{"azure", "aws"} {
		r := judged(t, load(t, filepath.Join("testdata", cloud)))
		for i := range r.Tests {
			if len(r.Broken[i]) > 0 {
				t.Errorf("%s breaks sentence %d: %s", cloud, i+1, strings.Join(r.Broken[i], "\n"))
			}
			if r.Tests[i] == 0 && i != 6 {
				t.Errorf("%s tests sentence %d never", cloud, i+1)
			}
		}
		var out strings.Builder
		if err := r.Print(&out); err != nil || !strings.Contains(out.String(), "ok  9  only named accounts") || !strings.Contains(out.String(), " captures, ") {
			t.Errorf("%v\n%s", err, &out)
		}
	}
}

func judged(t *testing.T, r *record) *Report {
	t.Helper()
	dir := t.TempDir()
	r.write(t, dir)
	report, err := Run(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// set changes a value at a path of objects, which it makes.
func set(o object, value any, path ...string) {
	for _, name := range path[:len(path)-1] {
		next := part(o, name)
		if next == nil {
			next = object{}
			o[name] = next
		}
		o = next
	}
	o[path[len(path)-1]] = value
}

// copyOf is a deep copy.
func copyOf(t *testing.T, o object) object {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	out := object{}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// asked finds requests to the API server by verb and object, such as "create leases node-"; the name is a beginning.
func (r *record) asked(t *testing.T, what string) (found []int) {
	t.Helper()
	want := strings.Fields(what)
	for i, o := range r.audit {
		ref, code := at(o, "objectRef"), text(o, "responseStatus", "code")
		is := strings.Trim(text(ref, "resource")+"/"+text(ref, "subresource"), "/")
		if text(o, "verb") == want[0] && is == want[1] && strings.HasPrefix(text(ref, "name"), strings.Join(want[2:], "")) && code < "300" && !strings.Contains(text(o, "requestURI"), "dryRun") {
			found = append(found, i)
		}
	}
	if len(found) == 0 {
		t.Fatalf("no request %s", what)
	}
	return found
}

// byKamino are the requests of Kamino among some.
func (r *record) byKamino(found []int) []int {
	return slices.DeleteFunc(found, func(i int) bool { return !strings.HasPrefix(text(r.audit[i], "userAgent"), "kamino/") })
}

// calls finds requests to the cloud by method and a part of the path.
func (r *record) calls(t *testing.T, method, path string) (found []int) {
	t.Helper()
	for i, o := range r.called {
		if text(o, "method") == method && strings.Contains(text(o, "path"), path) {
			found = append(found, i)
		}
	}
	if len(found) == 0 {
		t.Fatalf("no request %s %s", method, path)
	}
	return found
}

// repeat inserts a changed copy of a line after the line.
func repeat(t *testing.T, all []object, i int, change func(object)) []object {
	t.Helper()
	again := copyOf(t, all[i])
	change(again)
	return slices.Insert(slices.Clone(all), i+1, again)
}

// answers changes the objects in all answers of the cloud whose ID contains a text, in whatever depth.
func answers(v any, key, id string, change func(object)) {
	switch v := v.(type) {
	case object:
		for _, inner := range v {
			answers(inner, key, id, change)
		}
		if strings.Contains(strings.ToLower(text(v, key)), strings.ToLower(id)) {
			change(v)
		}
	case []any:
		for _, inner := range v {
			answers(inner, key, id, change)
		}
	}
}

func (r *record) inAnswers(key, id string, change func(object)) {
	for _, o := range r.called {
		answers(at(o, "out"), key, id, change)
	}
}

// nodes changes the Nodes in all answers of the API server.
func (r *record) nodes(change func(name string, n object)) {
	for _, o := range r.audit {
		if n := part(o, "responseObject"); text(n, "kind") == "Node" {
			change(text(n, "metadata", "name"), n)
		}
	}
}

func notReady(n object) {
	for _, c := range items(n, "status", "conditions") {
		if text(c, "type") == "Ready" {
			c.(object)["status"] = "False"
		}
	}
}

const (
	donor    = "k8s-past-24816321-vmss000000" // of the first capture on Azure
	awsDonor = "ip-10-76-47-60"
	awsTrial = "ip-10-8-32-0"
)

// wrongRuns change a recorded run so that a sentence becomes false.
var wrongRuns = []struct {
	sentence    int
	name, cloud string
	change      func(t *testing.T, r *record)
}{
	{1, "a running instance is stopped", "azure", func(t *testing.T, r *record) {
		r.called = repeat(t, r.called, r.calls(t, "POST", "virtualMachines/0/start")[0], func(o object) {
			o["path"] = strings.ReplaceAll(text(o, "path"), "virtualMachines/0/start", "virtualMachines/1/powerOff")
		})
	}},
	{1, "a running instance is rebuilt", "azure", func(t *testing.T, r *record) {
		r.called = repeat(t, r.called, r.calls(t, "POST", "virtualMachines/0/start")[0], func(o object) {
			o["path"] = strings.ReplaceAll(text(o, "path"), "virtualMachines/0/start", "manualUpgrade")
			o["in"] = object{"instanceIds": []any{"1"}}
		})
	}},
	{1, "another instance ends in place of the donor", "aws", func(t *testing.T, r *record) {
		set(r.called[r.calls(t, "POST", "TerminateInstanceInAutoScalingGroup")[0]], "i-00000000000000000", "in", "InstanceId")
	}},
	{1, "the donor is ended again after its capture", "aws", func(t *testing.T, r *record) {
		end := r.called[r.calls(t, "POST", "TerminateInstanceInAutoScalingGroup")[0]]
		r.called = repeat(t, r.called, len(r.called)-1, func(o object) {
			at := o["time"]
			maps.Copy(o, copyOf(t, end))
			o["time"] = at
		})
	}},
	{1, "Kamino deletes the Node of another instance", "aws", func(t *testing.T, r *record) {
		r.audit = repeat(t, r.audit, r.byKamino(r.asked(t, "patch nodes "+awsDonor))[0], func(o object) {
			o["verb"] = "delete"
			set(o, "ip-10-124-67-153", "objectRef", "name")
		})
	}},
	{1, "the pool would roll the recipe out", "azure", func(_ *testing.T, r *record) {
		r.inAnswers("id", "virtualMachineScaleSets/", func(s object) {
			if part(s, "properties", "upgradePolicy") != nil {
				set(s, "Rolling", "properties", "upgradePolicy", "mode")
			}
		})
	}},
	{1, "the pool shrinks", "aws", func(t *testing.T, r *record) {
		set(r.called[r.calls(t, "POST", "SetDesiredCapacity")[1]], "1", "in", "DesiredCapacity")
	}},
	{2, "the image is quarantined", "azure", func(_ *testing.T, r *record) {
		r.inAnswers("id", "/versions/2026.11.28", func(s object) { set(s, "bad", "tags", "kamino-quarantined") })
	}},
	{2, "the image is not complete", "aws", func(t *testing.T, r *record) {
		for _, o := range r.called[:r.calls(t, "POST", "UpdateAutoScalingGroup")[0]] {
			answers(at(o, "out"), "imageState", "available", func(s object) { s["imageState"] = "pending" })
		}
	}},
	{2, "the image has another proof", "azure", func(_ *testing.T, r *record) {
		r.inAnswers("id", "/versions/2026.11.28", func(s object) { set(s, "static/1/sha256:0", "tags", "kamino-proof") })
	}},
	{2, "the report is not signed", "aws", func(t *testing.T, r *record) {
		for _, i := range r.asked(t, "patch orders/status") {
			set(r.audit[i], "AAAA", "responseObject", "status", "signature")
		}
	}},
	{2, "the report is of another capture", "aws", func(t *testing.T, r *record) {
		for _, i := range r.asked(t, "create orders") {
			set(r.audit[i], "another", "responseObject", "spec", "holder", "uid")
		}
	}},
	{2, "the image is unknown", "azure", func(t *testing.T, r *record) {
		set(r.called[r.calls(t, "PATCH", "virtualMachineScaleSets/k8s-past")[0]], "/subscriptions/foreign", append([]string{"in"}, azureImage...)...)
	}},
	{3, "two captures of a pool at once", "azure", func(t *testing.T, r *record) {
		lease := r.asked(t, "create leases node-"+donor)[0]
		r.audit = repeat(t, r.audit, lease, func(o object) {
			set(o, "node-other", "objectRef", "name")
			set(o, "k8s-past-24816321-vmss000001", "responseObject", "metadata", "annotations", "kamino.dev/node")
		})
		end := r.asked(t, "delete leases node-"+donor)[0]
		r.audit = repeat(t, r.audit, end, func(o object) { set(o, "node-other", "objectRef", "name") })
	}},
	{3, "more reservations than the limit", "aws", func(t *testing.T, r *record) {
		lease := r.asked(t, "create leases node-"+awsDonor)[0]
		r.audit = repeat(t, r.audit, lease, func(o object) {
			set(o, "node-other", "objectRef", "name")
			set(o, "a-rebuild", "responseObject", "metadata", "labels", "kamino.dev/holder")
		})
	}},
	{4, "the node stays cordoned", "azure", func(_ *testing.T, r *record) {
		reserved := false
		r.nodes(func(name string, n object) {
			if reserved = reserved || name == donor && text(n, "spec", "unschedulable") == "true" && text(n, "metadata", "annotations", "kamino.dev/reservation") != ""; reserved && name == donor {
				set(n, true, "spec", "unschedulable")
			}
		})
	}},
	{4, "a protecting annotation stays", "azure", func(_ *testing.T, r *record) {
		const key = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
		held := false
		r.nodes(func(name string, n object) {
			if held = held || name == donor && text(n, "metadata", "annotations", key) != ""; held && name == donor {
				set(n, "true", "metadata", "annotations", key)
			}
		})
	}},
	{4, "the protection from scale-in stays", "azure", func(t *testing.T, r *record) {
		for _, o := range r.called[r.calls(t, "PUT", "vmss/virtualMachines/0")[1]:] {
			answers(at(o, "out"), "id", "vmss/virtualMachines/0", func(s object) {
				if part(s, "properties") != nil {
					set(s, true, "properties", "protectionPolicy", "protectFromScaleIn")
				}
			})
		}
	}},
	{4, "the donor is away for too long", "azure", func(_ *testing.T, r *record) {
		for _, o := range r.audit {
			if text(o, "responseObject", "kind") == "Prototype" {
				set(o, "1s", "responseObject", "spec", "settings", "outOfService", "deadline")
				set(o, "1s", "responseObject", "spec", "settings", "outOfService", "readyTimeout")
			}
		}
	}},
	{4, "no new node joins in place of the donor", "aws", func(t *testing.T, r *record) {
		began := r.audit[r.asked(t, "create leases node-"+awsDonor)[0]]["stageTimestamp"].(string)
		late := map[string]bool{}
		for _, o := range r.audit {
			if text(o, "verb") == "create" && text(o, "responseObject", "kind") == "Node" && text(o, "stageTimestamp") > began {
				late[text(o, "responseObject", "metadata", "name")] = true
			}
			if text(o, "responseObject", "kind") == "Prototype" {
				set(o, "10s", "responseObject", "spec", "settings", "outOfService", "deadline")
				set(o, "10s", "responseObject", "spec", "settings", "outOfService", "readyTimeout")
			}
		}
		r.nodes(func(name string, n object) {
			if late[name] {
				notReady(n)
			}
		})
	}},
	{5, "a snapshot stays", "azure", func(t *testing.T, r *record) {
		r.called = slices.DeleteFunc(r.called, func(o object) bool {
			return text(o, "method") == "DELETE" && strings.Contains(text(o, "path"), "snapshot_")
		})
	}},
	{5, "the instance of a trial stays", "aws", func(t *testing.T, r *record) {
		i := r.calls(t, "POST", "/ec2/TerminateInstances")[0]
		r.called = slices.Delete(r.called, i, i+1)
	}},
	{5, "a pod and an Order stay", "azure", func(t *testing.T, r *record) {
		r.audit = slices.DeleteFunc(r.audit, func(o object) bool {
			return text(o, "verb") == "delete" && text(o, "objectRef", "resource") != "leases"
		})
	}},
	{5, "the reservation stays", "aws", func(t *testing.T, r *record) {
		i := r.asked(t, "delete leases node-"+awsDonor)[0]
		r.audit = slices.Delete(r.audit, i, i+1)
	}},
	{5, "a snapshot of another cluster is deleted", "azure", func(t *testing.T, r *record) {
		r.called = repeat(t, r.called, r.calls(t, "DELETE", "snapshot_")[0], func(o object) { o["path"] = text(o, "path") + "-foreign" })
	}},
	{5, "an image of another cluster is tagged", "aws", func(t *testing.T, r *record) {
		r.called = repeat(t, r.called, r.calls(t, "POST", "CreateTags")[0], func(o object) { set(o, []any{"ami-00000000000000000"}, "in", "ResourceId") })
	}},
	{6, "no other node is Ready", "azure", func(_ *testing.T, r *record) {
		r.nodes(func(name string, n object) {
			if name != donor && name != "k8s-past-24816321-vmss000002" {
				notReady(n)
			}
		})
	}},
	{6, "the other nodes are of other pools", "aws", func(_ *testing.T, r *record) {
		r.nodes(func(name string, n object) {
			if name != awsDonor && name != awsTrial {
				set(n, "aws:///eu-central-1a/i-"+name, "spec", "providerID")
			}
		})
	}},
	{7, "the current version is deleted", "azure", func(t *testing.T, r *record) {
		put := r.calls(t, "PUT", "/versions/2026.11.28")[0]
		last := r.calls(t, "PATCH", "virtualMachineScaleSets/k8s-past")[0]
		r.called = repeat(t, r.called, last, func(o object) { o["path"], o["method"] = r.called[put]["path"], "DELETE" })
	}},
	{7, "the prior version is deleted", "azure", func(t *testing.T, r *record) {
		put := r.calls(t, "PUT", "/versions/2026.11.28")[0]
		for _, i := range r.calls(t, "PATCH", "virtualMachineScaleSets/k8s-past") {
			if strings.HasSuffix(text(r.called[i], append([]string{"in"}, azureImage...)...), "2026.11.29") {
				r.called = repeat(t, r.called, i, func(o object) { o["path"], o["method"] = r.called[put]["path"], "DELETE" })
				return
			}
		}
		t.Fatal("no promotion of 2026.11.29")
	}},
	{8, "Kamino reads a Secret of another namespace", "aws", func(t *testing.T, r *record) {
		r.audit = repeat(t, r.audit, r.byKamino(r.asked(t, "create secrets"))[0], func(o object) {
			o["verb"] = "get"
			set(o, "kube-system", "objectRef", "namespace")
		})
	}},
	{8, "Kamino reads the Orders of all namespaces", "aws", func(t *testing.T, r *record) {
		r.audit = repeat(t, r.audit, r.byKamino(r.asked(t, "create orders"))[0], func(o object) {
			o["verb"], o["objectRef"] = "list", object{"resource": "orders", "apiGroup": "kamino.dev"}
		})
	}},
	{8, "an action of AWS that no policy has", "aws", func(t *testing.T, r *record) {
		r.called = repeat(t, r.called, r.calls(t, "POST", "/ec2/CreateSnapshot")[0], func(o object) { o["path"] = "/ec2/DetachVolume" })
	}},
	{8, "an action of Azure that the role lacks", "azure", func(t *testing.T, r *record) {
		r.called = repeat(t, r.called, r.calls(t, "POST", "virtualMachines/0/start")[0], func(o object) {
			o["path"] = strings.ReplaceAll(text(o, "path"), "start", "runCommand")
		})
	}},
	{9, "a kubelet writes another Node", "aws", func(t *testing.T, r *record) {
		set(r.audit[r.asked(t, "create nodes "+awsTrial)[0]], "system:node:"+awsDonor, "user", "username")
	}},
	{9, "the pod's account writes a Prototype", "azure", func(t *testing.T, r *record) {
		o := r.audit[r.asked(t, "patch prototypes/status")[3]]
		o["user"], o["userAgent"] = object{"username": "system:serviceaccount:kamino-generalize:kamino-generalize"}, "curl/8"
	}},
	{9, "an unknown account writes the Lease of a reservation", "azure", func(t *testing.T, r *record) {
		o := r.audit[r.asked(t, "update leases node-"+donor)[0]]
		o["user"], o["userAgent"] = object{"username": "system:serviceaccount:shop:default"}, "curl/8"
	}},
	{9, "the engine taints a Node", "aws", func(t *testing.T, r *record) {
		set(r.audit[r.byKamino(r.asked(t, "patch nodes "+awsDonor))[0]], []any{object{"key": "a", "effect": "NoSchedule"}}, "responseObject", "spec", "taints")
	}},
	{9, "the engine labels a Node", "azure", func(t *testing.T, r *record) {
		set(r.audit[r.byKamino(r.asked(t, "patch nodes "+donor))[0]], "a", "responseObject", "metadata", "labels", "team")
	}},
}

func TestWrongRuns(t *testing.T) {
	perSentence := [9]int{}
	for _, w := range wrongRuns {
		perSentence[w.sentence-1]++
		t.Run(w.name, func(t *testing.T) {
			r := load(t, filepath.Join("testdata", w.cloud))
			w.change(t, r)
			report := judged(t, r)
			if len(report.Broken[w.sentence-1]) == 0 {
				t.Errorf("sentence %d is not broken", w.sentence)
			}
			for i, broken := range report.Broken {
				if i != w.sentence-1 && len(broken) > 0 {
					t.Errorf("sentence %d is broken, too: %s", i+1, strings.Join(broken, "\n"))
				}
			}
			if err := report.Print(&strings.Builder{}); err == nil {
				t.Error("a broken sentence is no error")
			}
		})
	}
	if slices.Min(perSentence[:]) < 2 {
		t.Errorf("wrong runs for each sentence: %v, want at least 2", perSentence)
	}
}

func TestIncompleteLogs(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, r *record, dir, start string){
		"a killed sandbox":    func(t *testing.T, _ *record, _, start string) { remove(t, filepath.Join(start, "complete.json")) },
		"no audit log":        func(t *testing.T, _ *record, _, start string) { remove(t, filepath.Join(start, "audit.log")) },
		"no log of the cloud": func(t *testing.T, _ *record, _, start string) { remove(t, filepath.Join(start, "cloud.log.gz")) },
		"no sandbox":          func(t *testing.T, _ *record, dir, _ string) { remove(t, filepath.Join(dir, "record")) },
		"a lost event":        func(t *testing.T, r *record, _, start string) { put(t, filepath.Join(start, "audit.log"), r.audit[1:]) },
		"a lost request": func(t *testing.T, r *record, _, start string) {
			put(t, filepath.Join(start, "cloud.log.gz"), r.called[1:])
		},
		"a request twice": func(t *testing.T, r *record, _, start string) {
			put(t, filepath.Join(start, "cloud.log.gz"), append(r.called[1:], r.called[1]))
		},
		"an audit log cut short":  func(t *testing.T, _ *record, _, start string) { cut(t, filepath.Join(start, "audit.log")) },
		"a cloud's log cut short": func(t *testing.T, _ *record, _, start string) { cut(t, filepath.Join(start, "cloud.log.gz")) },
	} {
		dir := t.TempDir()
		r := load(t, filepath.Join("testdata", "azure"))
		r.write(t, dir)
		spoil(t, r, dir, filepath.Join(dir, "record", "0001"))
		if report, err := Run(dir, 1); err == nil {
			t.Errorf("%s: no error, %s", name, report.Counted)
		}
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func cut(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()-20)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTwoStarts: a sandbox that continues is judged as one run.
func TestTwoStarts(t *testing.T) {
	r := load(t, filepath.Join("testdata", "azure"))
	dir := t.TempDir()
	late := *r
	r.audit, late.audit = r.audit[:len(r.audit)/2], r.audit[len(r.audit)/2:]
	r.called, late.called = append(r.called, object{"time": time.Now().Format(time.RFC3339Nano), "took": float64(1), "class": "login"}), []object{}
	late.write(t, dir)
	if err := os.Rename(filepath.Join(dir, "record", "0001"), filepath.Join(dir, "record", "0002")); err != nil {
		t.Fatal(err)
	}
	r.write(t, dir)
	report, err := Run(dir, 1)
	if err != nil || report.Print(&strings.Builder{}) != nil {
		t.Errorf("%v: %v", err, report)
	}
}

// mostLines is the size that a reader can check in an hour, without comments.
const mostLines = 760

func TestJudgeSharesNothing(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	count, code := 0, regexp.MustCompile(`^\s*[^\s/]|^\s*/[^/]`)
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(source)) {
			if code.MatchString(line) {
				count++
			}
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, source, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			if strings.Contains(i.Path.Value, ".") { // the standard library has no domain
				t.Errorf("%s imports %s: the judge uses the standard library alone", path, i.Path.Value)
			}
		}
	}
	if count == 0 || count > mostLines {
		t.Errorf("the judge has %d lines, the limit is %d", count, mostLines)
	}
}

// TestRightsArePublished: the rights that the judge accepts are on the pages.
func TestRightsArePublished(t *testing.T) {
	want := map[string]bool{"sts:GetCallerIdentity": true} // needs no right
	for page, pattern := range map[string]string{
		"aws-policy.json": `"([a-z0-9]+:[A-Za-z]+)"`,
		"azure.md":        "`(Microsoft\\.(?:Compute|Authorization)/[A-Za-z/]+/(?:read|write|delete|action))`",
	} {
		source, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(source), -1) {
			want[m[1]] = true
		}
	}
	for _, right := range facts.Published {
		if !want[right] {
			t.Errorf("%s is on no page", right)
		}
	}
	source, err := os.ReadFile(filepath.Join("..", "..", "charts", "kamino", "files", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var roles struct{ Cluster, Force, Remove, Viewer, Operator, Namespace, Pods, Generalize []object }
	if err := yaml.Unmarshal(source, &roles); err != nil {
		t.Fatal(err)
	}
	for _, r := range slices.Concat(roles.Namespace, roles.Pods, roles.Generalize) {
		r["namespaced"] = true
	}
	rules := slices.Concat(roles.Cluster, roles.Force, roles.Remove, roles.Viewer, roles.Operator, roles.Namespace, roles.Pods, roles.Generalize)
	if diff := cmp.Diff(rules, facts.Rules); diff != "" {
		t.Errorf("rules of facts.json (+) are not those of the chart (-):\n%s", diff)
	}
}
