// Package judge judges a run of a sandbox by its logs alone: the audit log of the API server, and the requests to the cloud. The
// package knows Kamino's public names and promises, and shares no code with Kamino or with the rest of the sandbox.
package judge

import (
	"cmp"
	"crypto/ed25519"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed facts.json
var factsFile []byte

// knowledge are the sentences, the clouds' requests with an effect on something that exists, and the rights that pages publish.
type knowledge struct {
	Sentences []string
	AzureActs map[string]string
	// AWSActs have the effect, and the parameter with the IDs.
	AWSActs   map[string][]string
	Published []string
	// Rules of the published roles. People need more: for copies of customData, kamino restore and kamino doctor (pages of these).
	Rules, People []object
}

var facts = func() (k knowledge) {
	if err := json.Unmarshal(factsFile, &k); err != nil {
		panic(err) // the file is part of the program
	}
	return k
}()

// Report is the result: how often each sentence was tested, a line for each broken test, and the numbers of objects and requests.
type Report struct {
	Tests   [9]int
	Broken  [9][]string
	Counted string
}

// Print writes the report. The error says that a sentence is broken.
func (r *Report) Print(out io.Writer) error {
	all, broken := "", 0
	for i, sentence := range facts.Sentences {
		all += fmt.Sprintf("%9s  %d  %s (%d tests)\n", map[bool]string{true: "ok", false: "BROKEN"}[r.Broken[i] == nil], i+1, sentence, r.Tests[i])
		for _, line := range r.Broken[i] {
			all += "              " + line + "\n"
			broken++
		}
	}
	if _, err := fmt.Fprintf(out, "%s           %s\n", all, r.Counted); err != nil || broken == 0 {
		return err
	}
	return fmt.Errorf("the logs break Kamino's promises %d times", broken)
}

// judge replays the logs.
type judge struct {
	logs
	Report
	limit      int // of reserved nodes
	azure      bool
	things     things
	nodes      map[string]object
	known      map[string]bool       // Nodes that were Ready, by UID; roles and accounts of the engine; proofs by UID of the Prototype
	prototypes map[string]*prototype // by UID
	holds      map[string]*hold      // by the Lease
	past       []*hold
	made       map[string]string // what Kamino created, until the deletion, with the request
	orders     map[string]object // specifications by UID
}

// prototype is a capture. ended is zero before the end.
type prototype struct {
	name, pool, instance string
	spec                 object
	ended                time.Time
}

// hold is a reservation: a Lease with the label kamino.dev/holder.
type hold struct {
	node, instance, holder, pool, set, guard string
	began, cordoned, gone, replaced          time.Time
	limit                                    time.Duration
	before                                   map[string]string // former values of fields that Kamino changed
}

// Run checks the logs in the directory of a stopped sandbox. limit is how many nodes may be reserved at once if no policy allows
// more. An error says that the logs are incomplete.
func Run(dir string, limit int) (*Report, error) {
	var sandbox struct{ Cloud string }
	raw, err := os.ReadFile(filepath.Join(dir, "sandbox.json"))
	l, incomplete := readLogs(dir)
	if err = errors.Join(err, json.Unmarshal(raw, &sandbox), incomplete); err != nil {
		return nil, err
	}
	j := &judge{
		logs: l, limit: limit, azure: sandbox.Cloud != "aws", things: things{}, nodes: map[string]object{}, known: map[string]bool{}, prototypes: map[string]*prototype{},
		holds: map[string]*hold{}, made: map[string]string{}, orders: map[string]object{},
	}
	for _, e := range l.events {
		kamino := slices.ContainsFunc([]string{"kamino/", "kamino ", "kamino-generalize"}, func(agent string) bool { return strings.HasPrefix(e.agent, agent) }) || j.known[e.user] ||
			strings.HasPrefix(e.agent, "aws-sdk-go-v2/") && !strings.Contains(e.agent, " app/") && !strings.Contains(e.agent, "cluster.x-k8s.io")
		if e.method == "" {
			j.request(e, kamino)
		} else {
			j.call(e, kamino)
		}
	}
	j.end(event{at: l.events[len(l.events)-1].at, line: "at the end of the logs"})
	j.Counted = fmt.Sprintf("%d captures, %d reservations, %d nodes, %d resources of the cloud, %d events of the API server, %d requests to the cloud",
		len(j.prototypes), len(j.past)+len(j.holds), len(j.nodes), len(j.things), l.audited, l.called)
	return &j.Report, nil
}

// expect counts a test of a sentence, and keeps a broken one.
func (j *judge) expect(sentence int, kept bool, e event, format string, args ...any) {
	if j.Tests[sentence-1]++; !kept {
		j.Broken[sentence-1] = append(j.Broken[sentence-1], fmt.Sprintf(format, args...)+": "+e.line)
	}
}

// request judges a request to the API server.
func (j *judge) request(e event, kamino bool) {
	key, uid := e.namespace+"/"+e.resource+"/"+e.name, text(e.out, "metadata", "uid")
	if kamino && e.resource != "" {
		j.expect(8, permitted(e), e, "no published role allows the request")
	}
	if !slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.verb) {
		return
	}
	if slices.Contains([]string{"nodes", "prototypes", "leases"}, e.resource) {
		j.expect(9, j.named(e, kamino), e, "the threat page names no such writer")
	}
	if created := slices.Contains([]string{"pods", "orders", "secrets", "jobs", "leases"}, e.resource+e.sub) && e.verb == "create"; created && kamino {
		j.made[key] = e.line
	}
	maps.DeleteFunc(j.made, func(k, _ string) bool {
		return e.verb == "delete" && k == key || e.verb == "deletecollection" && strings.HasPrefix(k, key)
	})
	j.replay(e, key, uid, kamino)
}

