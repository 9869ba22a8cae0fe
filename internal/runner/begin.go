package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/cloud/imageversion"
	"github.com/kamino-dev/kamino/internal/cluster"
	"github.com/kamino-dev/kamino/internal/policy"
	"github.com/kamino-dev/kamino/internal/pool/bootstrapkind"
	"github.com/kamino-dev/kamino/internal/pool/capturemethod"
	"github.com/kamino-dev/kamino/internal/pool/membership"
)

// maxTries limits the decisions after writes of other clients.
const maxTries = 100

// errNoNode is the cause if a node does not exist.
var errNoNode = errors.New("run `kubectl get nodes` to list the nodes")

// noPoolReason is the reason why a node belongs to no pool.
type noPoolReason string

func (n noPoolReason) Error() string { return string(n) }

// isGone reports an error that the capture of the donor explains: the Node is gone, or the instance has left the pool.
func isGone(err error) bool {
	var left noPoolReason
	return errors.Is(err, errNoNode) || errors.As(err, &left)
}

// captureOf returns the running capture of a node. The node may be gone.
func captureOf(node string, all []v1alpha1.Prototype) *v1alpha1.Prototype {
	for i := range all {
		if p := &all[i]; p.Spec.Donor.NodeName == node && !p.Status.Terminal() {
			return p
		}
	}
	return nil
}

// Donor is a named node with its pool.
type Donor struct {
	Node *corev1.Node
	Pool policy.PoolRef
	// Of holds the membership of each Prototype of the cluster, in the same order.
	Of []cloud.Membership
	// Patches: the request is for a pioneer.
	Patches bool
	// OfPool: the request names only the pool, so any running pioneer of the pool is the capture.
	OfPool bool
}

// FindDonor reads the node, and finds the pools of the node and of the Prototypes.
func FindDonor(ctx context.Context, c *cluster.Connection, provider cloud.Provider, name string, all []v1alpha1.Prototype) (*Donor, error) {
	node, err := c.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, cluster.Refusef("node %s is not in this cluster, and nothing was changed: %w", name, errNoNode)
	}
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	if node.Spec.ProviderID == "" {
		return nil, cluster.Refusef("node %s has no spec.providerID, so its VM is unknown, and nothing was changed: "+
			"check that the cloud controller manager runs", name)
	}
	member, err := membership.OfNode(ctx, provider, node)
	switch {
	case err != nil:
		return nil, err
	case member.Pool == "":
		return nil, cluster.Refusef("node %s belongs to no pool that can be captured, and nothing was changed: %w", name, noPoolReason(member.Why))
	}
	of, err := membership.OfPrototypes(ctx, provider, all)
	if err != nil {
		return nil, err
	}
	return &Donor{Node: node, Pool: policy.PoolRef{ID: member.Pool, Name: provider.PoolName(member.Pool)}, Of: of}, nil
}

// CaptureRequest is the request to capture a named node.
type CaptureRequest struct {
	Cluster *cluster.Connection
	Cloud   cloud.Provider
	Now     func() time.Time
	// Node to capture; Version to create, empty for today's version; and the settings of the capture.
	Node, Version string
	Settings      v1alpha1.Settings
	// Pioneer of the capture; nil without a pioneer.
	Pioneer *v1alpha1.PioneerSettings
	// Written holds the settings as the user wrote them, for Validate.
	Written map[string]any
	// Decider judges the nodes of a pool, for ChooseNode.
	Decider func(context.Context) (*policy.Decider, *membership.Cluster, error)
	// ofPool: the request named only the pool.
	ofPool bool
}

