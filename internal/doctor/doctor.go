// Package doctor looks for everything that would keep Kamino from working in a cluster and on its pools, before
// anything is installed: each finding says how bad it is, what it is about, and what to do.
//
// It changes nothing. What a capture's own preflight refuses is asked of the same code, so that both say the same.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/membership"
	"github.com/kamino-dev/kamino/internal/node"
	"github.com/kamino-dev/kamino/internal/nodestate"
	"github.com/kamino-dev/kamino/internal/reservations"
)

// Level is how bad a finding is.
type Level string

// Levels.
const (
	// OK: nothing is to be done.
	OK Level = "ok"
	// Warn: it works, and somebody should know.
	Warn Level = "warn"
	// Fail: something would be refused, or fail.
	Fail Level = "fail"
)

// Names of the checks, in the order in which they are made.
const (
	CheckClock        = "clock"
	CheckInstallation = "installation"
	CheckRBAC         = "rbac"
	CheckLease        = "lease"
	CheckKured        = "kured"
	CheckNodes        = "nodes"
	CheckDisks        = "disks"
	CheckReservations = "reservations"
	CheckCredential   = "credential"
	CheckPermissions  = "permissions"
	CheckPool         = "pool"
	CheckProfile      = "profile"
	CheckVersions     = "versions"
	CheckImages       = "images"
	CheckPatching     = "patching"
)

// Checks lists their names.
func Checks() []string {
	return []string{CheckClock, CheckInstallation, CheckRBAC, CheckLease, CheckKured, CheckNodes, CheckDisks, CheckReservations, CheckCredential,
		CheckPermissions, CheckPool, CheckProfile, CheckVersions, CheckImages, CheckPatching}
}

// Finding is one thing that was looked at.
type Finding struct {
	Level Level  `json:"level"`
	Check string `json:"check"`
	// Subject is the pool that it is about; empty for the cluster.
	Subject string `json:"subject,omitempty"`
	// Reason in one word, where a capture would be refused for it.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	// Remedy says what to do; empty for what is in order.
	Remedy string `json:"remedy,omitempty"`
}

// Report is all that was found.
type Report struct {
	Findings []Finding `json:"findings"`
	OK       int       `json:"ok"`
	Warnings int       `json:"warnings"`
	Failures int       `json:"failures"`
}

// Doctor examines a cluster. Fields are needed unless they say otherwise.
type Doctor struct {
	Kube kubernetes.Interface
	// Served tells whether the API server serves a kind of Kamino's.
	Served func(ctx context.Context, resource string) (bool, error)
	// About is what the cloud says of itself: remedies in its own words.
	About cloud.Description
	// Cloud is nil if no provider could be made; CloudError then says why.
	Cloud      cloud.Provider
	CloudError error
	// Skew is how far the API server's clock is ahead; false if it has not been heard.
	Skew func() (time.Duration, bool)
	// Holder says who holds the Lease, for a sentence; empty if nobody does.
	Holder func(ctx context.Context) (string, error)
	// Prototypes lists all, as much as telling holders of nodes needs; none if the cluster does not know them. Without the right to
	// list them the other checks are made.
	Prototypes func(ctx context.Context) ([]v1alpha1.Prototype, error)
	// Policies lists all; none are known if it is nil.
	Policies func(ctx context.Context) ([]v1alpha1.PrototypePolicy, error)
	// Case gathers what speaks for or against a capture that is only thought of: the engine's own.
	Case func(ctx context.Context, p *v1alpha1.Prototype) (*admission.Case, error)
	// Leftovers lists what captures have left that are gone, in the cluster and beside the pools. Optional.
	Leftovers func(ctx context.Context, pools []cloud.PoolID) ([]reservations.Leftover, error)
	// Kured is the DaemonSet of kured as NAMESPACE/NAME. None is looked for if it is empty.
	Kured     string
	Namespace string
	// PodNamespace is where the generalize pods run. v1alpha1.DefaultGeneralizeNamespace if empty.
	PodNamespace string
	// Only, if set, limits the pools to the one that is meant by it: cloud.ResolvePool.
	Only string
	Now  func() time.Time

	// who is whom the API server takes this command's user for.
	who      string
	findings []Finding
	pools    map[cloud.PoolID]*members
	nodes    int
	inTree   []string
	csi      int
	captures reservations.Captures
	// prototypes of the cluster.
	prototypes    []v1alpha1.Prototype
	reservedNodes []reservations.Node
	// leases of reservations, and why they could not be listed.
	leases     []node.Lease
	leaseError error
	// policies of the cluster; none if they could not be listed.
	policies []v1alpha1.PrototypePolicy
	// captureError and policyError say why Prototypes and policies could not be listed.
	captureError, policyError error
	// lacking: what is installed is not all, which is a finding of its own.
	lacking bool
	// unplaced is why the cloud did not tell the nodes' pools.
	unplaced error
	// unmeant says why Only means no pool.
	unmeant error
	// outside is a node that belongs to no pool, and why; empty if there is none that anything is known of.
	outside string
}

// members are the nodes of a pool, as much as the checks need.
type members struct {
	name             string
	nodes, ready     int
	donors           []donor
	patched, pending int // by an annotation that says so
	unreadable       int // with an annotation that is no time
	system           string
	names            map[string]string // of the nodes, by instance in lower case
	selected         []string          // policies that select one of the nodes
}

