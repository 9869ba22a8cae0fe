package cloud

import (
	"context"
	"maps"
	"slices"
)

// Origin says which cluster made a snapshot, a trial or an image version. One account can serve several clusters, and
// names of pools repeat.
type Origin string

const (
	// Unmarked: no tag names a cluster. An earlier version of Kamino or another program made the thing.
	Unmarked Origin = ""
	// Own: the tag names this cluster.
	Own Origin = "Own"
	// Foreign: the tag names another cluster. Kamino changes, counts and uses no such thing.
	Foreign Origin = "Foreign"
)

// OriginOf compares TagCluster with the ID of this cluster. An empty ID owns nothing.
func OriginOf(tags map[string]string, cluster string) Origin {
	switch tags[TagCluster] {
	case "":
		return Unmarked
	case cluster:
		return Own
	}
	return Foreign
}

// MayDelete reports whether Kamino may delete the thing without a person who names it. A thing without a cluster's tag
// needs another proof: isPrototype reports whether the UID in TagUID belongs to a Prototype of this cluster.
func (o Origin) MayDelete(tags map[string]string, isPrototype func(uid string) bool) bool {
	uid := tags[TagUID]
	return o == Own || o == Unmarked && uid != "" && isPrototype != nil && isPrototype(uid)
}

// InCluster returns a provider that writes TagCluster on new snapshots, trials, workshops, copies and versions, and lists nothing
// but versions of other clusters. id returns the cluster's ID; calls that need the ID fail with the error of id.
func InCluster(provider Provider, id func(context.Context) (string, error)) Provider {
	own := clusterID(id)
	provider.Machines = ownMachines{provider.Machines, own}
	provider.TrialBuilder = ownTrials{provider.TrialBuilder, own}
	provider.WorkshopBuilder = ownWorkshops{provider.WorkshopBuilder, own}
	provider.DiskCopier = ownCopies{provider.DiskCopier, own}
	provider.Versions = ownVersions{provider.Versions, own}
	return provider
}

// clusterID returns the cluster's ID.
type clusterID func(context.Context) (string, error)

// The own parts change the calls that make or list things with an origin.
type (
	ownMachines struct {
		Machines
		id clusterID
	}
	ownTrials struct {
		TrialBuilder
		id clusterID
	}
	ownWorkshops struct {
		WorkshopBuilder
		id clusterID
	}
	ownCopies struct {
		DiskCopier
		id clusterID
	}
	ownVersions struct {
		Versions
		id clusterID
	}
)

// marked adds TagCluster to a copy of the tags.
func (c clusterID) marked(ctx context.Context, tags map[string]string) (map[string]string, error) {
	id, err := c(ctx)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(tags)
	if out == nil {
		out = map[string]string{}
	}
	out[TagCluster] = id
	return out, nil
}

// EnsureSnapshot implements Machines.
func (p ownMachines) EnsureSnapshot(ctx context.Context, spec SnapshotSpec) (made Snapshot, err error) {
	if spec.Tags, err = p.id.marked(ctx, spec.Tags); err != nil {
		return Snapshot{}, err
	}
	return p.Machines.EnsureSnapshot(ctx, spec)
}

// EnsureImage implements Versions.
func (p ownVersions) EnsureImage(ctx context.Context, spec ImageSpec) (made Image, err error) {
	if spec.Tags, err = p.id.marked(ctx, spec.Tags); err != nil {
		return Image{}, err
	}
	return p.Versions.EnsureImage(ctx, spec)
}

// EnsureTrial implements TrialBuilder.
func (p ownTrials) EnsureTrial(ctx context.Context, spec TrialSpec) (made Trial, err error) {
	if spec.Tags, err = p.id.marked(ctx, spec.Tags); err != nil {
		return Trial{}, err
	}
	return p.TrialBuilder.EnsureTrial(ctx, spec)
}

// EnsureWorkshop implements WorkshopBuilder.
func (p ownWorkshops) EnsureWorkshop(ctx context.Context, spec WorkshopSpec) (made Trial, err error) {
	if spec.Tags, err = p.id.marked(ctx, spec.Tags); err != nil {
		return Trial{}, err
	}
	return p.WorkshopBuilder.EnsureWorkshop(ctx, spec)
}

// EnsureAttached implements DiskCopier.
func (p ownCopies) EnsureAttached(ctx context.Context, spec CopySpec) (made DiskCopy, err error) {
	if spec.Tags, err = p.id.marked(ctx, spec.Tags); err != nil {
		return DiskCopy{}, err
	}
	return p.DiskCopier.EnsureAttached(ctx, spec)
}

// EnsureCopySnapshot implements DiskCopier.
func (p ownCopies) EnsureCopySnapshot(ctx context.Context, spec CopySpec, snapshot SnapshotSpec) (made Snapshot, err error) {
	if snapshot.Tags, err = p.id.marked(ctx, snapshot.Tags); err != nil {
		return Snapshot{}, err
	}
	return p.DiskCopier.EnsureCopySnapshot(ctx, spec, snapshot)
}

// Snapshots implements Versions.
func (p ownVersions) Snapshots(ctx context.Context, pools ...PoolID) ([]Snapshot, error) {
	id, err := p.id(ctx)
	if err != nil {
		return nil, err
	}
	all, err := p.Versions.Snapshots(ctx, pools...)
	for i := range all {
		all[i].Origin = OriginOf(all[i].Tags, id)
	}
	return slices.DeleteFunc(all, func(s Snapshot) bool { return s.Origin == Foreign }), err
}

// Copies implements Versions.
func (p ownVersions) Copies(ctx context.Context, pools ...PoolID) ([]CopySpec, error) {
	id, err := p.id(ctx)
	if err != nil {
		return nil, err
	}
	all, err := p.Versions.Copies(ctx, pools...)
	for i := range all {
		all[i].Origin = OriginOf(all[i].Tags, id)
	}
	return slices.DeleteFunc(all, func(s CopySpec) bool { return s.Origin == Foreign }), err
}

// Workshops implements WorkshopBuilder.
func (p ownWorkshops) Workshops(ctx context.Context, pools ...PoolID) ([]WorkshopSpec, error) {
	id, err := p.id(ctx)
	if err != nil {
		return nil, err
	}
	all, err := p.WorkshopBuilder.Workshops(ctx, pools...)
	for i := range all {
		all[i].Origin = OriginOf(all[i].Tags, id)
	}
	return slices.DeleteFunc(all, func(s WorkshopSpec) bool { return s.Origin == Foreign }), err
}

// Trials implements TrialBuilder.
func (p ownTrials) Trials(ctx context.Context, pools ...PoolID) ([]TrialSpec, error) {
	id, err := p.id(ctx)
	if err != nil {
		return nil, err
	}
	all, err := p.TrialBuilder.Trials(ctx, pools...)
	for i := range all {
		all[i].Origin = OriginOf(all[i].Tags, id)
	}
	return slices.DeleteFunc(all, func(s TrialSpec) bool { return s.Origin == Foreign }), err
}

// Images implements Versions. Versions of other clusters stay in the list, because their names are taken.
func (p ownVersions) Images(ctx context.Context, pool PoolID) ([]Image, error) {
	id, err := p.id(ctx)
	if err != nil {
		return nil, err
	}
	all, err := p.Versions.Images(ctx, pool)
	for i := range all {
		all[i].Origin = OriginOf(all[i].Tags, id)
	}
	return all, err
}
