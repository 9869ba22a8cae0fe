package drive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/imageversion"
	"github.com/kamino-dev/kamino/internal/membership"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/trialmode"
)

// maxTries is how often a decision is made anew because somebody else's came in between.
const maxTries = 100

// errNoNode is why a node was not found.
var errNoNode = errors.New("`kubectl get nodes` lists them")

// noPool is why a node belongs to no pool.
type noPool string

func (n noPool) Error() string { return string(n) }

// gone tells of why a donor was not found that its capture explains: its Node is gone, or its instance has left the pool.
func gone(err error) bool {
	var left noPool
	return errors.Is(err, errNoNode) || errors.As(err, &left)
}

// captureOf is the one in flight of a node, which may be gone: a donor that does not return is, before its capture is over.
func captureOf(node string, all []v1alpha1.Prototype) *v1alpha1.Prototype {
	for i := range all {
		if p := &all[i]; p.Spec.Donor.NodeName == node && !p.Status.Terminal() {
			return p
		}
	}
	return nil
}

// Donor is a node that was named, and where it belongs.
type Donor struct {
	Node *corev1.Node
	Pool policy.Pool
	// Of tells which pools the cluster's Prototypes belong to, in their order.
	Of []cloud.Membership
}

// FindDonor looks the node up and finds its pool, and the pools of the Prototypes.
func FindDonor(ctx context.Context, c *cluster.Connection, provider cloud.Provider, name string, all []v1alpha1.Prototype) (*Donor, error) {
	node, err := c.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, cluster.Refusef("there is no node %s in this cluster, and nothing was changed: %w", name, errNoNode)
	}
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	if node.Spec.ProviderID == "" {
		return nil, cluster.Refusef("node %s has no spec.providerID, so no cloud's VM is known to be behind it, and nothing was changed: "+
			"is the cloud controller manager running?", name)
	}
	its, err := membership.OfNode(ctx, provider, node)
	switch {
	case err != nil:
		return nil, err
	case its.Pool == "":
		return nil, cluster.Refusef("node %s belongs to no pool that can be captured, and nothing was changed: %w", name, noPool(its.Why))
	}
	of, err := membership.OfPrototypes(ctx, provider, all)
	if err != nil {
		return nil, err
	}
	return &Donor{Node: node, Pool: policy.Pool{ID: its.Pool, Name: provider.PoolName(its.Pool)}, Of: of}, nil
}

// CaptureRequest begins the capture of a node that was named.
type CaptureRequest struct {
	Cluster *cluster.Connection
	Cloud   cloud.Provider
	Now     func() time.Time
	// Node to capture; Version to make, today's if empty; and the settings of the capture.
	Node, Version string
	Settings      v1alpha1.Settings
}

// Decide looks at the cluster and finds the Prototype that the capture is done under. A new one has the profile that the settings
// name, or the one by which its nodes are seen to join, and the trial that they name, or the one that its pool allows.
func (b *CaptureRequest) Decide(ctx context.Context) (Decision, error) {
	ctx = cloud.WithReadCache(ctx)
	d, found, err := b.decide(ctx)
	if err != nil || d.Existing {
		return d, err
	}
	if b.Settings.Generalize.Profile == "" {
		d.Joins, err = membership.Joins(ctx, b.Cluster.Kube, membership.FactsOf(ctx, b.Cloud, found.Node, found.Pool.ID))
		d.Prototype.Spec.Settings.Generalize.Profile = d.Joins.Profile
		if err != nil {
			return d, err
		}
	}
	return d, b.findTrial(ctx, &d)
}

// findTrial has a new Prototype say where its version is tried. A cloud that can't be asked is asked again by the preflight.
func (b *CaptureRequest) findTrial(ctx context.Context, d *Decision) error {
	spec := &d.Prototype.Spec
	settings := spec.Settings
	settings.Trial.Mode = b.Settings.Trial.Mode
	mode, err := trialmode.Find(ctx, b.Cloud, cloud.PoolID(spec.PoolID), spec.Version, settings)
	if said := (*cloud.Error)(nil); err != nil && !errors.As(err, &said) {
		return err
	}
	spec.Settings.Trial.Mode = mode
	return nil
}

// Unknown is why nobody can tell the profile of a new capture; empty where it is known.
func (d Decision) Unknown() []cloud.Refusal {
	if d.Existing || d.Prototype.Spec.Settings.Generalize.Profile != "" {
		return nil
	}
	return d.Joins.Refusals()
}

// Take names the profile of a capture that nothing tells.
func (b *CaptureRequest) Take(ctx context.Context, d *Decision, profile v1alpha1.Profile) error {
	b.Settings.Generalize.Profile, d.Prototype.Spec.Settings.Generalize.Profile = profile, profile
	return b.findTrial(ctx, d)
}

func (b *CaptureRequest) decide(ctx context.Context) (Decision, *Donor, error) {
	all, err := b.Cluster.Prototypes(ctx)
	if err != nil {
		return Decision{}, nil, err
	}
	if err := b.Cluster.CheckClock(); err != nil {
		return Decision{}, nil, err
	}
	found, err := FindDonor(ctx, b.Cluster, b.Cloud, b.Node, all)
	if p := captureOf(b.Node, all); p != nil && gone(err) {
		donor := &Donor{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.Node}}, Pool: policy.Pool{Name: p.Spec.Pool}}
		d, err := donor.inFlight(p, b.Version)
		return d, donor, err
	}
	if err != nil {
		return Decision{}, nil, err
	}
	d, err := Decide(found, b.Version, b.Settings, all, b.Now())
	if err != nil || d.Existing || b.Version != "" {
		return d, found, err
	}
	first := d.Prototype.Spec.Version
	free := b.freeVersion(ctx, found.Pool.ID, first)
	if free == first {
		return d, found, nil
	}
	d, err = Decide(found, free, b.Settings, all, b.Now())
	d.Skipped = first
	return d, found, err
}

