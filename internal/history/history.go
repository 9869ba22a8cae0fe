// Package history decides what each version of a pool's image is to the pool: in use, what a rollback goes
// to, to be retired, never to be used; which nodes run it; and what going back, quarantining, releasing and
// retiring mean and when they are refused. It changes nothing and looks at nothing: the versions, the recipe,
// the instances and the captures are given to it.
package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/imageversion"
	"github.com/kamino-dev/kamino/internal/probation"
	"github.com/kamino-dev/kamino/internal/retention"
)

// Use is what a version is to its pool. Each has exactly one, the first of these that holds.
type Use string

const (
	// Current: the recipe names it.
	Current Use = "current"
	// InWork: the cloud still makes it, or already deletes it.
	InWork Use = "in work"
	// Failed: the cloud could not make it.
	Failed Use = "failed"
	// Quarantined: it is never used again, nor is it what a rollback goes to.
	Quarantined Use = "quarantined"
	// Newer: it is newer than the current one.
	Newer Use = "newer"
	// Prior: a rollback goes to it.
	Prior Use = "prior"
	// Older: it could be used and is not; also every usable version where the recipe names none.
	Older Use = "older"
)

// Member is an instance of the pool as a history counts it.
type Member struct {
	// Name is the Node's, or the instance's ID while no Node is known for it.
	Name string
	// BuiltFrom is the version that it was built from; empty if that is none of the pool's own.
	BuiltFrom string
}

// Facts are what a history is told from.
type Facts struct {
	Pool   cloud.Pool
	Images []cloud.Image
	// Members of the pool; Counted is false if the cloud could not tell them.
	Members []Member
	Counted bool
	// Joins of the pool's nodes, if they are counted.
	Joins []probation.Join
	// Prototypes of this pool, of any age.
	Prototypes []v1alpha1.Prototype
	// Keep is how many versions the next capture keeps; that of the newest Prototype if it is zero.
	Keep int
}

// History of a pool.
type History struct {
	Pool   string       `json:"pool"`
	PoolID cloud.PoolID `json:"poolID"`
	// Recipe is what the pool's next node is built from.
	Recipe cloud.Recipe `json:"recipe"`
	// Prior is the version that a rollback goes to; empty if there is none.
	Prior string `json:"prior,omitempty"`
	// Keep is how many usable versions the verdicts count on.
	Keep int `json:"keep"`
	// Gone says, with the remedy, that the recipe names a version that does not exist; nil if it does.
	Gone *cloud.Refusal `json:"gone,omitempty"`
	// Versions, newest first.
	Versions []Version `json:"versions"`
	// Counted tells whether it is known which nodes run which version.
	Counted bool `json:"counted"`
	// Others are the nodes that were built from none of the versions: a generic image, or a version that is gone.
	Others []string `json:"otherNodes,omitempty"`
	// Captures in flight that may still point the recipe at their version, by name.
	Captures []Capture `json:"captures,omitempty"`
	// Returns are the times that the pool went back from a version by itself, the latest first.
	Returns []Return `json:"returns,omitempty"`
}