// replay keeps what a write says about the objects that the sentences are about.
func (j *judge) replay(e event, key, uid string, kamino bool) {
	switch {
	case e.resource == "nodes":
		j.node(e, kamino)
	case e.resource == "leases":
		j.lease(key, e)
	case e.resource == "prototypes":
		j.prototype(e, uid)
	case e.resource == "prototypepolicies":
		limit, _ := strconv.Atoi(text(e.out, "spec", "maxConcurrent"))
		j.limit = max(j.limit, limit)
	case e.resource == "orders" && e.sub == "":
		j.orders[uid] = part(e.out, "spec")
	case e.resource == "orders":
		j.report(j.orders[uid], text(e.out, "status", "report"), text(e.out, "status", "signature"))
	case text(e.out, "metadata", "labels", "app.kubernetes.io/name") == "kamino":
		j.role(e)
	}
}

func (j *judge) prototype(e event, uid string) {
	spec, phase := part(e.out, "spec"), text(e.out, "status", "phase")
	p := &prototype{name: e.name, spec: spec, pool: strings.ToLower(cmp.Or(text(spec, "poolID"), text(spec, "pool"))), instance: instanceID(text(spec, "donor", "providerID"))}
	deleted := (e.verb == "delete" || text(e.out, "metadata", "deletionTimestamp") != "") && len(items(e.out, "metadata", "finalizers")) == 0
	if phase == "Succeeded" || phase == "Failed" || deleted {
		p.ended = e.at
	}
	if spec != nil {
		j.prototypes[uid] = p
	}
}

// report keeps the proof in a report that the Order's key has signed.
func (j *judge) report(order object, report, signature string) {
	key, _ := base64.StdEncoding.DecodeString(text(order, "key"))
	sum, _ := base64.StdEncoding.DecodeString(signature)
	var signed struct{ Proof object }
	if len(key) == ed25519.PublicKeySize && ed25519.Verify(key, []byte("kamino.dev/v1alpha1 report\n"+report), sum) && json.Unmarshal([]byte(report), &signed) == nil {
		p := signed.Proof
		if text(p, "uid") == text(order, "holder", "uid") && text(p, "rules") == text(p, "met") && text(p, "search", "findings") == "0" {
			j.known[text(p, "uid")+" "+text(p, "profile")+"/"+text(p, "profileVersion")+"/"+text(p, "manifestDigest")] = true
		}
	}
}

