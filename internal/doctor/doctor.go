// Package doctor finds obstacles for Kamino in a cluster and its pools before the installation. Each finding has a level, a
// subject and a remedy.
//
// The package changes nothing. For refusals of a capture, doctor uses the code of the preflight, so that both give the same
// message.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/pool/membership"
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
	CheckAttention    = "attention"
)

// clusterChecks run once, in this order. A finding without a check of its own belongs to the check in the table.
var clusterChecks = []struct {
	check string
	find  func(context.Context, *observed) []Finding
}{
	{CheckClock, clock},
	{CheckInstallation, installation},
	{CheckInstallation, definitions},
	{CheckInstallation, formerBindings},
	{CheckInstallation, formerPods},
	{CheckInstallation, admissionPolicies},
	{CheckInstallation, unreadable},
	{CheckRBAC, rbac},
	{CheckLease, lease},
	{CheckKured, kuredLock},
	{CheckNodes, nodesInPools},
	{CheckDisks, disks},
	{CheckReservations, reserved},
	{CheckAttention, attentive},
	{CheckCredential, credential},
}

// poolChecks run for each pool that the credential can read, in this order.
var poolChecks = []struct {
	check string
	find  func(context.Context, *poolView) []Finding
}{
	{CheckPermissions, permissions},
	{CheckPool, recipe},
	{CheckPool, preflight},
	{CheckKured, rebooters},
	{CheckProfile, profile},
	{CheckVersions, versions},
	{CheckImages, images},
	{CheckPatching, func(_ context.Context, p *poolView) []Finding { return patching(p.members) }},
}

