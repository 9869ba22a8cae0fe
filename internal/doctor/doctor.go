// Package doctor finds obstacles for Kamino in a cluster and its pools before the installation. Each finding has a level, a
// subject and a remedy.
//
// The package changes nothing. For refusals of a capture, doctor uses the code of the preflight, so that both give the same
// message.
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

// Level is the severity of a finding.
type Level string

// Levels.
const (
	// OK: nothing to do.
	OK Level = "ok"
	// Warn: Kamino works, and a person should know.
	Warn Level = "warn"
	// Fail: Kamino would refuse or fail.
	Fail Level = "fail"
)

// Names of the checks, in order.
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

// Checks lists the names of the checks.
func Checks() []string {
	return []string{CheckClock, CheckInstallation, CheckRBAC, CheckLease, CheckKured, CheckNodes, CheckDisks, CheckReservations, CheckCredential,
		CheckPermissions, CheckPool, CheckProfile, CheckVersions, CheckImages, CheckPatching}
}

// Finding is the result of one check.
type Finding struct {
	Level Level  `json:"level"`
	Check string `json:"check"`
	// Subject is the pool of the finding; empty for the cluster.
	Subject string `json:"subject,omitempty"`
	// Reason of a refused capture, in one word.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	// Remedy is the remedy; empty without a problem.
	Remedy string `json:"remedy,omitempty"`
}

// Report holds all findings.
type Report struct {
	Findings []Finding `json:"findings"`
	OK       int       `json:"ok"`
	Warnings int       `json:"warnings"`
	Failures int       `json:"failures"`
}

// Doctor examines a cluster. Fields are required unless their comment says otherwise.
type Doctor struct {
	Kube kubernetes.Interface
	// Served reports whether the API server serves a kind of Kamino.
	Served func(ctx context.Context, resource string) (bool, error)
	// About is the cloud's description, with remedies in the cloud's words.
	About cloud.Description
	// Cloud is nil without a provider; CloudError then holds the reason.
	Cloud      cloud.Provider
	CloudError error
	// Skew is the lead of the API server's clock; false if unknown.
	Skew func() (time.Duration, bool)
	// Holder names the holder of the Lease, for a sentence; empty without a holder.
	Holder func(ctx context.Context) (string, error)
	// Prototypes lists all Prototypes; empty if the cluster has no definition. Without permission to list Prototypes, the
	// other checks still run.
	Prototypes func(ctx context.Context) ([]v1alpha1.Prototype, error)
	// Policies lists all policies; nil means no policies.
	Policies func(ctx context.Context) ([]v1alpha1.PrototypePolicy, error)
	// Case gathers the facts of a capture that does not exist: capture.Engine.Case.
	Case func(ctx context.Context, p *v1alpha1.Prototype) (*admission.Case, error)
	// Leftovers lists leftovers of lost captures, in the cluster and in the cloud. Optional.
	Leftovers func(ctx context.Context, pools []cloud.PoolID) ([]reservations.Leftover, error)
	// Kured is the DaemonSet of kured as NAMESPACE/NAME; empty skips the check.
	Kured     string
	Namespace string
	// PodNamespace of the generalize pods; empty means v1alpha1.DefaultGeneralizeNamespace.
	PodNamespace string
	// Only, if set, limits the checks to one pool: cloud.ResolvePool.
	Only string
	Now  func() time.Time

	// who is this command's user, as the API server reports.
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
	// policies of the cluster; empty after an error.
	policies []v1alpha1.PrototypePolicy
	// captureError and policyError are the errors of the lists of Prototypes and policies.
	captureError, policyError error
	// lacking: the installation is incomplete, which is a finding of its own.
	lacking bool
	// unplaced is the cloud's error for the nodes' pools.
	unplaced error
	// unmeant is the reason why Only matches no pool.
	unmeant error
	// outside is a node without a pool, with the reason; empty if there is none.
	outside string
}

// members are the nodes of a pool, as far as the checks need the nodes.
type members struct {
	name             string
	nodes, ready     int
	donors           []donor
	patched, pending int // by annotation
	unreadable       int // with an annotation that is no time
	system           string
	names            map[string]string // of the nodes, by instance in lower case
	selected         []string          // policies that select one of the nodes
}

// Examine runs all checks. An error means that the cluster did not answer at all.
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

// limit drops the pools that Only excludes.
func (d *Doctor) limit(ctx context.Context) {
	if d.Only == "" || d.Cloud == nil {
		return
	}
	var meant cloud.PoolID
	meant, d.unmeant = cloud.Find(ctx, d.Cloud, d.Only, slices.Collect(maps.Keys(d.pools)))
	maps.DeleteFunc(d.pools, func(id cloud.PoolID, _ *members) bool { return id != meant })
	if d.unmeant == nil && len(d.pools) == 0 { // the pool has no nodes
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

// poolsOf returns the nodes' pools. A cloud error is a finding, and ends further requests.
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

// lookAtNode counts a node; the pool is empty if there is none or if the pool is unknown.
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
