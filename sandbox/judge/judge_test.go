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
)

// Of runs in testdata: azure has two captures in place by an administrator, and a rollback. aws has a capture by copy by the account of
// the engine, with a trial.

func TestRightRuns(t *testing.T) {
	for _, cloud := range []string{"azure", "aws"} {
		r := judged(t, load(t, filepath.Join("testdata", cloud)))
		for i := range r.Tests {
			if len(r.Broken[i]) > 0 {
				t.Errorf("%s breaks sentence %d: %s", cloud, i+1, strings.Join(r.Broken[i], "\n"))
			}
			if drained := cloud == "azure"; r.Tests[i] == 0 && i != 6 && (i != 5 || drained) {
				t.Errorf("%s tests sentence %d never", cloud, i+1)
			}
		}
		var out strings.Builder
		if err := r.Print(&out); err != nil || !strings.Contains(out.String(), "ok  9  only named accounts") || !strings.Contains(out.String(), " capture") {
			t.Errorf("%v\n%s", err, &out)
		}
	}
}

// TestDisabledImages: the image of a quarantine is whole, and no remainder of its capture. An image that is being made is one.
func TestDisabledImages(t *testing.T) {
	for state, whole := range map[string]bool{"disabled": true, "pending": false} {
		r := load(t, filepath.Join("testdata", "aws"))
		for _, o := range r.called[r.calls(t, "POST", "UpdateAutoScalingGroup")[0]:] {
			answers(at(o, "out"), "imageState", "available", func(s object) { s["imageState"] = state })
		}
		if left := judged(t, r).Broken[4]; (len(left) == 0) != whole {
			t.Errorf("%s: %v", state, left)
		}
	}
}

