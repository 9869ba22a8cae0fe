package judge

import (
	"cmp"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Sentences about requests to the API server.

// request judges a request to the API server.
func (j *judge) request(e event, kamino bool) {
	key, uid := e.namespace+"/"+e.resource+"/"+e.name, text(e.out, "metadata", "uid")
	if kamino && e.resource != "" {
		j.known[key] = j.known[key] || e.verb == "create"
		j.expect(8, j.permitted(e), e, "no published role allows the request")
	}
	if !slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, e.verb) && e.code != 404 {
		return
	}
	if e.code != 0 {
		if e = j.certain(e, key, kamino); e.code != 0 {
			return
		}
		kamino = true
	}
	if slices.Contains([]string{"nodes", "prototypes", "leases"}, e.resource) {
		j.expect(9, j.named(e, kamino), e, "the threat page names no such writer")
	}
	j.sizes(e, key, kamino)
	created := e.verb == "create" && strings.Contains(" pods nodeorders secrets jobs leases machines nodeclaims ec2nodeclasses ", " "+e.resource+e.sub+" ")
	if created && kamino {
		j.made[key] = e.line
	}
	maps.DeleteFunc(j.made, func(k, _ string) bool {
		return e.verb == "delete" && k == key || e.verb == "deletecollection" && strings.HasPrefix(k, key)
	})
	j.replay(e, key, uid, kamino)
}

// sizes judges the number of machines of a pool of Cluster API or Karpenter. Only a Machine or NodeClaim that Kamino has created is deleted.
func (j *judge) sizes(e event, key string, kamino bool) {
	if !strings.HasPrefix(e.resource, "machine") && e.resource != "nodeclaims" || e.sub == "status" {
		return
	}
	was, size := j.thing(key).size, text(e.out, "spec", "replicas")
	if kamino && !j.known[key] {
		j.expect(1, !strings.HasPrefix(e.verb, "delete"), e, "Kamino deleted %s", key)
		j.expect(1, size == was || !asks(e, "spec/replicas"), e, "the size of %s was %q, and is %q", key, was, size)
	}
	if size != "" {
		j.things.get("set", key).size = size
	}
}

// certain keeps a write without an answer, and returns a kept deletion once its object is not found.
func (j *judge) certain(e event, key string, kamino bool) event {
	if e.code != 404 && kamino {
		j.open[key] = append(j.open[key], e)
	}
	for _, o := range j.open[key] {
		if e.code == 404 && o.verb == "delete" {
			e, e.code = o, 0
		}
	}
	return e
}

// replay keeps what a write says about the objects that the sentences are about.
func (j *judge) replay(e event, key, uid string, kamino bool) {
	switch {
	case e.resource == "nodes":
		j.node(e, kamino)
	case e.resource == "leases":
		j.lease(key, e)
	case slices.Contains([]string{"machines", "nodeclaims"}, e.resource) && instanceOf(e.out)+text(e.out, "status", "providerID") != "":
		m := j.things.get("instance", instanceID(text(e.out, "spec", "providerID")+text(e.out, "status", "providerID")))
		if j.known[key] { // of a trial, with the instance that a controller makes for it
			m.tags["kamino-trial-name"] = e.name
		} else {
			m.pool = cmp.Or(text(e.out, "metadata", "labels", "cluster.x-k8s.io/deployment-name"), text(e.out, "spec", "nodeClassRef", "name"), m.pool)
		}
	case e.verb != "delete" && (strings.HasPrefix(e.group, "infrastructure.") || e.resource == "machinedeployments" || e.resource == "ec2nodeclasses"):
		j.clusterRecipe(e, key, kamino)
	case e.resource == "prototypes":
		j.prototype(e, uid)
	case e.resource == "prototypepolicies":
		limit, _ := strconv.Atoi(text(e.out, "spec", "maxConcurrent"))
		j.limit = max(j.limit, limit)
	case e.resource == "nodeorders" && e.sub == "":
		j.orders[uid] = part(e.out, "spec")
	case e.resource == "nodeorders":
		j.proof(j.orders[uid], text(e.out, "status", "report"), text(e.out, "status", "signature"))
	case text(e.out, "metadata", "labels", "app.kubernetes.io/name") == "kamino":
		j.role(e)
	}
}