// role keeps the accounts with the engine's role: it may write the status of Prototypes.
func (j *judge) role(e event) {
	for _, r := range items(e.out, "rules") {
		j.known[e.name] = j.known[e.name] || has(r, "resources", "prototypes/status") && has(r, "verbs", "update")
	}
	for _, s := range items(e.out, "subjects") {
		j.known["system:serviceaccount:"+text(s, "namespace")+":"+text(s, "name")] = j.known[text(e.out, "roleRef", "name")]
	}
}

func has(rule any, field, value string) bool {
	return slices.ContainsFunc(items(rule, field), func(v any) bool { return v == "*" || v == value })
}

// permitted: a published role allows the request. Every account may ask for its own rights. Rights in a namespace are for all
// namespaces of Kamino.
func permitted(e event) bool {
	return strings.HasPrefix(e.resource, "selfsubject") || slices.ContainsFunc(slices.Concat(facts.Rules, facts.People), func(r object) bool {
		return has(r, "verbs", e.verb) && has(r, "apiGroups", e.group) && has(r, "resources", strings.Trim(e.resource+"/"+e.sub, "/")) &&
			(r["resourceNames"] == nil || has(r, "resourceNames", e.name)) && (r["namespaced"] == nil || strings.Contains(e.namespace, "kamino"))
	})
}

// named: the threat page names the account as a writer of the object.
func (j *judge) named(e event, kamino bool) bool {
	node, kubelet := strings.CutPrefix(e.user, "system:node:")
	controlPlane := strings.HasPrefix(e.user, "system:serviceaccount:kube-system:") || strings.HasPrefix(e.user, "system:kube-") || e.user == "system:apiserver"
	return kamino || slices.Contains(e.groups, any("system:masters")) || e.resource != "prototypes" && (controlPlane || kubelet && node == e.name)
}

// node replays a write of a Node.
func (j *judge) node(e event, kamino bool) {
	before, after, held := j.nodes[e.name], e.out, j.held(func(h *hold) bool { return h.node == e.name })
	if e.verb == "delete" {
		j.expect(1, !kamino || held != nil || before == nil || j.trial(instanceOf(before)), e, "Kamino deleted a Node that is no donor")
		delete(j.nodes, e.name)
		if held != nil {
			j.serves(held, e)
			held.gone = e.at
		}
	}
	if e.verb == "delete" || text(after, "kind") != "Node" {
		return
	}
	j.nodes[e.name] = after
	if uid := text(after, "metadata", "uid"); isReady(after) && !j.known[uid] {
		j.known[uid] = true
		for _, h := range slices.Concat(j.past, slices.Collect(maps.Values(j.holds))) {
			h.replaced = cmp.Or(h.replaced, map[bool]time.Time{true: e.at}[h.set == j.poolOf(after)])
		}
	}
	was, is := fields(before), fields(after)
	for field := range is {
		if was[field] != is[field] {
			j.changed(e, kamino, held, field, was[field], is[field])
		}
	}
	for field := range was {
		if _, stays := is[field]; !stays {
			j.changed(e, kamino, held, field, was[field], "")
		}
	}
}

// changed judges the change of a field of a Node.
func (j *judge) changed(e event, kamino bool, held *hold, field, was, is string) {
	own, cordon := strings.Contains(field, "/kamino.dev/"), field == "spec/unschedulable"
	mark := j.trial(instanceOf(e.out)) && (cordon || field == "labels/node.kubernetes.io/exclude-from-external-load-balancers") || j.carried(field)
	j.expect(9, !kamino || own || mark || held != nil && (cordon || strings.HasPrefix(field, "annotations/")), e, "Kamino changed %s of a Node", field)
	if held == nil || own {
		return
	}
	if former, touched := held.before[field]; !kamino || touched && former == is {
		delete(held.before, field) // the value of another account counts
	} else if !touched {
		held.before[field] = was
	}
	if cordon && was == "true" {
		j.serves(held, e)
	} else if cordon && kamino {
		held.cordoned = e.at
		j.expect(6, j.hasReady(j.poolOf(e.out), e.name), e, "no other node of pool %s is Ready", j.poolOf(e.out))
	}
}

