package pool

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/contents"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/report"
	"github.com/kamino-dev/kamino/internal/joinhealth"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
)

// patchTimes has the times of a node's patches: the last active patch, and a patch that waits for a reboot.
type patchTimes struct{ patched, pending time.Time }

// interrupted is the first known time at which a patch or a capture took the node out of service since its creation; zero
// if unknown.
func (t patchTimes) interrupted(node joinhealth.Node, captures []v1alpha1.Prototype) (first time.Time) {
	note := func(at time.Time) {
		if at.After(node.Running) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	note(t.patched)
	note(t.pending)
	for i := range captures {
		p := &captures[i]
		if d := p.Status.Donor; p.Spec.Donor.NodeName == node.Name && d != nil && d.ReservedAt != nil && !p.Spec.Settings.CopiesDonor() {
			note(d.ReservedAt.Time)
		}
		if p.Spec.Donor.NodeName == node.Name && p.Status.Patch != nil {
			note(p.Status.Patch.StartedAt.Time)
		}
	}
	return first
}

// forgetReboots clears the duration of joins that end after a patch or a capture took the node out of service: the node was Ready before,
// at an unknown time.
func (p *Pool) forgetReboots(joins []joinhealth.Join, nodes []joinhealth.Node) {
	for i := range joins {
		j := &joins[i]
		at := slices.IndexFunc(nodes, func(n joinhealth.Node) bool { return n.Instance == j.Instance })
		if at < 0 {
			continue
		}
		if since := p.patches[nodes[at].Name].interrupted(nodes[at], p.Prototypes); !since.IsZero() && !j.Running.Add(j.Took).Before(since) {
			j.Took = 0
		}
	}
}

// awaitsReboot reports whether a patch is inactive until a reboot. kured keeps its annotation after a reboot by another
// client, but the node is then Ready since a later time.
func awaitsReboot(n *corev1.Node, patched time.Time) bool {
	pending := false
	for _, key := range []string{v1alpha1.RebootPendingAnnotation, v1alpha1.KuredRebootInProgressAnnotation} {
		value, found := n.Annotations[key]
		pending = pending || found && value != "false"
	}
	since, ready := nodestate.ReadySince(n)
	return pending && (!ready || !since.After(patched))
}

// measure keeps the facts of a Node that only a report needs.
func (p *Pool) measure(n *corev1.Node) {
	at := patchTimes{}
	for _, key := range []string{v1alpha1.PatchedAtAnnotation, v1alpha1.KuredRebootNeededAnnotation} {
		patched, err := time.Parse(time.RFC3339, n.Annotations[key])
		switch {
		case err != nil:
		case awaitsReboot(n, patched):
			at.pending = patched
		case patched.After(at.patched):
			at.patched = patched
		}
	}
	p.patches[n.Name] = at
	for _, image := range n.Status.Images {
		for _, name := range image.Names {
			p.imageBytes[name] = max(p.imageBytes[name], image.SizeBytes)
		}
	}
}

// ReportFacts reads the facts for a report about a pool since a time.
func (f *Finder) ReportFacts(ctx context.Context, p *Pool, since time.Time) (report.Facts, error) {
	past, err := f.Past(ctx, p, 0)
	if err != nil {
		return report.Facts{}, err
	}
	return f.FactsOf(past, p, since), nil
}

// FactsOf returns the facts for a report from a read history.
func (f *Finder) FactsOf(past PastPool, p *Pool, since time.Time) report.Facts {
	h := past.History
	facts := report.Facts{
		Pool: h.Pool, Since: since, Now: f.Now(), Counted: h.Counted, Captures: p.Prototypes, ImageBytes: p.imageBytes, PricePerGBMonth: -1,
	}
	failed := map[cloud.InstanceID]bool{}
	for _, join := range past.Joins {
		failed[join.Instance] = join.Outcome == joinhealth.Failed
	}
	registered := map[string]time.Time{}
	for _, n := range p.stripped {
		registered[n.Name] = n.CreationTimestamp.Time
	}
	for _, n := range past.nodes {
		at := p.patches[n.Name]
		node := report.NodeFacts{Version: n.Version, Created: n.Running, Registered: registered[n.Name], PatchedAt: at.patched,
			PendingSince: at.pending, Failed: failed[n.Instance]}
		if n.Ready {
			node.Ready = n.Changed
		}
		node.Interrupted = at.interrupted(n, p.Prototypes)
		facts.Nodes = append(facts.Nodes, node)
	}
	for i := range h.Versions {
		v := &h.Versions[i]
		version := report.VersionFacts{Version: v.Version, BuiltAt: v.BuiltAt, PatchedAt: v.PatchedAt, SizeGB: v.SizeGB}
		if c := Contents(v, p.Prototypes).Contents; c != nil {
			version.Images = []string{}
			for _, image := range c.Images {
				name := image.Name
				if _, isNamed := p.imageBytes[name]; !isNamed {
					name = image.String() // an image without a tag
				}
				version.Images = append(version.Images, name)
			}
		}
		facts.Versions = append(facts.Versions, version)
	}
	return facts
}

// maxChanges is the number of versions with a line of changes.
const maxChanges = 3

// Changes compares the newest versions, each with the version before, in one line by version.
func Changes(h history.History, prototypes []v1alpha1.Prototype) map[string]string {
	changes := map[string]string{}
	for i := 0; i+1 < len(h.Versions) && i < maxChanges; i++ {
		from, to := Contents(&h.Versions[i+1], prototypes), Contents(&h.Versions[i], prototypes)
		if line := contents.Compare(h.Pool, from, to).Line(); line != "" {
			changes[to.Version] = line
		}
	}
	return changes
}

// Pools returns the named pool, or all pools for an empty name.
func (f *Finder) Pools(ctx context.Context, name string) ([]*Pool, error) {
	if name != "" {
		p, err := f.Named(ctx, name)
		return []*Pool{p}, err
	}
	pools, err := f.All(ctx)
	if err != nil {
		return nil, err
	}
	var all []*Pool
	for _, id := range slices.Sorted(maps.Keys(pools)) {
		all = append(all, pools[id])
	}
	return all, nil
}

// Contents reads the contents of a version from its Prototype: the Prototype in the tags, because several captures may have
// tried the version.
func Contents(v *history.Version, prototypes []v1alpha1.Prototype) contents.Version {
	known := contents.Version{
		Version: v.Version, Prototype: v.Prototype, Donor: v.Donor, Lineage: v.Lineage, OS: v.OS, Kernel: v.Kernel, Kubelet: v.Kubelet,
		Runtime: v.Runtime, Digest: v.Contents,
	}
	i := slices.IndexFunc(prototypes, func(p v1alpha1.Prototype) bool {
		return p.Name == v.Prototype && imageversion.Compare(p.Spec.Version, v.Version) == 0
	})
	if i < 0 {
		return known.Read(nil)
	}
	return known.Read(&prototypes[i])
}
