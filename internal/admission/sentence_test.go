package admission

import "testing"

// sentences are what people are told of each trouble, whole. Whoever changes one changes what capture, plan, doctor and the
// policies say.
var sentences = map[string]string{
	"yesterday's version":              "version 2026.03.11 is not of the day of this decision (2026.03.14): leave the version out, or name today's",
	"no version":                       "version tomorrow is not of the day of this decision (2026.03.14): leave the version out, or name today's",
	"a clock behind":                   "this process's clock is 6m0s behind the API server's: set it right, then try again",
	"left alone":                       "prototype pool1-2026.03.14 was decided 26h0m0s ago and never begun: delete it and decide again",
	"a profile whose donors stay away": "profile bootstrap takes off the disk what node donor joins the cluster by, so that it cannot return: leave settings.donor.afterwards out, or use profile static if the pool's nodes share one credential",
	"a donor that nobody can remove":   "node donor does not return from its capture, and Kamino cannot remove instances in its cloud: capture with a profile whose donor returns, and without settings.donor.afterwards: Remove",
	"a setting of another cloud":       "settings.azure is for nodes of another cloud than that of node donor: leave settings.azure out",
	"no image":                         "no image is known for the generalize pod, because this build of Kamino was published nowhere: make one of it (podman build -t REGISTRY/kamino:TAG .), push it where the nodes can pull it or load it onto them, and name it with --image, KAMINO_IMAGE or settings.generalize.image",
	"an image of theirs":               "settings.generalize.image names evil:v1, which would run as root on node donor and is neither Kamino's own (kamino:v1) nor among those that Kamino was told to allow: leave it out, or start Kamino with --allowed-images",
	"captured today":                   "pool pool1 was captured as version 2026.03.14 already, by prototype other: a pool gets one version a day, so try again tomorrow (UTC), or name another one of that day, such as 2026.03.1402",
	"in flight":                        "prototype other is capturing pool pool1: wait until it is done, or delete it",
	"no such node":                     "there is no node donor: kubectl get nodes lists them",
	"another instance":                 "node donor is now instance memory:///new, not memory:///donor as it was decided: decide again",
	"gone meanwhile":                   "there is no node donor any more: kubectl get nodes lists them",
	"of no pool":                       "node donor belongs to no pool that can be captured: it is alone; choose another node",
	"of another pool":                  "node donor is of pool pool2 (memory:///pool2), and spec.poolID names memory:///pool1: name the pool that the node belongs to",
	"of another name":                  "node donor is of pool blue, not of pool1: name the pool that the node belongs to",
	"not Ready":                        "node donor is not Ready, and a node that does not work is no prototype: choose another, or mend it first",
	"no peer":                          "node donor is the only one of pool pool1 that is Ready and schedulable; taking it out would leave its pods nowhere to go: grow the pool by one first",
	"bare pods":                        "node donor cannot be drained: a; b; remove them, or use force to lose them",
	"protected pods":                   "pods of node donor ask not to be evicted: a, b; choose another node, wait until they have ended, or allow it with --disrupt (settings.drain.disrupt)",
	"a donor ahead":                    "the clock of node donor is 6m0s ahead of the API server's, so that a proof from it could not be believed: set it right, with chrony for instance, or capture another node",
	"a donor behind":                   "the clock of node donor is 7m0s behind the API server's, so that a proof from it could not be believed: set it right, with chrony for instance, or capture another node",
	"a bad ancestor":                   "node donor was built from version 2026.03.01, which is quarantined (panics): choose a node that was built from another version, or lift that with `kamino release pool1 2026.03.01`",
	"no account":                       "there is no service account kamino-generalize in namespace ours, which the generalize pod needs: kamino manifests | kubectl apply -f -",
	"no right":                         "service account ours/kamino-generalize, which the generalize pod runs as, may not get orders in its namespace, so that the pod could not report: give it its role again, by kamino manifests | kubectl apply -f -, or by helm upgrade",
	"no orders":                        "the API server takes no orders for the generalize pod in namespace ours: no such kind. Install what this version of Kamino needs; kamino manifests | kubectl apply -f -",
	"no entry":                         "the API server does not let the generalize pod into namespace ours: restricted; mend what it names; for Pod Security, label the namespace pod-security.kubernetes.io/enforce=privileged, or name another one with --generalize-namespace",
	"no rules":                         "there is no ConfigMap ours/ours, which settings.generalize.rules names: create it, or leave the setting out",
	"wrong rules":                      "the rules in ConfigMap ours/ours cannot be used: line 1; see `kamino generalize --list --profile-file` on the same files",
	"no copy":                          "there is no Secret: create it, or leave the setting out",
	"no copy, but another Secret":      "it could be any Secret: label it, or leave the setting out",
	"no force":                         "the drain is to be forced (settings.drain.force), and Kamino may not delete pods: give it that right with rbac.force=true (kamino manifests --force), or leave force out",
	"no right to delete nodes":         "node donor does not return from its capture, and Kamino may not delete nodes: give it that right with rbac.removeDonors=true (kamino manifests --remove-donors)",
	"no instance":                      "the cloud does not know the instance of node donor: : NotFound: gone; choose another node",
	"no cloud of its":                  "the cloud does not know the instance of node donor: : Unsupported: theirs; choose another node",
	"the cloud refuses":                "the quota is used up: ask for more",
	"the pool refuses":                 "the pool rolls: hold it",
	"a newer recipe":                   "the recipe of pool pool1 points at version 2026.03.1402, which is newer than 2026.03.14: roll back first if that one is bad",
	"too many images":                  "the nodes of pool pool1 and its recipe name 9 different images; with more than 10 the cloud does not let the pool grow. The oldest is image a, on oldest: build these nodes anew with `kamino rebuild pool1`, or delete them; where Cluster API made them, delete their Machines",
	"volumes of its own":               "node donor does not return from its capture, and the data of these volumes is on it alone: pv-1, pv-2; move their data, choose another node, or use force to lose it",
	"no token":                         "no bootstrap token of the cluster is valid (ConfigMap kube-public/cluster-info carries no signature by one), so that no new node of pool pool1 could join: make one (kubeadm token create) that the pool's recipe names, then try again",
}

func TestSentences(t *testing.T) {
	for _, trouble := range troubles {
		c := sound()
		trouble.spoil(c)
		if got := c.Judge().Refusals[0].Message; got != sentences[trouble.name] {
			t.Errorf("%s: %s\nwant: %s", trouble.name, got, sentences[trouble.name])
		}
	}
	if len(sentences) != len(troubles) {
		t.Errorf("%d sentences for %d troubles", len(sentences), len(troubles))
	}
}