// Examine makes every check. An error means that the cluster could not be looked at at all.
func (d *Doctor) Examine(ctx context.Context) (Report, error) {
	d.findings, d.pools, d.reservedNodes, d.unplaced, d.lacking = nil, map[cloud.PoolID]*members{}, nil, nil, false
	all, err := d.Prototypes(ctx)
	if err != nil && !apierrors.IsForbidden(err) {
		return Report{}, err
	}
	d.captureError = err
	d.captures, d.prototypes = reservations.CapturesOf(all), all
	d.leases, d.leaseError = (node.Reservations{Kube: d.Kube, Namespace: d.Namespace, Now: d.Now}).All(ctx)
	d.policies, d.policyError = policiesOf(ctx, d.Policies)
	if err := d.lookAtNodes(ctx); err != nil {
		return Report{}, err
	}
	d.limit(ctx)
	d.identify(ctx)
	d.clock()
	d.installation(ctx)
	d.bindings(ctx)
	formerPods(ctx, d)
	d.admission()
	if d.policyError != nil {
		d.add(Finding{Level: Warn, Check: CheckInstallation,
			Message: fmt.Sprintf("unknown whether policies need more permissions: %s", d.policyError)})
	}
	d.findings = append(d.findings, unreadable(d.policies, d.prototypes)...)
	d.rbac(ctx)
	d.lease(ctx)
	d.kured(ctx)
	d.nodesFound()
	d.disks()
	d.reservations(ctx)
	if d.credential() {
		for _, id := range d.ordered() {
			d.pool(ctx, id, d.pools[id])
		}
	}
	return d.report(), nil
}

// limit leaves out the pools that are not asked for.
func (d *Doctor) limit(ctx context.Context) {
	if d.Only == "" || d.Cloud == nil {
		return
	}
	var meant cloud.PoolID
	meant, d.unmeant = cloud.Find(ctx, d.Cloud, d.Only, slices.Collect(maps.Keys(d.pools)))
	maps.DeleteFunc(d.pools, func(id cloud.PoolID, _ *members) bool { return id != meant })
	if d.unmeant == nil && len(d.pools) == 0 { // it has no nodes
		d.pools[meant] = &members{name: d.Cloud.PoolName(meant)}
	}
}

func (d *Doctor) report() Report {
	r := Report{Findings: d.findings}
	for _, f := range d.findings {
		switch f.Level {
		case OK:
			r.OK++
		case Warn:
			r.Warnings++
		case Fail:
			r.Failures++
		}
	}
	return r
}

func (d *Doctor) add(f Finding) { d.findings = append(d.findings, f) }

func (d *Doctor) ok(check, subject, format string, args ...any) {
	d.add(Finding{Level: OK, Check: check, Subject: subject, Message: fmt.Sprintf(format, args...)})
}

// ordered are the pools' IDs, by name.
func (d *Doctor) ordered() []cloud.PoolID {
	var ids []cloud.PoolID
	for id := range d.pools {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b cloud.PoolID) int {
		return cmp.Or(cmp.Compare(d.pools[a].name, d.pools[b].name), cmp.Compare(a, b))
	})
	return ids
}

func (d *Doctor) lookAtNodes(ctx context.Context) error {
	return node.Pages(ctx, d.Kube, "", func(page []corev1.Node) error {
		found := d.poolsOf(ctx, page)
		for i := range page {
			d.lookAtNode(&page[i], found[i])
		}
		return nil
	})
}

// poolsOf tells the nodes' pools. A cloud that does not say is a finding, and is asked no more.
func (d *Doctor) poolsOf(ctx context.Context, nodes []corev1.Node) []cloud.Membership {
	none := make([]cloud.Membership, len(nodes))
	if d.Cloud == nil || d.unplaced != nil {
		return none
	}
	values := make([]cloud.NodeValues, len(nodes))
	for i := range nodes {
		values[i] = membership.Values(&nodes[i])
	}
	var found []cloud.Membership
	if found, d.unplaced = membership.Of(ctx, d.Cloud, values...); d.unplaced != nil {
		return none
	}
	return found
}

// lookAtNode counts a node, whose pool is empty if it has none or nobody can tell.
func (d *Doctor) lookAtNode(n *corev1.Node, of cloud.Membership) {
	d.nodes++
	found, isReserved := d.captures.Of(n)
	if d.leaseError == nil {
		found, isReserved = d.captures.Confirm(n, found, isReserved, node.ReservationOf(d.leases, n))
	}
	if isReserved {
		d.reservedNodes = append(d.reservedNodes, found)
	}
	for _, v := range n.Status.VolumesAttached {
		switch {
		case strings.HasPrefix(string(v.Name), "kubernetes.io/csi/"):
			d.csi++
		case d.About.OldDriver != "" && strings.HasPrefix(string(v.Name), d.About.OldDriver) && !slices.Contains(d.inTree, n.Name):
			d.inTree = append(d.inTree, n.Name)
		}
	}
	id := of.Pool
	if id == "" {
		if d.outside == "" && of.Why != "" {
			d.outside = "node " + n.Name + ": " + of.Why
		}
		return
	}
	name := d.Cloud.PoolName(id)
	if d.pools[id] == nil {
		d.pools[id] = &members{name: name, names: map[string]string{}}
	}
	d.pools[id].names[strings.ToLower(n.Spec.ProviderID)] = n.Name
	d.pools[id].count(n)
	d.pools[id].selectedBy(n, d.policies)
}

func (m *members) count(n *corev1.Node) {
	m.nodes++
	if m.system = n.Labels[corev1.LabelOSStable]; m.system == "" {
		m.system = n.Status.NodeInfo.OperatingSystem
	}
	if nodestate.Ready(n) {
		m.ready++
	}
	m.donors = append(m.donors, donor{n.Name, n.Spec.ProviderID, nodestate.Available(n) && n.Annotations[v1alpha1.ReservationAnnotation] == "", nodestate.Ready(n)})
	m.readPatching(n)
}