// clusterRecipe replays the recipe of a pool of Cluster API or Karpenter: the image of its machines, or the template that the pool names.
func (j *judge) clusterRecipe(e event, key string, kamino bool) {
	pool, machine := j.things.get("set", key), part(e.out, "spec", "awsLaunchTemplate")
	if ref := part(e.out, "spec", "template", "spec", "infrastructureRef"); ref != nil {
		template := e.namespace + "/" + text(ref, "kind") + "s/" + text(ref, "name")
		machine = object{"ami": object{"id": j.thing(strings.ToLower(template)).image()}}
	} else if strings.HasSuffix(e.resource, "templates") {
		pool.kind, machine = "template", part(e.out, "spec", "template", "spec")
	} else if machine == nil {
		machine = part(e.out, "spec", "template")
	}
	terms := append(map[bool][]any{false: items(e.out, "spec", "amiSelectorTerms")}[j.known[key]], nil) // a class of Kamino is for a trial
	image := cmp.Or(text(machine, "ami", "id"), text(terms[0], "id"), strings.ToLower(text(machine, "image", "id")))
	if g := part(machine, "image", "computeGallery"); g["subscriptionID"] != nil {
		where := "/subscriptions/" + text(g, "subscriptionID") + "/resourceGroups/" + text(g, "resourceGroup") + "/providers/Microsoft.Compute/galleries/"
		image = strings.ToLower(where + text(g, "gallery") + "/images/" + text(g, "name") + "/versions/" + text(g, "version"))
	}
	if kamino && pool.kind == "set" && image != pool.image() {
		j.recipe(e, pool, image)
	}
	pool.names(image)
}

func (j *judge) prototype(e event, uid string) {
	spec, phase := part(e.out, "spec"), text(e.out, "status", "phase")
	p := &prototype{name: e.name, spec: spec, pool: strings.ToLower(cmp.Or(text(spec, "poolID"), text(spec, "pool"))),
		instance: instanceID(text(spec, "donor", "providerID"))}
	deleted := (e.verb == "delete" || text(e.out, "metadata", "deletionTimestamp") != "") && len(items(e.out, "metadata", "finalizers")) == 0
	if phase == "Succeeded" || phase == "Failed" || deleted {
		p.ended = e.at
	}
	if spec != nil {
		j.prototypes[uid] = p
	}
}

// proof keeps the proof in a report that the NodeOrder's key has signed.
func (j *judge) proof(order object, report, signature string) {
	key, _ := base64.StdEncoding.DecodeString(text(order, "key"))
	sum, _ := base64.StdEncoding.DecodeString(signature)
	var signed struct{ Proof object }
	isSigned := len(key) == ed25519.PublicKeySize && ed25519.Verify(key, []byte("kamino.dev/v1alpha1 report\n"+report), sum)
	if isSigned && json.Unmarshal([]byte(report), &signed) == nil {
		p := signed.Proof
		if text(p, "uid") == text(order, "holder", "uid") && text(p, "rules") == text(p, "met") && text(p, "search", "findings") == "0" {
			j.known[text(p, "uid")+" "+text(p, "profile")+"/"+text(p, "profileVersion")+"/"+text(p, "manifestDigest")] = true
		}
	}
}