// Checks lists the names of the checks.
func Checks() []string {
	var names []string
	for _, c := range clusterChecks {
		names = append(names, c.check)
	}
	for _, c := range poolChecks {
		names = append(names, c.check)
	}
	slices.Sort(names)
	return slices.Compact(names)
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

// ok is a finding without a problem.
func ok(format string, args ...any) Finding {
	return Finding{Level: OK, Message: fmt.Sprintf(format, args...)}
}

// warn is a finding for a person; an unknown fact has no remedy.
func warn(remedy, format string, args ...any) Finding {
	return Finding{Level: Warn, Message: fmt.Sprintf(format, args...), Remedy: remedy}
}

// fail is a finding that prevents work of Kamino.
func fail(reason, remedy, format string, args ...any) Finding {
	return Finding{Level: Fail, Reason: reason, Message: fmt.Sprintf(format, args...), Remedy: remedy}
}

// Report holds all findings.
type Report struct {
	Findings []Finding `json:"findings"`
	OK       int       `json:"ok"`
	Warnings int       `json:"warnings"`
	Failures int       `json:"failures"`

	added map[Finding]bool
}

// add adds the new findings of a check about a subject.
func (r *Report) add(check, subject string, found ...Finding) {
	for _, f := range found {
		f.Check = cmp.Or(f.Check, check)
		if subject != "" && f.Check != CheckInstallation { // the installation is a matter of the cluster
			f.Subject = subject
		}
		if r.added[f] {
			continue
		}
		if r.added == nil {
			r.added = map[Finding]bool{}
		}
		r.Findings, r.added[f] = append(r.Findings, f), true
		switch f.Level {
		case OK:
			r.OK++
		case Warn:
			r.Warnings++
		case Fail:
			r.Failures++
		}
	}
}

// Doctor examines a cluster. Fields are required unless their comment says otherwise.
type Doctor struct {
	Kube kubernetes.Interface
	// Served reports whether the API server serves a kind of Kamino.
	Served func(ctx context.Context, resource string) (bool, error)
	// Difference says how the definitions of the cluster differ from those of this version; empty if they do not. Nil skips the check.
	Difference func(ctx context.Context) (string, error)
	// About is the cloud's description, with remedies in the cloud's words.
	About cloud.Description
	// Cloud is nil without a provider; CloudError then holds the reason.
	Cloud      Cloud
	CloudError error
	// Skew is the lead of the API server's clock; false if unknown.
	Skew func() (time.Duration, bool)
	// Lease reads whether a process works on captures.
	Lease func(ctx context.Context) (attention.Lease, error)
	// Prototypes lists all Prototypes; empty if the cluster has no definition. Without permission to list Prototypes, the
	// other checks still run.
	Prototypes func(ctx context.Context) ([]v1alpha1.Prototype, error)
	// Policies lists all policies; nil means no policies.
	Policies func(ctx context.Context) ([]v1alpha1.PrototypePolicy, error)
	// Case gathers the facts of a capture that does not exist: capture.Engine.Case.
	Case func(ctx context.Context, p *v1alpha1.Prototype, seen *membership.Cluster) (*admission.Case, error)
	// Leftovers lists leftovers of lost captures, in the cluster and in the cloud. Optional.
	Leftovers func(ctx context.Context, pools []cloud.PoolID, seen *membership.Cluster) ([]reservations.Leftover, error)
	// Kured is the DaemonSet of kured as NAMESPACE/NAME; empty skips the check.
	Kured     string
	Namespace string
	// PodNamespace of the generalize pods; empty means v1alpha1.DefaultGeneralizeNamespace.
	PodNamespace string
	// Only, if set, limits the checks to one pool: cloud.ResolvePool.
	Only string
	Now  func() time.Time
}

// Examine runs all checks. An error means that the cluster did not answer at all.
func (d *Doctor) Examine(ctx context.Context) (r Report, err error) {
	c, err := observe(ctx, d)
	if err != nil {
		return r, err
	}
	for _, check := range clusterChecks {
		r.add(check.check, "", check.find(ctx, c)...)
	}
	defer func() { r.add(CheckAttention, "", calm(r.Findings)...) }()
	if d.Cloud == nil {
		return r, nil
	}
	ids := c.ordered()
	ctx = cloud.WithReadCache(ctx) // checks share the answers of the cloud
	parts, said := make([]Report, len(ids)), make([]attention.Pool, len(ids))
	cloud.EachPool(ctx, d.Cloud, ids, func(ctx context.Context, i int) { parts[i], said[i] = examinePool(ctx, c, ids[i]) })
	items := map[string][]attention.Item{}
	for _, i := range c.needsPerson(said, nil) {
		items[i.Pool] = append(items[i.Pool], i)
	}
	for i, part := range parts {
		r.add(CheckAttention, said[i].Name, findingsOf(items[said[i].Name], CheckAttention)...)
		for _, f := range part.Findings {
			r.add(f.Check, "", f)
		}
	}
	return r, nil
}

// examinePool runs the checks of a pool, and returns the pool for the list of what needs a person.
func examinePool(ctx context.Context, c *observed, id cloud.PoolID) (r Report, said attention.Pool) {
	p, err := c.view(ctx, id)
	if err != nil {
		r.add(CheckCredential, p.name, c.refusedByCloud(err))
		r.add(CheckPatching, p.name, patching(p.members)...)
		return r, attention.Pool{Name: p.name}
	}
	r.add(CheckCredential, p.name, ok("the credential can read the pool"))
	for _, check := range poolChecks {
		r.add(check.check, p.name, check.find(ctx, p)...)
	}
	return r, saidOf(ctx, p)
}

// pods is the namespace of the generalize pods.
func (d *Doctor) pods() string { return cmp.Or(d.PodNamespace, v1alpha1.DefaultGeneralizeNamespace) }

// refused turns a refusal into a finding.
func (d *Doctor) refused(r cloud.Refusal) Finding {
	return fail(r.Reason, cmp.Or(r.Remedy, "see "+d.About.Docs), "%s", r.What())
}

// refusedByCloud is the finding about the credential after a failed call.
func (d *Doctor) refusedByCloud(err error) Finding {
	kind := cloud.KindOf(err)
	f := fail(string(kind), d.About.Remedies.Credential, "%s", sentence(err))
	f.Check = CheckCredential
	switch kind {
	case cloud.Denied:
		f.Check, f.Remedy = CheckPermissions, d.About.Remedies.Permissions
	case cloud.Throttled, cloud.Unavailable:
		f.Remedy = "try again later; if the error persists, check the network path to the cloud"
	case cloud.NotFound:
		f.Remedy = d.About.Remedies.Pool
	default:
	}
	return f
}

// sentence is the cloud's part of an error, or the whole error.
func sentence(err error) string {
	var e *cloud.Error
	if errors.As(err, &e) {
		return e.Error()
	}
	return err.Error()
}