// carried: a capture may copy the label, or taints, to the replacement of its donor.
func (j *judge) carried(field string) bool {
	for _, p := range j.prototypes {
		carry := part(p.spec, "settings", "donor", "carryOver")
		if slices.Contains(items(carry, "labels"), any(strings.TrimPrefix(field, "labels/"))) || field == "spec/taints" && items(carry, "taints") != nil {
			return true
		}
	}
	return false
}

func (j *judge) hasReady(pool, except string) bool {
	for name, n := range j.nodes {
		if name != except && isReady(n) && j.poolOf(n) == pool {
			return true
		}
	}
	return false
}

// serves judges the time out of service.
func (j *judge) serves(h *hold, e event) {
	if took := e.at.Sub(h.cordoned); !h.cordoned.IsZero() && h.limit > 0 {
		j.expect(4, took <= h.limit, e, "node %s was out of service for %s, longer than %s", h.node, took, h.limit)
	}
	h.cordoned = time.Time{}
}

// fields are the labels, the annotations, the cordon and the taints of a Node, without the taints of the control plane.
func fields(n object) map[string]string {
	taints := slices.DeleteFunc(slices.Clone(items(n, "spec", "taints")), func(t any) bool { return strings.HasPrefix(text(t, "key"), "node.kubernetes.io/") })
	out := map[string]string{"spec/unschedulable": text(n, "spec", "unschedulable"), "spec/taints": fmt.Sprint(taints)}
	for _, kind := range []string{"labels", "annotations"} {
		for key, value := range part(n, "metadata", kind) {
			out[kind+"/"+key] = text(value)
		}
	}
	return out
}

func isReady(n object) bool {
	return slices.ContainsFunc(items(n, "status", "conditions"), func(c any) bool { return text(c, "type") == "Ready" && text(c, "status") == "True" })
}

// instanceOf is the ID of a Node's instance in the cloud.
func instanceOf(n object) string { return instanceID(text(n, "spec", "providerID")) }

func instanceID(provider string) string {
	if id, azure := strings.CutPrefix(strings.ToLower(provider), "azure://"); azure {
		return id
	}
	return provider[strings.LastIndex(provider, "/")+1:]
}

// poolOf is the pool of a Node: of its instance, or the set of machines of Cluster API.
func (j *judge) poolOf(n object) string {
	owner := text(n, "metadata", "annotations", "cluster.x-k8s.io/owner-name")
	_, set := azureKind(instanceOf(n))
	return cmp.Or(j.thing(instanceOf(n)).pool, set, owner[:max(strings.LastIndex(owner, "-"), 0)])
}

func (j *judge) held(is func(*hold) bool) *hold {
	for _, h := range j.holds {
		if is(h) {
			return h
		}
	}
	return nil
}

// lease judges a new reservation, and a node at the end of its reservation.
func (j *judge) lease(key string, e event) {
	h, holder, node := j.holds[key], text(e.out, "metadata", "labels", "kamino.dev/holder"), text(e.out, "metadata", "annotations", "kamino.dev/node")
	if e.verb == "delete" && h != nil {
		delete(j.holds, key)
		j.past = append(j.past, h)
		_, stays := j.nodes[h.node]
		j.expect(4, !stays || len(h.before) == 0, e, "node %s is not as before: %v", h.node, h.before)
		t := j.thing(h.instance)
		j.expect(4, !stays || t.gone || t.guard == h.guard, e, "protection of node %s is %q, was %q", h.node, t.guard, h.guard)
	}
	if e.verb == "delete" || h != nil || holder == "" {
		return
	}
	h = &hold{node: node, holder: holder, instance: instanceOf(j.nodes[node]), set: j.poolOf(j.nodes[node]), began: e.at, before: map[string]string{}}
	h.guard = j.thing(h.instance).guard
	if p := j.prototypes[holder]; p != nil {
		h.pool = p.pool
		for _, field := range []string{"deadline", "readyTimeout"} {
			d, _ := time.ParseDuration(text(p.spec, "settings", "outOfService", field))
			h.limit += d
		}
		j.expect(3, j.held(func(other *hold) bool { return other.pool == h.pool }) == nil, e, "another capture holds a node of pool %s", h.pool)
	}
	j.holds[key] = h
	j.expect(3, len(j.holds) <= j.limit, e, "%d nodes are reserved, the limit is %d", len(j.holds), j.limit)
}

