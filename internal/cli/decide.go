package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/imageversion"
	"github.com/kamino-dev/kamino/internal/membership"
	"github.com/kamino-dev/kamino/internal/policy"
)

// errOrdersMissing says how to install what an older Kamino did not need.
var errOrdersMissing = &ending{ExitRefused, errors.New(
	"this cluster doesn't know Orders, which this version of Kamino needs, and nothing was changed: write its definitions with `kamino crds --apply`")}

// maxTries is how often a decision is made anew because somebody else's came in between.
const maxTries = 100

// errCRDMissing says how to install what is not there.
var errCRDMissing = &ending{ExitRefused, errors.New(
	"this cluster doesn't know Prototypes yet, and nothing was changed: install Kamino's definitions with `kamino manifests | kubectl apply -f -`")}

// prototypes lists all Prototypes. There are a handful for each pool.
func (c *Cluster) prototypes(ctx context.Context) ([]v1alpha1.Prototype, error) {
	var list v1alpha1.PrototypeList
	err := c.Client.List(ctx, &list)
	switch {
	case apierrors.IsNotFound(err):
		return nil, errCRDMissing
	case err != nil:
		return nil, fmt.Errorf("list prototypes: %w", err)
	default:
		return list.Items, nil
	}
}

// donor is a node that was named, and where it belongs.
type donor struct {
	node *corev1.Node
	pool policy.Pool
	// of tells which pools the cluster's Prototypes belong to, in their order.
	of []cloud.Membership
}

// findDonor looks the node up and finds its pool, and the pools of the Prototypes.
func (c *Cluster) findDonor(ctx context.Context, provider cloud.Provider, name string, all []v1alpha1.Prototype) (*donor, error) {
	node, err := c.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, refusedf("there is no node %s in this cluster, and nothing was changed: `kubectl get nodes` lists them", name)
	}
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}
	if node.Spec.ProviderID == "" {
		return nil, refusedf("node %s has no spec.providerID, so no cloud's VM is known to be behind it, and nothing was changed: "+
			"is the cloud controller manager running?", name)
	}
	its, err := membership.OfNode(ctx, provider, node)
	switch {
	case err != nil:
		return nil, err
	case its.Pool == "":
		return nil, refusedf("node %s belongs to no pool that can be captured, and nothing was changed: %s", name, its.Why)
	}
	of, err := membership.OfPrototypes(ctx, provider, all)
	if err != nil {
		return nil, err
	}
	return &donor{node: node, pool: policy.Pool{ID: its.Pool, Name: provider.PoolName(its.Pool)}, of: of}, nil
}

// decision is the Prototype that a capture is done under, and whether it exists already.
type decision struct {
	prototype *v1alpha1.Prototype
	existing  bool
}

// decide finds the Prototype for the donor: one in flight for the same donor is gone on with, one in
// flight for another donor of the pool is in the way, and else there is a new one, under the first name of
// the day that no failed attempt has taken.
func decide(d *donor, version string, settings v1alpha1.Settings, all []v1alpha1.Prototype, now time.Time) (decision, error) {
	ofPool := d.pool.Its(all, d.of)
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
		if p := &ofPool[i]; p.Spec.Version == version && succeeded(p) {
			return decision{}, refusedf("pool %s was captured as version %s already (Prototype %s, from node %s), and nothing was changed: "+
				"there is one version of a pool and a day, unless another one is asked for with --version %s", d.pool.Name, version, p.Name, p.Spec.Donor.NodeName, nextTry(version, ofPool))
		}
	}
	found := v1alpha1.Donor{NodeName: d.node.Name, ProviderID: d.node.Spec.ProviderID}
	prototype, err := d.pool.Prototype(found, version, settings, all)
	if err != nil {
		return decision{}, refusedf("nothing was changed: %w", err)
	}
	return decision{prototype: prototype}, nil
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

func (d *donor) inFlight(p *v1alpha1.Prototype, version string) (decision, error) {
	switch {
	case !p.DeletionTimestamp.IsZero():
		return decision{}, refusedf("Prototype %s of pool %s is being deleted and gives its donor %s back first, and nothing was changed: "+
			"wait for it (`kamino cancel %s` shows how far it is)", p.Name, d.pool.Name, p.Spec.Donor.NodeName, p.Name)
	case p.Spec.Donor.NodeName != d.node.Name:
		return decision{}, refusedf("another capture of pool %s is in flight: Prototype %s captures node %s as version %s, and nothing was changed: "+
			"wait for it, or stop it with `kamino cancel %s`", d.pool.Name, p.Name, p.Spec.Donor.NodeName, p.Spec.Version, p.Name)
	case version != "" && p.Spec.Version != version:
		return decision{}, refusedf("node %s is being captured as version %s by Prototype %s, not as %s, and nothing was changed: "+
			"leave --version out to follow it, or stop it with `kamino cancel %s`", d.node.Name, p.Spec.Version, p.Name, version, p.Name)
	default:
		return decision{prototype: p.DeepCopy(), existing: true}, nil
	}
}

// parseVersion reads the flag --version: a day as YYYY.MM.DD, or a further version of it. Empty means today. A day that is to come would be in
// the way of all captures until then: none of them would be newer.
func parseVersion(text string, now time.Time) error {
	if text == "" {
		return nil
	}
	day, err := imageversion.Day(text)
	switch today := imageversion.Of(now); {
	case err != nil:
		return usagef("--version %q is not a day in the form YYYY.MM.DD, such as 2026.03.09, or 2026.03.0902 for the day's second version", text)
	case imageversion.Compare(imageversion.Of(day), today) > 0:
		return usagef("--version %s is a day to come: today is %s (UTC), and no version of the days between could follow it", text, today)
	default:
		return nil
	}
}

// nodeName takes what kubectl prints with -o name, too.
func nodeName(argument string) string {
	return strings.TrimPrefix(strings.TrimPrefix(argument, "node/"), "nodes/")
}
