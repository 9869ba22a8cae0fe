package admission

import "testing"

// sentences are the whole messages of all problems. A change affects capture, plan, doctor and the policies.
var sentences = map[string]string{
	"yesterday's version":              "version 2026.03.11 is not of today (2026.03.14): remove the version, or name the version of today",
	"no version":                       "version tomorrow is not of today (2026.03.14): remove the version, or name the version of today",
	"a clock behind":                   "the clock of this process is 6m0s behind the clock of the API server: correct the clock, then try again",
	"left alone":                       "prototype pool1-2026.03.14 was created 26h0m0s ago and never started: delete the prototype and start a new capture",
	"a profile whose donors stay away": "a capture of node donor in place would delete the credential with which it joins (profile bootstrap): omit settings.donor.method in a policy, or set Copy in a Prototype",
	"a cloud that powers off no nodes": "settings.donor.method is InPlace, but Kamino does not power off nodes in the cloud of node donor: omit settings.donor.method in a policy, or set Copy in a Prototype",
	"a setting of another cloud":       "settings.azure is a setting of another cloud, not of the cloud of node donor: remove settings.azure",
	"no image":                         "no image for the generalize pod: this build of Kamino is not published; build an image (podman build --target kamino-node -t REGISTRY/kamino-node:TAG .) and push the image. Then name the image with `kamino capture --image`, KAMINO_IMAGE or settings.generalize.image",
	"an image of theirs":               "settings.generalize.image is evil:v1 and would run as root on node donor, but only Kamino's own image (kamino:v1) and --allowed-images are allowed: remove the setting, or start Kamino with --allowed-images",
	"captured today":                   "pool pool1 was already captured as version 2026.03.14 by prototype other: the default is one version per day: try again tomorrow (UTC), or set --version 2026.03.1402",
	"in flight":                        "prototype other is capturing pool pool1: wait for the end of the capture, or delete the prototype",
	"no such node":                     "node donor not found: run `kubectl get nodes` to list nodes",
	"another instance":                 "node donor is now instance memory:///new, not memory:///donor as at the decision: decide again",
	"gone meanwhile":                   "node donor no longer exists: run `kubectl get nodes` to list nodes",
	"of no pool":                       "node donor belongs to no supported pool: it is alone; choose another node",
	"of another pool":                  "node donor is in pool pool2 (memory:///pool2), but spec.poolID is memory:///pool1: name the pool of the node",
	"of another name":                  "node donor is in pool blue, not in pool1: name the pool of the node",
	"not Ready":                        "node donor is not Ready: choose another node, or repair the node first",
	"no peer":                          "node donor is the only Ready and schedulable node of pool pool1; evicted pods would have no other node: grow the pool by one first",
	"bare pods":                        "node donor cannot be drained: a; b; delete these pods, or use force to lose the pods",
	"protected pods":                   "pods of node donor must not be evicted: a, b; choose another node, wait until these pods have ended, or allow the eviction with settings.drain.disrupt: true",
	"a donor ahead":                    "the clock of node donor is 6m0s ahead of the API server's, so a proof from the node would be invalid: synchronize the clock, for example with chrony, or capture another node",
	"a donor behind":                   "the clock of node donor is 7m0s behind the API server's, so a proof from the node would be invalid: synchronize the clock, for example with chrony, or capture another node",
	"a bad ancestor":                   "node donor was built from the quarantined version 2026.03.01 (panics): choose a node of another version, or lift the quarantine with `kamino unquarantine pool1 2026.03.01`",
	"no account":                       "service account kamino-generalize not found in namespace ours; the generalize pod needs the account: kamino manifests | kubectl apply -f -",
	"no right":                         "service account ours/kamino-generalize of the generalize pod may not get nodeorders in its namespace, so the pod could not report: restore the role with `kamino manifests | kubectl apply -f -`, or with helm upgrade",
	"no orders":                        "the API server rejects NodeOrders for the generalize pod in namespace ours: no such kind. Install the manifests of this Kamino version; kamino manifests | kubectl apply -f -",
	"no entry":                         "the API server rejects the generalize pod in namespace ours: restricted; fix the named cause; for Pod Security, label the namespace pod-security.kubernetes.io/enforce=privileged, or set another namespace with --generalize-namespace",
	"no rules":                         "ConfigMap ours/ours of settings.generalize.rules not found: create the ConfigMap, or remove the setting",
	"wrong rules":                      "the rules in ConfigMap ours/ours are invalid: line 1; run `kamino-node generalize --list --profile-file` on the same files",
	"no copy":                          "there is no Secret: create it, or remove the setting",
	"no copy, but another Secret":      "it could be any Secret: label it, or remove the setting",
	"kured on the node of a pioneer":   "DaemonSet kube-system/kured also reboots node donor: keep the DaemonSet off the pool, or allow other rebooters with pioneer.otherRebooters: Allow",
	"no force":                         "settings.drain.force is set, but Kamino may not delete pods: grant the permission with rbac.force=true (kamino manifests --force), or remove force",
	"no instance":                      "the cloud has no instance for node donor: : NotFound: gone; choose another node",
	"no cloud of its":                  "the cloud has no instance for node donor: : Unsupported: theirs; choose another node",
	"the cloud refuses":                "the quota is used up: ask for more",
	"the pool refuses":                 "the pool rolls: hold it",
	"a newer recipe":                   "the recipe of pool pool1 names version 2026.03.1402, newer than 2026.03.14: the default is one version per day: try again tomorrow (UTC), or set --version 2026.03.1403",
	"too many images":                  "the nodes and the recipe of pool pool1 have 9 different images; the pool cannot grow with more than 10 images. The oldest image is image a, on oldest: rebuild these nodes with `kamino rebuild pool1`, or delete the nodes; with Cluster API, delete the Machines",
}

// TestARollbackIsARemedyOnlyForAVersionOfALaterDay, or for the last version that a day can have.
func TestARollbackIsARemedyOnlyForAVersionOfALaterDay(t *testing.T) {
	for version, want := range map[string]string{
		"2026.03.1402": "the default is one version per day: try again tomorrow (UTC), or set --version 2026.03.1403",
		"2026.03.1499": "if the newer version is bad, roll back first",
		"2026.03.15":   "if the newer version is bad, roll back first",
	} {
		c := sound()
		pool, _ := c.Recipe.Get()
		pool.Recipe.Version = version
		c.Recipe = Found(pool)
		if got := c.Judge().Refusals[0].Remedy; got != want {
			t.Errorf("version %s: %q, want %q", version, got, want)
		}
	}
}

func TestSentences(t *testing.T) {
	for _, trouble := range maskings {
		c := sound()
		trouble.spoil(c)
		if got := c.Judge().Refusals[0].Message; got != sentences[trouble.name] {
			t.Errorf("%s: %s\nwant: %s", trouble.name, got, sentences[trouble.name])
		}
	}
	if len(sentences) != len(maskings) {
		t.Errorf("%d sentences for %d troubles", len(sentences), len(maskings))
	}
}