// Version is one version of the pool's image.
type Version struct {
	Version string      `json:"version"`
	Use     Use         `json:"use"`
	State   cloud.State `json:"state"`
	Percent int32       `json:"percent"`
	ID      string      `json:"id,omitempty"`
	// Donor is the node whose disk it is, and Lineage the version that the donor was built from, if known.
	Donor   string `json:"donor,omitempty"`
	Lineage string `json:"lineage,omitempty"`
	// OS, Kernel, Kubelet and PatchedAt are the donor's, as it was captured; empty where nobody knows.
	OS        string    `json:"os,omitempty"`
	Kernel    string    `json:"kernel,omitempty"`
	Kubelet   string    `json:"kubelet,omitempty"`
	PatchedAt time.Time `json:"patchedAt,omitzero"`
	// BuiltAt is when it was captured, else when the cloud made it.
	BuiltAt   time.Time `json:"builtAt,omitzero"`
	Prototype string    `json:"prototype,omitempty"`
	// SavedRecipe names the Secret with what the recipe lost when it was pointed at this version, as its Prototype says.
	SavedRecipe string `json:"savedRecipe,omitempty"`
	Proof       string `json:"proof,omitempty"`
	SizeGB      int32  `json:"sizeGB,omitempty"`
	// Quarantined says why it must never be used; RolledBack is the version that a rollback went to from it.
	Quarantined string `json:"quarantined,omitempty"`
	RolledBack  string `json:"rolledBack,omitempty"`
	// Trial is what a trial of it has come to, and when; empty if it was not tried.
	Trial string `json:"trial,omitempty"`
	// Joins are how its nodes have joined, those that are gone not counted; nil if nobody could count them.
	Joins *Joins `json:"joins,omitempty"`
	// Suspect says why the pool went back from it by itself, until a person has acknowledged it.
	Suspect string `json:"suspect,omitempty"`
	Error   string `json:"error,omitempty"`
	// Nodes that were built from it, by name; nil if nobody could count them.
	Nodes []string `json:"nodes"`
	// Keep tells whether the next capture leaves it there; Reason and Why say on what grounds.
	Keep   bool             `json:"keep"`
	Reason retention.Reason `json:"reason"`
	Why    string           `json:"why"`
}

// Joins are how the nodes of a version have joined the cluster, in numbers.
type Joins struct {
	// Judged nodes: those that joined and those that failed to.
	Judged  int `json:"judged"`
	Joined  int `json:"joined"`
	Failed  int `json:"failed"`
	Waiting int `json:"waiting"`
	// MedianSeconds from the begin of an instance until its node was Ready; zero if no node tells.
	MedianSeconds int64 `json:"medianSeconds,omitempty"`
}

// joinsOf counts them; nil if there is none to count.
func joinsOf(all []probation.Join, version string) *Joins {
	t := probation.Count(all, version)
	if t == (probation.Tally{}) {
		return nil
	}
	return &Joins{
		Judged: t.Joined + t.Failed, Joined: t.Joined, Failed: t.Failed, Waiting: t.Waiting, MedianSeconds: int64(t.Median.Round(time.Second).Seconds()),
	}
}

// Capture is one in flight.
type Capture struct {
	Prototype string `json:"prototype"`
	Version   string `json:"version"`
	Donor     string `json:"donor"`
	// Awaits: the version is complete, and waits for a person to promote it. By itself it points the recipe at nothing.
	Awaits bool `json:"awaits,omitempty"`
	// HandOver is what that person has to do with another tool, which writes the pool's recipe.
	HandOver string `json:"handOver,omitempty"`
	// Tries: the version is being tried. In the pool the recipe names it meanwhile, and then again what it named before.
	Tries bool `json:"tries,omitempty"`
}

// Of tells the history.
func Of(f Facts) History {
	h := History{
		Pool: f.Pool.Name, PoolID: f.Pool.ID, Recipe: f.Pool.Recipe, Keep: keep(f),
		Versions: []Version{}, Counted: f.Counted, Captures: inFlight(f.Prototypes),
		Gone: Gone(f.Pool, f.Images),
	}
	for _, r := range Returns(f.Images) {
		h.Returns = append(h.Returns, r.on(h.Recipe))
	}
	images := map[string]cloud.Image{}
	for _, image := range f.Images {
		images[image.Version] = image
	}
	nodes, others := count(f, images)
	h.Others = others
	for _, verdict := range retention.Decide(f.Images, h.Recipe.Version, h.Keep, inUse(f)) {
		v := version(images[verdict.Version])
		v.Use, v.Keep, v.Reason = useOf(v, verdict.Reason, h.Recipe.Version), verdict.Keep, verdict.Reason
		v.Why = h.why(v)
		v.SavedRecipe = savedFor(v.Version, f.Prototypes)
		if f.Counted {
			v.Nodes = append([]string{}, nodes[v.Version]...)
			v.Joins = joinsOf(f.Joins, v.Version)
		}
		h.Versions = append(h.Versions, v)
	}
	h.Prior = h.prior()
	if prior := h.Find(h.Prior); prior != nil && prior.Use == Older { // what the recipe names is gone, and told nobody which it was
		prior.Use, prior.Why = Prior, whyPrior
	}
	return h
}