// call judges a request to the cloud.
func (j *judge) call(e event, kamino bool) {
	see, effects, right := j.things.awsSees, j.things.awsEffects(e), strings.Replace(e.action(), "/", ":", 1)
	if j.azure {
		see, effects, right = j.things.azureSees, azureEffects(e), azureRight(e)
	}
	if kamino && right != "" {
		j.expect(8, slices.ContainsFunc(facts.Published, func(p string) bool { return strings.EqualFold(p, right) }), e, "no published policy allows %s", right)
	}
	for _, f := range effects {
		t := j.thing(f.id)
		if f.id == "" {
			continue
		}
		if kamino {
			j.effect(e, f, t)
		}
		switch f.what {
		case "end", "delete":
			for _, o := range j.things {
				o.gone = o.gone || o == t || o.pool == f.id
			}
		case "guard", "unguard":
			t.guard = strings.Split(t.guard, " ")[0] + map[bool]string{true: " Standby"}[f.what == "guard"]
		case "tag":
			maps.Copy(t.tags, tagsOf(e.in, "Tag", "Key", "Value"))
		case "untag":
			for name := range tagsOf(e.in, "Tag", "Key", "Value") {
				delete(t.tags, name)
			}
		}
	}
	see(e, kamino)
}

// azureRight is the action of a request to Azure; empty for a poll, which needs no right.
func azureRight(e event) string {
	path := strings.Split(e.path[max(strings.LastIndex(e.path, "providers/"), 0):], "/")
	if path[0] != "providers" || slices.Contains(path, "operations") {
		return ""
	}
	right := path[1]
	for i := 2; i < len(path); i += 2 {
		right += "/" + path[i]
	}
	return right + "/" + map[string]string{"GET": "read", "HEAD": "read", "PUT": "write", "PATCH": "write", "DELETE": "delete", "POST": "action"}[e.method]
}

// thing is a resource of the cloud, perhaps unknown.
func (j *judge) thing(id string) *thing {
	if t := j.things[id]; t != nil {
		return t
	}
	return &thing{id: id, tags: map[string]string{}}
}

// trial: the instance, or the set, is of a trial.
func (j *judge) trial(id string) bool {
	return strings.Contains(id, "/virtualmachinescalesets/kamino-trial-") || j.thing(id).tags["kamino-trial-name"] != ""
}

// donor: a reservation holds the instance, or a capture that has not ended names it.
func (j *judge) donor(id string) bool {
	named := slices.ContainsFunc(slices.Collect(maps.Values(j.prototypes)), func(p *prototype) bool { return p.instance == id && p.ended.IsZero() })
	return named || j.held(func(h *hold) bool { return h.instance == id }) != nil
}

// effect judges what Kamino asked the cloud for.
func (j *judge) effect(e event, f effect, t *thing) {
	uid, trial := t.tags["kamino-uid"], j.trial(f.id)
	switch f.what {
	case "stop", "rebuild", "end":
		j.expect(1, j.donor(f.id) || trial, e, "%s of %s, which is no donor", f.what, f.id)
	case "resize":
		was, _ := strconv.Atoi(t.size)
		now, wrong := strconv.Atoi(f.value)
		j.expect(1, now >= was || wrong != nil, e, "pool %s shrinks from %d to %d", f.id, was, now)
	case "delete", "tag", "untag":
		j.expect(5, t.own || j.prototypes[uid] != nil || trial, e, "%s is not Kamino's", f.id)
		j.expect(7, t.kind != "image" || f.what != "delete" || !j.needed(t), e, "a rollback needs %s", f.id)
	case "recipe":
		j.recipe(e, t, f.value)
	}
}