// Decide finds the Prototype for the capture. A new Prototype has the profile, the method and the trial of the settings. Without
// a profile, Decide detects the profile from the nodes. Without a method, the settings and the cloud decide.
func (b *CaptureRequest) Decide(ctx context.Context) (Decision, error) {
	ctx = cloud.WithReadCache(ctx)
	d, found, err := b.decide(ctx)
	if err != nil || d.Existing {
		return d, err
	}
	if b.Settings.Generalize.Profile == "" {
		d.Joins, err = membership.Joins(ctx, b.Cluster.Kube, membership.FactsOf(ctx, b.Cloud, found.Node, found.Pool.ID))
		d.Prototype.Spec.Settings.Generalize.Profile = d.Joins.Profile
	}
	d.Method = capturemethod.In(b.Cloud, d.Prototype.Spec.Settings)
	d.Prototype.Spec.Settings.Donor.Method, d.Prototype.Spec.Pioneer = d.Method.Method, b.Pioneer
	return d, err
}

// Unknown returns why the profile of a new capture is unknown; empty if the profile is known.
func (d Decision) Unknown() []cloud.Refusal {
	if d.Existing || d.Prototype.Spec.Settings.Generalize.Profile != "" {
		return nil
	}
	return d.Joins.Refusals()
}

// Take sets the profile of a capture with an unknown profile.
func (b *CaptureRequest) Take(d *Decision, profile v1alpha1.Profile) {
	b.Settings.Generalize.Profile, d.Prototype.Spec.Settings.Generalize.Profile = profile, profile
}

func (b *CaptureRequest) decide(ctx context.Context) (Decision, *Donor, error) {
	all, err := b.Cluster.Prototypes(ctx)
	notInstalled := errors.Is(err, cluster.ErrNotInstalled)
	if err != nil && !notInstalled {
		return Decision{}, nil, err
	}
	if err := b.Cluster.CheckClock(); err != nil {
		return Decision{}, nil, err
	}
	found, err := FindDonor(ctx, b.Cluster, b.Cloud, b.Node, all)
	if p := captureOf(b.Node, all); p != nil && isGone(err) {
		donor := &Donor{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: b.Node}}, Pool: policy.PoolRef{Name: p.Spec.Pool}}
		d, err := donor.inFlight(p, b.Version)
		return d, donor, err
	}
	if err != nil {
		return Decision{}, nil, err
	}
	found.Patches, found.OfPool = b.Pioneer != nil, b.ofPool
	d, err := Decide(found, b.Version, b.Settings, all, b.Now())
	d.NotInstalled = notInstalled
	if err != nil || d.Existing || b.Version != "" {
		return d, found, err
	}
	first := d.Prototype.Spec.Version
	free := b.freeVersion(ctx, found.Pool.ID, first)
	if free == first {
		return d, found, nil
	}
	d, err = Decide(found, free, b.Settings, all, b.Now())
	d.Skipped, d.NotInstalled = first, notInstalled
	return d, found, err
}

// freeVersion is the first free version of the day in the pool. Canceled captures and refused promotions leave versions. If
// the cloud does not answer, the preflight asks again.
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

// Validate asks the API server for a check of a new Prototype, with the settings as written. The API server applies the rules
// of the definition, and stores nothing.
func (b *CaptureRequest) Validate(ctx context.Context, p *v1alpha1.Prototype) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Prototype"))
	settings, _, err := unstructured.NestedMap(content, "spec", "settings")
	if err != nil {
		return err
	}
	content["spec"].(map[string]any)["settings"] = overlaid(settings, b.Written)
	err = b.Cluster.Client.Create(ctx, object, client.DryRunAll)
	if err == nil || apierrors.IsInvalid(err) {
		return err
	}
	return fmt.Errorf("create prototype %s: %w", p.Name, err)
}

// overlaid returns the object with all values of another object; objects within are overlaid, too.
func overlaid(into, over map[string]any) map[string]any {
	into = maps.Clone(into)
	if into == nil {
		into = map[string]any{}
	}
	for key, value := range over {
		before, wasMap := into[key].(map[string]any)
		if inner, isMap := value.(map[string]any); isMap && wasMap {
			value = overlaid(before, inner)
		}
		into[key] = value
	}
	return into
}