// judged judges the lines of a run, without the way through files.
func judged(t *testing.T, r *record) *Report {
	t.Helper()
	var l logs
	for _, o := range r.audit {
		if err := l.addAudit(o); err != nil {
			t.Fatal(err)
		}
	}
	numbers := map[string]object{}
	for _, o := range r.called {
		if err := l.addCloud(o, numbers); err != nil {
			t.Fatal(err)
		}
	}
	l.sort()
	return report(l, 1, r.cloud == "azure")
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
		if text(o, "verb") == want[0] && is == want[1] && strings.HasPrefix(text(ref, "name"), strings.Join(want[2:], "")) && code < "300" &&
			!strings.Contains(text(o, "requestURI"), "dryRun") {
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

// TestRestoredPoolNeedsNoVersion: a pool whose recipe names its first image again, of the Marketplace, can lose its last version.
func TestRestoredPoolNeedsNoVersion(t *testing.T) {
	for _, restored := range []bool{true, false} {
		r := load(t, filepath.Join("testdata", "azure"))
		version := r.called[r.calls(t, "PUT", "/versions/2026.11.28")[0]]["path"]
		patches := r.calls(t, "PATCH", "virtualMachineScaleSets/k8s-past")
		last := slices.IndexFunc(patches, func(i int) bool {
			return strings.HasSuffix(text(r.called[i], append([]string{"in"}, azureImage...)...), "2026.11.29")
		})
		r.called = repeat(t, r.called, patches[last], func(o object) { o["path"], o["method"] = version, "DELETE" })
		if restored {
			r.called = repeat(t, r.called, patches[last], func(o object) {
				first := object{"publisher": "Canonical", "offer": "ubuntu-24_04-lts", "sku": "server", "version": "latest"}
				set(o, first, append([]string{"out"}, azureImage[:len(azureImage)-1]...)...)
				set(o, "GET", "method")
			})
		}
		if broken := judged(t, r).Broken[6]; (len(broken) == 0) != restored {
			t.Errorf("restored %t: %v", restored, broken)
		}
	}
}

// TestTrialOfControllers: only the Node of a Machine or NodeClaim that Kamino has created may be cordoned without a reservation.
func TestTrialOfControllers(t *testing.T) {
	const id = "aws:///eu-central-1a/i-0123456789abcdef0"
	node := func(cordoned bool) object {
		return object{"kind": "Node", "metadata": object{"name": "ip-1", "uid": "n"}, "spec": object{"providerID": id, "unschedulable": cordoned}}
	}
	for name, creator := range map[string]string{"by Kamino": "kamino/v1", "by another client": "manager/v1"} {
		t.Run(name, func(t *testing.T) {
			write := func(agent, verb, resource, name string, out object) event {
				return event{line: verb + " " + resource, agent: agent, user: "admin", groups: []any{"system:masters"}, verb: verb,
					resource: resource, name: name, out: out}
			}
			for resource, where := range map[string]string{"machines": "spec", "nodeclaims": "status"} {
				r := report(logs{events: []event{
					write(creator, "create", resource, "x", object{}),
					write("manager/v1", "patch", resource, "x", object{where: object{"providerID": id}}),
					write("kubelet/v1", "create", "nodes", "ip-1", node(false)),
					write("kamino/v1", "patch", "nodes", "ip-1", node(true)),
				}}, 1, false)
				if kept := r.Broken[8] == nil; kept != (name == "by Kamino") {
					t.Errorf("%s, sentence 9: %q", resource, r.Broken[8])
				}
			}
		})
	}
}

// TestSizesOfClusterAPI: Kamino changes no number of machines, and deletes only a Machine that it has created.
func TestSizesOfClusterAPI(t *testing.T) {
	write := func(agent, verb, resource string, in, out object) event {
		return event{line: verb + " " + resource, agent: agent, user: "admin", groups: []any{"system:masters"}, verb: verb, group: "cluster.x-k8s.io",
			resource: resource, namespace: "n", name: "x", in: in, out: out}
	}
	sized := func(size float64) object { return object{"spec": object{"replicas": size}} }
	other := object{"spec": object{"template": object{}}}
	for name, c := range map[string]struct {
		write event
		kept  bool
	}{
		"Kamino grows a MachineDeployment": {write("kamino/v1", "patch", "machinedeployments", sized(3), sized(3)), false},
		"Kamino shrinks a MachinePool":     {write("kamino/v1", "update", "machinepools", sized(1), sized(1)), false},
		"Kamino shrinks a MachineSet":      {write("kamino/v1", "patch", "machinesets", nil, sized(1)), false},
		"Kamino writes the size of before": {write("kamino/v1", "update", "machinedeployments", sized(2), sized(2)), true},
		"Kamino writes another field":      {write("kamino/v1", "patch", "machinedeployments", other, sized(3)), true},
		"another client grows it":          {write("manager/v1", "patch", "machinedeployments", sized(3), sized(3)), true},
		"Kamino deletes a Machine":         {write("kamino/v1", "delete", "machines", nil, object{}), false},
		"Kamino deletes a MachinePool":     {write("kamino/v1", "delete", "machinepools", nil, object{}), false},
		"another client deletes a Machine": {write("manager/v1", "delete", "machines", nil, object{}), true},
		"Kamino deletes a NodeClaim":       {write("kamino/v1", "delete", "nodeclaims", nil, object{}), false},
	} {
		t.Run(name, func(t *testing.T) {
			events := []event{write("manager/v1", "create", c.write.resource, nil, sized(2)), c.write}
			if r := report(logs{events: events}, 1, false); (r.Broken[0] == nil) != c.kept {
				t.Errorf("sentence 1: %q", r.Broken[0])
			}
		})
	}
	own := []event{write("kamino/v1", "create", "machines", nil, object{}), write("kamino/v1", "delete", "machines", nil, object{}),
		write("kamino/v1", "delete", "machines", nil, object{})}
	if r := report(logs{events: own}, 1, false); r.Broken[0] != nil || r.Tests[0] != 0 {
		t.Errorf("a Machine of a trial: %d tests, %q", r.Tests[0], r.Broken[0])
	}
}

// TestPoolOfAMachine: a new Node has no annotation of its owner yet, so its Machine says the pool.
func TestPoolOfAMachine(t *testing.T) {
	write := func(agent, verb, resource, name string, out object) event {
		return event{line: name, agent: agent, user: "admin", groups: []any{"system:masters"}, verb: verb, resource: resource,
			namespace: "n", name: name, out: out}
	}
	machine := func(name, id string) event {
		labels := object{"cluster.x-k8s.io/deployment-name": "md-0"}
		return write("manager/v1", "patch", "machines", name, object{"metadata": object{"labels": labels}, "spec": object{"providerID": id}})
	}
	node := func(agent, name, id string, cordoned bool) event {
		return write(agent, "patch", "nodes", name, object{
			"kind": "Node", "metadata": object{"name": name, "uid": name}, "spec": object{"providerID": id, "unschedulable": cordoned},
			"status": object{"conditions": []any{object{"type": "Ready", "status": "True"}}},
		})
	}
	lease := write("kamino/v1", "create", "leases", "l",
		object{"metadata": object{"labels": object{"kamino.dev/holder": "u"}, "annotations": object{"kamino.dev/node": "one"}}})
	for others, kept := range map[int]bool{0: false, 1: true} {
		events := []event{machine("m1", "aws:///a/i-1"), machine("m2", "aws:///a/i-2"), node("kubelet/v1", "one", "aws:///a/i-1", false)}
		if others > 0 {
			events = append(events, node("kubelet/v1", "two", "aws:///a/i-2", false))
		}
		events = append(events, lease, node("kamino/v1", "one", "aws:///a/i-1", true))
		if r := report(logs{events: events}, 1, false); (r.Broken[5] == nil) != kept {
			t.Errorf("%d other nodes, sentence 6: %q", others, r.Broken[5])
		}
	}
}

// TestRecipeOfClusterAPI: the pool names a template, and only the template names the image.
func TestRecipeOfClusterAPI(t *testing.T) {
	template := func(name, image string) event {
		return event{agent: "kamino/v1", verb: "create", group: "infrastructure.cluster.x-k8s.io", resource: "awsmachinetemplates", namespace: "c", name: name,
			out: object{"spec": object{"template": object{"spec": object{"ami": object{"id": image}}}}}}
	}
	pool := func(agent, name string) event {
		ref := object{"kind": "AWSMachineTemplate", "name": name}
		return event{agent: agent, verb: "patch", resource: "machinedeployments", group: "cluster.x-k8s.io", namespace: "c", name: "md-0",
			out: object{"spec": object{"template": object{"spec": object{"infrastructureRef": ref}}}}}
	}
	image := func(id string, tags ...any) event {
		return event{method: "POST", path: "ec2/DescribeImages", out: object{"DescribeImagesResponse": object{"imagesSet": []any{
			object{"imageId": id, "imageState": "available", "tagSet": tags},
		}}}}
	}
	tag := func(key, value string) any { return object{"key": key, "value": value} }
	for name, c := range map[string]struct {
		events []event
		kept   bool
	}{
		"back to the image of another maker": {[]event{pool("manager/v1", "later"), pool("kamino/v1", "first")}, true},
		"another maker's change":             {[]event{pool("manager/v1", "foreign")}, true},
		"an image of no capture":             {[]event{pool("kamino/v1", "foreign")}, false},
		"a version without a proof":          {[]event{pool("kamino/v1", "later")}, false},
		"a quarantined version": {[]event{
			image("ami-later", tag("BuiltFrom", "n"), tag("kamino-quarantined", "bad")), pool("kamino/v1", "later"),
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := report(logs{events: append([]event{
				template("first", "ami-first"), pool("manager/v1", "first"), template("later", "ami-later"), template("foreign", "ami-foreign"),
				image("ami-later", tag("kamino-uid", "u"), tag("kamino-proof", "p")),
			}, c.events...)}, 1, false)
			if kept := r.Broken[1] == nil; kept != c.kept {
				t.Errorf("sentence 2: %q", r.Broken[1])
			}
		})
	}
}

// TestRecipeOfKarpenter: a class names the image of its nodes. The copies that Kamino makes for trials are no pools.
func TestRecipeOfKarpenter(t *testing.T) {
	write := func(agent, verb, name, image string) event {
		return event{agent: agent, verb: verb, group: "karpenter.k8s.aws", resource: "ec2nodeclasses", name: name,
			out: object{"spec": object{"amiSelectorTerms": []any{object{"id": image}}}}}
	}
	for name, c := range map[string]struct {
		last event
		kept bool
	}{
		"the image of before":      {write("kamino/v1", "patch", "c", "ami-first"), true},
		"another maker's image":    {write("kamino/v1", "patch", "c", "ami-foreign"), false},
		"another maker's change":   {write("manager/v1", "patch", "c", "ami-foreign"), true},
		"the class of a trial":     {write("kamino/v1", "create", "c-trial", "ami-foreign"), true},
		"a new class of the owner": {write("manager/v1", "create", "d", "ami-foreign"), true},
	} {
		r := report(logs{events: []event{write("manager/v1", "create", "c", "ami-first"), write("manager/v1", "patch", "c", "ami-second"), c.last}}, 1, false)
		if kept := r.Broken[1] == nil; kept != c.kept {
			t.Errorf("%s, sentence 2: %q", name, r.Broken[1])
		}
	}
}

// TestNodesByTheirRequests: the answer to Kamino's patch also has what others changed, and a trial's Node may lack its instance.
func TestNodesByTheirRequests(t *testing.T) {
	set := object{"id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/kamino-trial-1",
		"properties": object{"virtualMachineProfile": object{"osProfile": object{"computerNamePrefix": "kt1-"}}}}
	for name, c := range map[string]struct {
		node, field string
		kept        bool
	}{
		"the cordon of a trial's Node":      {"kt1-000000", "unschedulable", true},
		"the cordon of another Node":        {"k8s-000000", "unschedulable", false},
		"a field that another client wrote": {"k8s-000000", "podCIDR", true},
	} {
		t.Run(name, func(t *testing.T) {
			write := func(agent, verb string, in, spec object) event {
				return event{line: verb, agent: agent, user: "admin", groups: []any{"system:masters"}, verb: verb, resource: "nodes", name: c.node, in: in,
					out: object{"kind": "Node", "metadata": object{"name": c.node, "uid": "n"}, "spec": spec}}
			}
			r := report(logs{events: []event{
				{line: "trial", agent: "kamino/v1", method: "PUT", path: strings.Trim(text(set, "id"), "/"), out: set},
				write("kubelet/v1", "create", nil, object{}),
				write("kamino/v1", "patch", object{"spec": object{c.field: true}}, object{"unschedulable": true}),
			}}, 1, true)
			if kept := r.Broken[8] == nil; kept != c.kept {
				t.Errorf("sentence 9: %q", r.Broken[8])
			}
		})
	}
}

// TestRequestsWithoutAnAnswer: a killed client gets no answer, and the API server logs a timeout. The effect shows in the answers
// to others, or in "not found".
func TestRequestsWithoutAnAnswer(t *testing.T) {
	for name, c := range map[string]struct{ cordon, deletion, found, kept bool }{
		"a cordon":                        {cordon: true, kept: true},
		"a deletion with an effect":       {deletion: true, kept: true},
		"a cordon and a deletion":         {cordon: true, deletion: true, kept: true},
		"a deletion without an effect":    {deletion: true, found: true},
		"a deletion that is not repeated": {cordon: true, deletion: true, found: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := load(t, filepath.Join("testdata", "azure"))
			lost := map[int]bool{}
			for _, i := range r.byKamino(r.asked(t, "patch nodes "+donor)) {
				lost[i] = c.cordon && part(r.audit[i], "requestObject", "spec")["unschedulable"] == true
			}
			end := r.asked(t, "delete leases node-"+donor)[0]
			lost[end] = c.deletion
			if c.deletion && !c.found {
				r.audit = repeat(t, r.audit, end, func(o object) { set(o, float64(404), "responseStatus", "code") })
			}
			for i := range lost {
				if o := r.audit[i]; lost[i] {
					o["requestReceivedTimestamp"] = o["stageTimestamp"]
					set(o, float64(504), "responseStatus", "code")
					delete(o, "responseObject")
				}
			}
			report := judged(t, r)
			if broken := slices.Concat(report.Broken[:]...); (len(broken) == 0) != c.kept {
				t.Errorf("kept: %t, want %t: %q", !c.kept, c.kept, broken)
			}
		})
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
const mostLines = 880

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

// TestAccounts: the report names the accounts that Kamino had, with a request of each, and no others.
func TestAccounts(t *testing.T) {
	r := report(logs{events: []event{
		{line: "first", agent: "kamino/v1", user: "engine", verb: "get", resource: "nodes"},
		{line: "second", agent: "kubectl/v1", user: "admin", verb: "get", resource: "nodes"},
		{line: "third", agent: "aws-sdk-go-v2/1 app/kamino", user: "granted", method: "POST", path: "ec2/DescribeImages"},
		{line: "fourth", agent: "aws-sdk-go-v2/1 app/sandbox", user: "kamino", method: "POST", path: "ec2/DescribeImages"},
	}}, 1, false)
	if want := map[string]string{"engine": "first", "granted": "third"}; !maps.Equal(r.Accounts, want) {
		t.Errorf("%v, want %v", r.Accounts, want)
	}
}