// savedFor is the Secret that the version's Prototype names.
func savedFor(version string, prototypes []v1alpha1.Prototype) string {
	for _, p := range prototypes {
		if same(p.Spec.Version, version) && p.Status.SavedRecipe != "" {
			return p.Status.SavedRecipe
		}
	}
	return ""
}

// inUse counts the members by version, if they are counted.
func inUse(f Facts) map[string]int {
	count := map[string]int{}
	for _, m := range f.Members {
		count[m.BuiltFrom]++
	}
	return count
}

// keep is what the next capture counts on, as far as that can be known: what was said, else what the last
// one was told.
func keep(f Facts) int {
	if f.Keep > 0 {
		return max(f.Keep, 2)
	}
	settings := v1alpha1.Settings{}
	if len(f.Prototypes) > 0 {
		newest := slices.MaxFunc(f.Prototypes, func(a, b v1alpha1.Prototype) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
		settings = newest.Spec.Settings
	}
	return max(int(settings.Defaulted().Keep), 2)
}

// inFlight lists the captures that can still promote. One that has failed, or is being deleted, only gives
// its donor back.
func inFlight(prototypes []v1alpha1.Prototype) []Capture {
	var captures []Capture
	for _, p := range prototypes {
		ended := p.Status.Terminal()
		if ended || p.Status.Failure != nil || p.DeletionTimestamp != nil {
			continue
		}
		captures = append(captures, Capture{Prototype: p.Name, Version: p.Spec.Version, Donor: p.Spec.Donor.NodeName,
			Awaits: p.Status.Phase == v1alpha1.PhaseAwaitingPromotion, HandOver: p.Status.HandsOver(), Tries: p.Status.Phase == v1alpha1.PhaseTrying})
	}
	slices.SortFunc(captures, func(a, b Capture) int { return cmp.Compare(a.Prototype, b.Prototype) })
	return captures
}

// count sorts the members by the version that they were built from.
func count(f Facts, images map[string]cloud.Image) (nodes map[string][]string, others []string) {
	nodes = map[string][]string{}
	for _, m := range f.Members {
		if _, known := images[m.BuiltFrom]; known {
			nodes[m.BuiltFrom] = append(nodes[m.BuiltFrom], m.Name)
		} else {
			others = append(others, m.Name)
		}
	}
	for _, names := range nodes {
		slices.Sort(names)
	}
	slices.Sort(others)
	return nodes, others
}

func version(image cloud.Image) Version {
	patched, err := time.Parse(time.RFC3339, image.Tags[cloud.TagPatchedAt])
	if err != nil {
		patched = time.Time{}
	}
	return Version{
		OS: image.Tags[cloud.TagOS], Kernel: image.Tags[cloud.TagKernel], Kubelet: image.Tags[cloud.TagKubelet], PatchedAt: patched,
		Version: image.Version, State: image.State, Percent: image.Percent, ID: image.ID, SizeGB: image.SizeGB, Error: image.Error,
		Donor: image.Tags[cloud.TagBuiltFrom], Lineage: image.Tags[cloud.TagLineage], BuiltAt: BuiltAt(image),
		Prototype: image.Tags[cloud.TagPrototype], Proof: image.Tags[cloud.TagProof],
		Quarantined: image.Tags[cloud.TagQuarantined], RolledBack: image.Tags[cloud.TagRolledBack],
		Trial: image.Tags[cloud.TagTrial], Suspect: image.Tags[cloud.TagSuspect],
	}
}

func useOf(v Version, reason retention.Reason, current string) Use {
	switch {
	case reason == retention.Current:
		return Current
	case v.State == cloud.Failed:
		return Failed
	case v.State != cloud.Complete:
		return InWork
	case v.Quarantined != "":
		return Quarantined
	case current != "" && imageversion.Compare(v.Version, current) > 0:
		return Newer
	case reason == retention.Prior:
		return Prior
	default:
		return Older
	}
}

// usable tells whether the recipe could be pointed at it.
func (v Version) usable() bool {
	return v.State == cloud.Complete && v.Quarantined == "" && v.Suspect == "" && !v.lostProof()
}

// prior is the newest usable version that is older than what the recipe names. It is found even where the
// current version itself is gone.
func (h History) prior() string {
	for _, v := range h.Versions {
		if h.Recipe.Version != "" && imageversion.Compare(v.Version, h.Recipe.Version) < 0 && v.usable() {
			return v.Version
		}
	}
	return ""
}

// Find is the version of that name, or nil. Names are compared as numbers: 2026.1.9 is 2026.01.09.
func (h History) Find(name string) *Version {
	i := slices.IndexFunc(h.Versions, func(v Version) bool { return v.Version == name || same(v.Version, name) })
	if i < 0 {
		return nil
	}
	return &h.Versions[i]
}

// same compares two versions as a cloud does. A name that is no version is the same as none.
func same(a, b string) bool { return a != "" && b != "" && imageversion.Compare(a, b) == 0 }

// Bad lists the quarantined versions that nodes still run or that the recipe names.
func (h History) Bad() []Version {
	var bad []Version
	for _, v := range h.Versions {
		if v.Quarantined != "" && (len(v.Nodes) > 0 || v.Use == Current) {
			bad = append(bad, v)
		}
	}
	return bad
}

const whyPrior = "a rollback goes to it"

// why says in words what the verdict rests on.
func (h History) why(v Version) string {
	switch v.Reason {
	case retention.Current:
		if v.Quarantined != "" {
			return "the recipe names it, although it is quarantined"
		}
		return "the recipe names it"
	case retention.Prior:
		return whyPrior
	case retention.Newer:
		return "it is newer than what the recipe names"
	case retention.InWork:
		if v.State == cloud.Deleting {
			return "the cloud is deleting it"
		}
		return "the cloud is still making it"
	case retention.Recent:
		return fmt.Sprintf("it is among the %d versions to keep", h.Keep)
	case retention.InUse:
		return h.inUse(v)
	case retention.Unacknowledged:
		return fmt.Sprintf("the pool went back from it by itself, and captures stop until a person has acknowledged that: `kamino release %s`", h.Pool)
	case retention.Unproven:
		return "a capture made it, and it carries no proof of that: nothing goes to it, and a person retires it"
	case retention.Unknown:
		return "the recipe names none of the versions, so that the one a rollback needs can't be told"
	case retention.Surplus:
	}
	switch {
	case v.State == cloud.Failed:
		return "the cloud could not make it"
	case v.Quarantined != "":
		return "it is quarantined"
	}
	return fmt.Sprintf("%d newer ones are kept", h.Keep)
}

// inUse says who still needs a version that would otherwise go.
func (h History) inUse(v Version) string {
	who := fmt.Sprintf("%d nodes were", len(v.Nodes))
	if len(v.Nodes) == 1 {
		who = "node " + v.Nodes[0] + " was"
	}
	if v.Quarantined != "" {
		return who + " built from it, and only with it is it known that they run a bad version"
	}
	return who + " built from it and can be rebuilt as they are only while it is there"
}

// names lists the versions, for a person who named one that is not there.
func (h History) names() string {
	if len(h.Versions) == 0 {
		return "it has none"
	}
	names := make([]string, len(h.Versions))
	for i, v := range h.Versions {
		names[i] = v.Version
	}
	return "it has " + strings.Join(names, ", ")
}