// Write creates the Prototype of a decision. If another client creates a Prototype at the same time, Write decides again,
// and returns that decision. An error that the API server calls invalid is an error of the settings.
func (b *CaptureRequest) Write(ctx context.Context, d Decision) (Decision, error) {
	if d.NotInstalled {
		return d, cluster.ErrNotInstalled
	}
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
	return d, fmt.Errorf("found no free name for the Prototype of node %s", b.Node)
}

// Decision is the Prototype for a capture. Existing reports that the Prototype exists already.
type Decision struct {
	Prototype *v1alpha1.Prototype
	Existing  bool
	// NotInstalled reports that the cluster lacks Kamino's definitions, so the Prototype cannot be created yet.
	NotInstalled bool
	// Joins is the detected way in which the pool's nodes join, for a new Prototype without a profile in the settings.
	Joins bootstrapkind.Answer
	// Method is how the donor's disk becomes an image, for a new Prototype.
	Method capturemethod.Answer
	// Skipped is the first version of the day, if the pool already has that version without a successful capture.
	Skipped string
}

// Decide returns the Prototype for the donor: the running Prototype of the same donor, or a new Prototype with the first
// free name of the day. A running Prototype of another donor of the pool is a refusal.
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
			return Decision{}, cluster.Refusef("pool %s already has version %s (Prototype %s, from node %s), and nothing was changed: "+
				"pass --version %s for another version of this day", d.Pool.Name, version, p.Name, p.Spec.Donor.NodeName, nextTry(version, ofPool))
		}
	}
	found := v1alpha1.Donor{NodeName: d.Node.Name, ProviderID: d.Node.Spec.ProviderID}
	prototype, err := d.Pool.Prototype(found, version, settings, all)
	if err != nil {
		return Decision{}, cluster.Refusef("nothing was changed: %w", err)
	}
	return Decision{Prototype: prototype}, nil
}

// nextTry is the next version of the day without a Prototype.
func nextTry(version string, all []v1alpha1.Prototype) string {
	for n := 2; n < imageversion.MaxTry; n++ {
		name := imageversion.Try(version, n)
		if !slices.ContainsFunc(all, func(p v1alpha1.Prototype) bool { return p.Spec.Version == name }) {
			return name
		}
	}
	return imageversion.Try(version, imageversion.MaxTry)
}

// isDonorOf reports whether a running capture is the capture that the user asked for.
func (d *Donor) isDonorOf(p *v1alpha1.Prototype) bool {
	return p.Spec.Donor.NodeName == d.Node.Name || d.OfPool && p.Spec.Pioneer != nil
}

func (d *Donor) inFlight(p *v1alpha1.Prototype, version string) (Decision, error) {
	switch {
	case !p.DeletionTimestamp.IsZero():
		return Decision{}, cluster.Refusef("Prototype %s of pool %s is being deleted and first releases %s, and nothing was changed: "+
			"wait, or follow with `kamino cancel %s`", p.Name, d.Pool.Name, p.Spec.DonorName(), p.Name)
	case !d.isDonorOf(p):
		return Decision{}, cluster.Refusef("another capture of pool %s is running: Prototype %s captures %s as version %s, and nothing was changed: "+
			"wait, or stop the capture with `kamino cancel %s`", d.Pool.Name, p.Name, p.Spec.DonorName(), p.Spec.Version, p.Name)
	case d.Patches && p.Spec.Pioneer == nil:
		return Decision{}, cluster.Refusef("node %s is being captured without a patch by Prototype %s, and nothing was changed: "+
			"follow with `kamino capture %s`, or stop the capture with `kamino cancel %s`", d.Node.Name, p.Name, d.Node.Name, p.Name)
	case version != "" && p.Spec.Version != version:
		return Decision{}, cluster.Refusef("node %s is being captured as version %s by Prototype %s, not as %s, and nothing was changed: "+
			"omit --version to follow this capture, or stop the capture with `kamino cancel %s`", d.Node.Name, p.Spec.Version, p.Name, version, p.Name)
	default:
		return Decision{Prototype: p.DeepCopy(), Existing: true}, nil
	}
}