// recipe judges the image that a pool gets.
func (j *judge) recipe(e event, pool *thing, id string) {
	image := j.thing(id)
	switch uid, proof, bad := image.tags["kamino-uid"], image.tags["kamino-proof"], image.tags["kamino-quarantined"]; {
	case id == "" || j.trial(pool.id):
	case uid == "" && image.tags["BuiltFrom"] == "":
		j.expect(2, slices.Contains(pool.images, id), e, "the recipe gets %s, which neither a capture made nor the recipe named before", id)
	default:
		j.expect(1, pool.rolling == "", e, "pool %s gives the recipe to running nodes: %s", pool.id, pool.rolling)
		j.expect(2, j.known[uid+" "+proof], e, "no signed report proves %s, tag %q", id, proof)
		j.expect(2, image.complete && !image.gone, e, "%s is incomplete", id)
		j.expect(2, bad == "", e, "%s is quarantined: %s", id, bad)
	}
}

// needed: a recipe names the image, or the image is the newest usable one before the recipe's.
func (j *judge) needed(image *thing) bool {
	for _, pool := range j.things {
		current, newest := j.thing(pool.image()), ""
		family, now := version(current)
		for _, other := range j.things {
			usable := other.complete && !other.gone && other.tags["kamino-quarantined"] == "" && other.tags["kamino-suspect"] == "" && other.tags["kamino-proof"] != ""
			if f, v := version(other); other.kind == "image" && f == family && v < now && usable {
				newest = max(newest, v)
			}
		}
		f, v := version(image)
		if pool.kind == "set" && pool.image() != "" && f == family && (v == now || v == newest) {
			return true
		}
	}
	return false
}

// version of an image, and the family of images.
func version(t *thing) (family, version string) {
	cut := strings.LastIndex(t.id, "/") + 1
	return cmp.Or(t.tags["kamino-family"], t.id[:cut]), cmp.Or(t.tags["kamino-version"], t.id[cut:])
}

// end judges what is left.
func (j *judge) end(last event) {
	open := slices.ContainsFunc(slices.Collect(maps.Values(j.prototypes)), func(p *prototype) bool { return p.ended.IsZero() })
	for uid, p := range j.prototypes {
		if !p.ended.IsZero() {
			left := j.left(uid, strings.ReplaceAll(p.name, ".", "-"), open)
			j.expect(5, len(left) == 0, last, "capture %s has ended, and left %s", p.name, strings.Join(left, ", "))
		}
	}
	for _, h := range slices.Concat(j.past, slices.Collect(maps.Values(j.holds))) {
		j.serves(h, last)
		p, by := j.prototypes[h.holder], cmp.Or(h.replaced, last.at)
		if p != nil && !h.gone.IsZero() && text(p.spec, "pioneer", "node") != "Grow" {
			j.expect(4, by.Sub(h.gone) <= h.limit, last, "no new node replaced %s in pool %s within %s", h.node, h.pool, h.limit)
		}
	}
}

// left is what belongs to a capture. Pods of trials have no name of a capture: they are left when no capture is open.
func (j *judge) left(uid, name string, open bool) (all []string) {
	for _, t := range j.things {
		storage := t.kind == "snapshot" && t.backs != "" && !j.thing(t.backs).gone
		if t.tags["kamino-uid"] == uid && !t.gone && !storage && (t.kind != "image" || !t.complete) {
			all = append(all, t.id)
		}
	}
	for key, line := range j.made {
		key = strings.ReplaceAll(key, ".", "-")
		if strings.Contains(key, name) && !strings.HasSuffix(key, "-recipe") || strings.Contains(key, "/trial-") && !open {
			all = append(all, line)
		}
	}
	if h := j.held(func(h *hold) bool { return h.holder == uid }); h != nil {
		all = append(all, "the reservation of "+h.node)
	}
	slices.Sort(all)
	return all
}