// freeVersion is the first name of a version's day that the pool has no version of: one may be there that a capture has
// left which was called off, or whose promotion was refused. A cloud that can't be asked is asked again by the preflight.
func (b *CaptureRequest) freeVersion(ctx context.Context, pool cloud.PoolID, version string) string {
	images, err := b.Cloud.Images(ctx, pool)
	if err != nil {
		return version
	}
	for n := 1; n <= imageversion.MaxTry; n++ {
		name := imageversion.Try(version, n)
		if !slices.ContainsFunc(images, func(i cloud.Image) bool { return imageversion.Compare(i.Version, name) == 0 }) {
			return name
		}
	}
	return version
}

// Write writes the Prototype of a decision. When somebody else writes one in the same moment, the decision is made anew
// with theirs in sight; what came of it is returned. An error that the API server calls invalid is of the settings.
func (b *CaptureRequest) Write(ctx context.Context, d Decision) (Decision, error) {
	for range maxTries {
		err := b.Cluster.Client.Create(ctx, d.Prototype)
		switch {
		case err == nil, apierrors.IsInvalid(err):
			return d, err
		case !apierrors.IsAlreadyExists(err):
			return d, fmt.Errorf("create prototype %s: %w", d.Prototype.Name, err)
		}
		if d, err = b.Decide(ctx); err != nil || d.Existing {
			return d, err
		}
	}
	return d, fmt.Errorf("no name for the Prototype of node %s could be found", b.Node)
}

// Decision is the Prototype that a capture is done under, and whether it exists already.
type Decision struct {
	Prototype *v1alpha1.Prototype
	Existing  bool
	// Joins tells how the pool's nodes join, for a new one whose settings name no profile.
	Joins bootstrapkind.Answer
	// Skipped is the version that would have come first, if the pool has it already and no capture that has succeeded owns it.
	Skipped string
}

// Decide finds the Prototype for the donor: one in flight for the same donor is gone on with, one in
// flight for another donor of the pool is in the way, and else there is a new one, under the first name of
// the day that no failed attempt has taken.
func Decide(d *Donor, version string, settings v1alpha1.Settings, all []v1alpha1.Prototype, now time.Time) (Decision, error) {
	ofPool := d.Pool.Its(all, d.Of)
	slices.SortFunc(ofPool, func(a, b v1alpha1.Prototype) int { return cmp.Compare(a.Name, b.Name) })
	for i := range ofPool {
		if p := &ofPool[i]; !p.Status.Terminal() {
			return d.inFlight(p, version)
		}
	}
	if version == "" {
		version = imageversion.Of(now)
	}
	for i := range ofPool {
		if p := &ofPool[i]; p.Spec.Version == version && Succeeded(p) {
			return Decision{}, cluster.Refusef("pool %s was captured as version %s already (Prototype %s, from node %s), and nothing was changed: "+
				"there is one version of a pool and a day, unless another one is asked for with --version %s", d.Pool.Name, version, p.Name, p.Spec.Donor.NodeName, nextTry(version, ofPool))
		}
	}
	found := v1alpha1.Donor{NodeName: d.Node.Name, ProviderID: d.Node.Spec.ProviderID}
	prototype, err := d.Pool.Prototype(found, version, settings, all)
	if err != nil {
		return Decision{}, cluster.Refusef("nothing was changed: %w", err)
	}
	return Decision{Prototype: prototype}, nil
}

// nextTry is the first further version of a version's day that no Prototype is of.
func nextTry(version string, all []v1alpha1.Prototype) string {
	for n := 2; n < imageversion.MaxTry; n++ {
		name := imageversion.Try(version, n)
		if !slices.ContainsFunc(all, func(p v1alpha1.Prototype) bool { return p.Spec.Version == name }) {
			return name
		}
	}
	return imageversion.Try(version, imageversion.MaxTry)
}

func (d *Donor) inFlight(p *v1alpha1.Prototype, version string) (Decision, error) {
	switch {
	case !p.DeletionTimestamp.IsZero():
		return Decision{}, cluster.Refusef("Prototype %s of pool %s is being deleted and gives its donor %s back first, and nothing was changed: "+
			"wait for it (`kamino cancel %s` shows how far it is)", p.Name, d.Pool.Name, p.Spec.Donor.NodeName, p.Name)
	case p.Spec.Donor.NodeName != d.Node.Name:
		return Decision{}, cluster.Refusef("another capture of pool %s is in flight: Prototype %s captures node %s as version %s, and nothing was changed: "+
			"wait for it, or stop it with `kamino cancel %s`", d.Pool.Name, p.Name, p.Spec.Donor.NodeName, p.Spec.Version, p.Name)
	case version != "" && p.Spec.Version != version:
		return Decision{}, cluster.Refusef("node %s is being captured as version %s by Prototype %s, not as %s, and nothing was changed: "+
			"leave --version out to follow it, or stop it with `kamino cancel %s`", d.Node.Name, p.Spec.Version, p.Name, version, p.Name)
	default:
		return Decision{Prototype: p.DeepCopy(), Existing: true}, nil
	}
}