// role keeps the accounts with the engine's role: it may write the status of Prototypes.
func (j *judge) role(e event) {
	for _, r := range items(e.out, "rules") {
		j.known["in "+e.namespace] = e.namespace != ""
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
// namespaces of Kamino: by the name, or because a published role is there.
func (j *judge) permitted(e event) bool {
	return strings.HasPrefix(e.resource, "selfsubject") || slices.ContainsFunc(slices.Concat(facts.Rules, facts.Management, facts.People), func(r object) bool {
		return has(r, "verbs", e.verb) && has(r, "apiGroups", e.group) && has(r, "resources", strings.Trim(e.resource+"/"+e.sub, "/")) &&
			(r["resourceNames"] == nil || has(r, "resourceNames", e.name)) &&
			(r["namespaced"] == nil || strings.Contains(e.namespace, "kamino") || j.known["in "+e.namespace])
	})
}

// named: the threat page names the account as a writer of the object.
func (j *judge) named(e event, kamino bool) bool {
	node, kubelet := strings.CutPrefix(e.user, "system:node:")
	controlPlane := strings.HasPrefix(e.user, "system:serviceaccount:kube-system:") || strings.HasPrefix(e.user, "system:kube-") || e.user == "system:apiserver"
	return kamino || j.known[e.user] || slices.Contains(e.groups, any("system:masters")) ||
		e.resource != "prototypes" && (controlPlane || kubelet && node == e.name)
}

// node replays a write of a Node.
func (j *judge) node(e event, kamino bool) {
	before, after, held := j.nodes[e.name], e.out, j.held(func(h *hold) bool { return h.node == e.name })
	if e.verb == "delete" {
		j.expect(1, !kamino || before == nil || j.trialNode(before), e, "Kamino deleted the Node of a pool")
		delete(j.nodes, e.name)
		if held != nil {
			j.serves(held, e)
		}
	}
	if e.verb == "delete" || text(after, "kind") != "Node" {
		return
	}
	j.nodes[e.name] = after
	was, is := fields(before), fields(after)
	all := maps.Clone(was)
	maps.Copy(all, is)
	for field := range all {
		_, had := was[field]
		if _, stays := is[field]; had && !stays || was[field] != is[field] {
			j.changed(e, kamino, held, field, was[field], is[field])
		}
	}
}

// asked: the request is about the field, or the effect of an earlier request of Kamino without an answer shows only now.
func (j *judge) asked(e event, kamino bool, field string) bool {
	if asks(e, field) {
		return kamino
	}
	return slices.ContainsFunc(j.open["/nodes/"+e.name], func(o event) bool { return asks(o, field) })
}

// asks: the request is about the field. The answer to a patch also has what other clients changed meanwhile.
func asks(e event, field string) bool {
	kind, key, _ := strings.Cut(field, "/")
	_, spec := part(e.in, kind)[key]
	_, metadata := part(e.in, "metadata", kind)[key]
	return spec || metadata || e.verb != "patch" || e.in == nil
}

// trialNode: the Node is of a trial, by its instance, or by its host name before a provider has set the instance.
func (j *judge) trialNode(n object) bool {
	name := text(n, "metadata", "name")
	return j.trial(instanceOf(n)) || j.things["hosts "+name[:max(len(name)-6, 0)]] != nil // six digits follow on Azure
}

// changed judges the change of a field of a Node.
func (j *judge) changed(e event, kamino bool, held *hold, field, was, is string) {
	kamino, own, cordon := j.asked(e, kamino, field), strings.Contains(field, "/kamino.dev/"), field == "spec/unschedulable"
	j.expect(9, !kamino || own || j.mayChange(e, held, field), e, "Kamino changed %s of a Node", field)
	if held == nil || own {
		return
	}
	p := j.prototypes[held.holder]
	j.expect(1, !kamino || p == nil || !p.copies() || part(p.spec, "pioneer") != nil, e, "Kamino changed %s of a node that is copied", field)
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

// mayChange: the page of security lists the field, for a reserved node, or the Node of a trial.
func (j *judge) mayChange(e event, held *hold, field string) bool {
	cordon := field == "spec/unschedulable"
	return held != nil && (cordon || strings.HasPrefix(field, "annotations/")) ||
		j.trialNode(e.out) && (cordon || field == "labels/node.kubernetes.io/exclude-from-external-load-balancers")
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

// instanceOf is the ID of the instance of a Node or Machine in the cloud.
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
		j.past++
		_, stays := j.nodes[h.node]
		j.expect(4, !stays || len(h.before) == 0, e, "node %s is not as before: %v", h.node, h.before)
		t := j.thing(h.instance)
		j.expect(4, !stays || t.gone || t.guard == h.guard, e, "protection of node %s is %q, was %q", h.node, t.guard, h.guard)
	}
	if e.verb == "delete" || h != nil || holder == "" {
		return
	}
	h = &hold{node: node, holder: holder, instance: instanceOf(j.nodes[node]), before: map[string]string{}}
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
