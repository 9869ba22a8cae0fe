// Package trial decides whether a version is good, by named checks of a trial node that was built from the version.
//
// The package is pure: callers build the node and pass in their observations.
package trial

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Result is the result of a check, and of a trial.
type Result string

const (
	// Pending: the result is not known yet.
	Pending Result = "Pending"
	Passed  Result = "Passed"
	Failed  Result = "Failed"
	// Inconclusive: the result will stay unknown in this attempt, and the version is not the cause. It is never a
	// failure.
	Inconclusive Result = "Inconclusive"
	// Skipped: there was nothing to check, or the check is off.
	Skipped Result = "Skipped"
)

// CheckName is the name of a check. The constants are in the order of the checks.
type CheckName string

const (
	// Provisioned: the instance is created and running.
	Provisioned CheckName = "Provisioned"
	// Registered: the instance has a Node.
	Registered CheckName = "Registered"
	// Ready: the Node has been Ready for two minutes.
	Ready CheckName = "Ready"
	// Daemons: every DaemonSet that is healthy on other nodes is Ready here, with few restarts.
	Daemons CheckName = "DaemonSets"
	// Identity: no other node has the machine ID or the system UUID of the node.
	Identity CheckName = "Identity"
	// Differences: the node differs in nothing from the other nodes of its pool.
	Differences CheckName = "Differences"
	// Disk: the manifest on the disk matches the proof.
	Disk CheckName = "Disk"
	// Network: pods on the node reach other nodes, Services and DNS names, and are reachable.
	Network CheckName = "Network"
	// Images: a container image on the disk starts without a pull, and another image can be pulled.
	Images CheckName = "Images"
	// Performance: disk, processor and limit of open files are like those of another node of the pool.
	Performance CheckName = "Performance"
	// Job: the user's own job succeeds.
	Job CheckName = "Job"
	// Soaked: the node has stayed Ready for the soak time.
	Soaked CheckName = "Soaked"
	// Rebooted: the node is Ready again after the cloud has restarted its instance.
	Rebooted CheckName = "Reboot"
)

// Limits are the time limits of a trial. A zero field has its default.
type Limits struct {
	// Provision is the time for creating the instance. Default: ten minutes.
	Provision time.Duration
	// Register is the time from the running instance to the Node. Default: ten minutes.
	Register time.Duration
	// Ready is the time for the Node to become Ready, and Daemons for its DaemonSets. Default: ten minutes each.
	Ready, Daemons time.Duration
	// Settle is how long the Node must have been Ready. Default: two minutes.
	Settle time.Duration
	// Soak is how long the Node must stay Ready. Default: ten minutes.
	Soak time.Duration
	// Measure is the time for measurements by pods. Default: five minutes.
	Measure time.Duration
	// Job is the time for the user's job, and Reboot for the node to become Ready after a restart. Default: ten minutes each.
	Job, Reboot time.Duration
}

// Defaulted returns the limits with defaults for zero fields.
func (l Limits) Defaulted() Limits {
	for _, limit := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&l.Provision, 10 * time.Minute}, {&l.Register, 10 * time.Minute}, {&l.Ready, 10 * time.Minute}, {&l.Daemons, 10 * time.Minute},
		{&l.Settle, 2 * time.Minute}, {&l.Soak, 10 * time.Minute}, {&l.Measure, 5 * time.Minute}, {&l.Job, 10 * time.Minute}, {&l.Reboot, 10 * time.Minute},
	} {
		if *limit.value <= 0 {
			*limit.value = limit.standard
		}
	}
	return l
}

// Within returns the limits of a trial with the timeout and the soak. No single check takes more than half of the
// timeout, so that the trial can reach a verdict. Settle is at most the soak.
func Within(timeout, soak time.Duration) Limits {
	l := Limits{Soak: max(soak, 1)}.Defaulted() // Defaulted would replace zero by ten minutes
	for _, limit := range []*time.Duration{&l.Provision, &l.Register, &l.Ready, &l.Daemons, &l.Measure, &l.Job, &l.Reboot} {
		*limit = min(*limit, timeout/2)
	}
	l.Settle = min(l.Settle, l.Soak)
	return l
}

const (
	// mostRestarts is the largest number of restarts of a DaemonSet's pod on the node.
	mostRestarts = 2
	// mostUnread is the number of failed looks in a row after which a trial is inconclusive.
	mostUnread = 4
	// tries is how many soaks a node has in which to stay Ready, because readiness may be interrupted.
	tries = 3
)

// Instance is the instance of the trial node.
type Instance struct {
	// Running is when the instance started to run; zero before the start.
	Running time.Time
	// Refused is the cloud's message about missing capacity or quota. Nothing is then known about the version.
	Refused string
	// Broken is the cloud's error if the image is the cause. Unclear is the error if the cause is unknown.
	Broken, Unclear string
	// Error is the cloud's latest error while the cloud still tries to make the instance.
	Error string
	// Gone is true if another client has removed the instance.
	Gone bool
}

// Daemon is the state of a healthy DaemonSet on this node.
type Daemon struct {
	Name  string
	Ready bool
	// Restarts of the pod since it was first Ready.
	Restarts int32
	// Why is the reason from the pod for not being Ready, if known.
	Why string
	// Since is when the DaemonSet was first seen not Ready, without a break; zero for a Ready DaemonSet.
	Since time.Time
	// Rollout is true if the pod is of a template that no other node has proven yet.
	Rollout bool
}

// Measure is the result of one measurement by pods on the node.
type Measure struct {
	// Result is Pending during the measurement, and Skipped without a partner such as a second node.
	Result Result
	// Says is the failure, or why there is no result.
	Says string
}

// PeerComparison is the latest comparison of the node with the other nodes of the pool.
type PeerComparison struct {
	// Others is the number of compared nodes. Skipped is the reason against a comparison; else empty.
	Others  int
	Skipped string
	// Oldest is when the oldest node of a version of the pool was built; zero if unknown.
	Oldest time.Time
	// Differences are present in each comparison since their time.
	Differences []LastingDifference
	// Notes are what the comparison left out: properties in which the other nodes disagree, and forged Nodes.
	Notes []string
}

// LastingDifference is a difference with the time of its first comparison.
type LastingDifference struct {
	Difference
	Since time.Time
}

// Expectation is a user's expression about the node, and a check of its own.
type Expectation struct {
	Name CheckName
	// Evaluated is false before the first evaluation. Error is the error of the evaluation; else empty.
	Evaluated, Met bool
	Error          string
	// Since is the time of the first such result without a break.
	Since time.Time
}

// Facts are the observations of a trial.
type Facts struct {
	// Now is the time of the observation.
	Now time.Time
	// Begun is when the instance was requested.
	Begun  time.Time
	Limits Limits

	// FailedReads is the number of failed looks in a row. Unobserved is the total time without looks since the start; it is held
	// against no node.
	FailedReads int
	Unobserved  time.Duration
	Instance    Instance

	// Node and NodeUID are those of the Node; empty without a Node. Registered is the creation of the Node.
	Node, NodeUID string
	Registered    time.Time
	// Doubt is why no Node can be attributed to the instance: two Nodes name the instance, or a Node was deleted; else
	// empty.
	Doubt string
	// Unproven is why the Node, or its absence, is not trusted: any client may have created or deleted the Node.
	// Unproven is empty if the kubelet's Lease confirms the Node, or if the cluster has no such Leases.
	Unproven string
	// WithoutProviderID is true if the Node has no provider ID, and is the instance's by name, address or system UUID.
	WithoutProviderID bool
	// Ready is the condition of the Node, and Changed its last change. WasReady is true if the Node was Ready before.
	Ready, WasReady bool
	Changed         time.Time

	Daemons []Daemon
	// IdentityKnown is true if the node's IDs were compared. Twins are other nodes with one of the IDs. DoubtfulTwins
	// claim an ID without evidence of an earlier claim; each has the reason.
	IdentityKnown        bool
	Twins, DoubtfulTwins []string
	// Comparison is the comparison with the other nodes of the pool; nil before the first comparison.
	Comparison *PeerComparison

	// Expectations are the user's expressions, in their order.
	Expectations []Expectation

	// Digest is the manifest's digest on the disk, and Proven the digest in the proof. Empty if unread.
	Digest, Proven string
	// Certificate is the credential on the disk that ends first, from the proof.
	Certificate Certificate

	Network, Images, Performance, Job Measure

	Reboot Reboot
}

// since returns the time since t without the time in which no look was possible.
func (f Facts) since(t time.Time) time.Duration { return f.Now.Sub(t) - f.Unobserved }

// Check is one check with its result.
type Check struct {
	Name    CheckName `json:"name"`
	Result  Result    `json:"result"`
	Message string    `json:"message"`
}

// check is a check of the trial. After a gate that has not passed, no further check is evaluated.
type check struct {
	name CheckName
	gate bool
	look func(Facts) (Result, string)
}

// checks in order.
var checks = []check{
	{Provisioned, true, provisioned},
	{Registered, true, registered},
	{Ready, true, ready},
	{Daemons, false, daemons},
	{Identity, false, identity},
	{Differences, false, comparedWithPeers},
	{Disk, false, disk},
	{Network, false, func(f Facts) (Result, string) { return f.measured(f.Network, f.Limits.Measure) }},
	{Images, false, func(f Facts) (Result, string) { return f.measured(f.Images, f.Limits.Measure) }},
	{Performance, false, performance},
	{Job, false, func(f Facts) (Result, string) { return f.measured(f.Job, f.Limits.Job) }},
	{Soaked, false, soaked},
	{Rebooted, false, rebooted},
}

// checksOf are the checks with the user's expressions, which follow the comparison with other nodes.
func checksOf(f Facts) []check {
	all := slices.Clone(checks)
	at := 1 + slices.IndexFunc(all, func(c check) bool { return c.name == Differences })
	for i, e := range f.Expectations {
		all = slices.Insert(all, at+i, check{e.Name, false, e.evaluate})
	}
	return all
}

// Names returns the names of the checks in order, without the user's expressions.
func Names() []CheckName {
	names := make([]CheckName, len(checks))
	for i, check := range checks {
		names[i] = check.name
	}
	return names
}

func provisioned(f Facts) (Result, string) {
	switch {
	case f.Instance.Gone:
		return Inconclusive, "the instance is gone: another client removed the instance"
	case !f.Instance.Running.IsZero():
		return Passed, fmt.Sprintf("the instance ran %s after the request", span(f.Instance.Running.Sub(f.Begun)))
	case f.Instance.Broken != "":
		return Failed, "the cloud could not make an instance from the version: " + f.Instance.Broken
	case f.Instance.Refused != "":
		return Inconclusive, "the cloud has no instance to spare: " + f.Instance.Refused
	case f.Instance.Unclear != "":
		return Inconclusive, "the cloud could not make an instance, and the cause may not be the version: " + f.Instance.Unclear
	case f.since(f.Begun) > f.Limits.Provision:
		return Inconclusive, fmt.Sprintf("the cloud has not made an instance within %s", span(f.Limits.Provision)) + f.Instance.latestError()
	default:
		return Pending, "the cloud makes the instance" + f.Instance.latestError()
	}
}

func (i Instance) latestError() string {
	if i.Error == "" {
		return ""
	}
	return "; the latest error: " + i.Error
}

func registered(f Facts) (Result, string) {
	switch {
	case f.Doubt != "":
		return Inconclusive, f.Doubt
	case f.Unproven != "" && f.since(f.Instance.Running) > f.Limits.Register:
		return Inconclusive, f.Unproven
	case f.Unproven != "":
		return Pending, f.Unproven
	case f.WithoutProviderID && f.since(f.Instance.Running) > f.Limits.Register:
		return Failed, fmt.Sprintf("node %s has no provider ID: check the kubelet's flags --cloud-provider and --provider-id on the disk", f.Node)
	case f.WithoutProviderID:
		return Pending, fmt.Sprintf("node %s has no provider ID yet", f.Node)
	case f.Node != "":
		return Passed, fmt.Sprintf("node %s was registered %s after the start of the instance", f.Node, span(f.Registered.Sub(f.Instance.Running)))
	case f.since(f.Instance.Running) > f.Limits.Register:
		return Failed, fmt.Sprintf("the instance has run for %s, and there is no Node", span(f.Limits.Register))
	default:
		return Pending, "the instance has no Node yet"
	}
}

func ready(f Facts) (Result, string) {
	switch {
	case f.Ready && f.since(f.Changed) >= f.Limits.Settle:
		return Passed, fmt.Sprintf("node %s was Ready %s after the start of the instance", f.Node, span(f.Changed.Sub(f.Instance.Running)))
	case f.WasReady && f.since(later(f.Registered, f.Reboot.Accepted)) > f.Limits.Ready+tries*f.Limits.Soak:
		return Failed, fmt.Sprintf("node %s does not stay Ready", f.Node)
	case f.Ready:
		return Pending, fmt.Sprintf("node %s has just become Ready, and is watched until %s",
			f.Node, f.clock(max(f.Limits.Settle, f.Limits.Soak)-f.since(f.Changed)))
	case f.WasReady && f.since(f.Changed) > f.Limits.Settle:
		return Failed, fmt.Sprintf("node %s was Ready, and is not any more", f.Node)
	case f.WasReady:
		return Pending, fmt.Sprintf("node %s was Ready, and is not at the moment", f.Node)
	case f.since(f.Registered) > f.Limits.Ready:
		return Failed, fmt.Sprintf("node %s is not Ready, %s after the registration", f.Node, span(f.Limits.Ready))
	default:
		return Pending, fmt.Sprintf("node %s is not Ready yet", f.Node)
	}
}

func daemons(f Facts) (Result, string) {
	var waiting, late []string
	for _, d := range f.Daemons {
		switch {
		case d.Restarts > mostRestarts:
			return Failed, fmt.Sprintf("DaemonSet %s was restarted %d times on node %s%s", d.Name, d.Restarts, f.Node, because(d.Why))
		case d.Ready:
		case d.Rollout:
			waiting = append(waiting, d.Name+" (rollout in progress)")
		default:
			waiting = append(waiting, d.Name+because(d.Why))
			if f.since(later(d.Since, f.Changed)) > f.Limits.Daemons {
				late = append(late, d.Name+because(d.Why))
			}
		}
	}
	switch {
	case len(f.Daemons) == 0:
		return Skipped, "no DaemonSet is healthy on other nodes"
	case len(waiting) == 0 && len(f.Daemons) == 1:
		return Passed, fmt.Sprintf("the only healthy DaemonSet of other nodes is healthy on node %s", f.Node)
	case len(waiting) == 0:
		return Passed, fmt.Sprintf("all %d healthy DaemonSets of other nodes are healthy on node %s", len(f.Daemons), f.Node)
	case len(late) > 0:
		return Failed, fmt.Sprintf("not Ready on node %s for %s, but Ready on other nodes: %s", f.Node, span(f.Limits.Daemons), strings.Join(late, "; "))
	default:
		return Pending, fmt.Sprintf("awaited on node %s: %s", f.Node, strings.Join(waiting, "; "))
	}
}

func identity(f Facts) (Result, string) {
	switch {
	case len(f.Twins) > 0:
		return Failed, fmt.Sprintf("node %s has the machine ID or the system UUID of %s", f.Node, strings.Join(f.Twins, ", "))
	case len(f.DoubtfulTwins) > 0:
		return Inconclusive, fmt.Sprintf("node %s has the machine ID or the system UUID of %s; find the client that writes the status of the Node",
			f.Node, strings.Join(f.DoubtfulTwins, ", "))
	case f.IdentityKnown:
		return Passed, fmt.Sprintf("no other node has the machine ID or the system UUID of node %s", f.Node)
	default:
		return Inconclusive, fmt.Sprintf("node %s does not report the machine ID and the system UUID", f.Node)
	}
}

// evaluate judges the expression. Labels and devices may come late, so that a result must last for the time of a
// measurement.
func (e Expectation) evaluate(f Facts) (Result, string) {
	lasts := f.since(later(e.Since, f.Changed)) > f.Limits.Measure
	switch {
	case !e.Evaluated:
		return Pending, "is evaluated"
	case e.Error == "" && e.Met:
		return Passed, fmt.Sprintf("the expression is true for node %s", f.Node)
	case e.Error != "" && lasts:
		return Inconclusive, fmt.Sprintf("the expression has no value for node %s: %s", f.Node, e.Error)
	case lasts:
		return Failed, fmt.Sprintf("the expression is false for node %s", f.Node)
	case e.Error != "":
		return Pending, fmt.Sprintf("the expression has no value yet for node %s: %s", f.Node, e.Error)
	default:
		return Pending, fmt.Sprintf("the expression is still false for node %s", f.Node)
	}
}

// mostNamed is the number of differences in a message.
const mostNamed = 5

// comparedWithPeers fails by differences that have lasted for the time of a measurement. One observation never fails a version.
func comparedWithPeers(f Facts) (Result, string) {
	c := f.Comparison
	switch {
	case c == nil:
		return Pending, "is compared"
	case c.Skipped != "" && len(c.Differences) == 0:
		return Skipped, c.Skipped
	case len(c.Differences) == 0:
		return Passed, fmt.Sprintf("node %s is like %d other nodes of the pool", f.Node, c.Others) + notes(c.Notes)
	}
	var lasting, all []string
	for _, d := range c.Differences {
		if all = append(all, d.Message); f.since(later(d.Since, f.Changed)) > f.Limits.Measure {
			lasting = append(lasting, d.Message)
		}
	}
	than := fmt.Sprintf("%d other nodes of the pool", c.Others)
	if c.Others == 0 {
		than = "its donor, or from the API server"
	}
	if len(lasting) > 0 {
		return Failed, fmt.Sprintf("node %s differs from %s: %s", f.Node, than, some(lasting)) + notes(c.Notes)
	}
	return Pending, fmt.Sprintf("node %s still differs from %s: %s", f.Node, than, some(all))
}

// some lists the first messages.
func some(messages []string) string {
	if more := len(messages) - mostNamed; more > 0 {
		messages = append(messages[:mostNamed:mostNamed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(messages, "; ")
}

func notes(of []string) string {
	if len(of) == 0 {
		return ""
	}
	return ". Not compared: " + some(of)
}

func disk(f Facts) (Result, string) {
	switch credential, ends := f.credential(); {
	case f.Digest == "" && f.since(f.Changed) > f.Limits.Measure:
		return Inconclusive, fmt.Sprintf("the manifest on the disk of node %s could not be read", f.Node)
	case f.Digest == "":
		return Pending, fmt.Sprintf("the manifest on the disk of node %s is read", f.Node)
	case f.Digest != f.Proven:
		return Failed, fmt.Sprintf("the manifest on the disk of node %s is %s, and the version was proven with %s", f.Node, f.Digest, f.Proven)
	case ends:
		return Failed, credential
	default:
		return Passed, fmt.Sprintf("the manifest on the disk of node %s is the proof's%s", f.Node, credential)
	}
}

// measured returns the result of pods. Pods that do not end in time are inconclusive.
func (f Facts) measured(m Measure, limit time.Duration) (Result, string) {
	switch {
	case m.Result != Pending && m.Result != "":
		return m.Result, m.Says
	case f.since(f.Changed) > limit:
		return Inconclusive, fmt.Sprintf("there is no answer after %s", span(limit))
	default:
		return Pending, "is measured"
	}
}

// performance is skipped without a measurement on another node of the pool.
func performance(f Facts) (Result, string) {
	if f.Performance.Result == "" {
		return Skipped, "no other node of the pool was measured"
	}
	return f.measured(f.Performance, f.Limits.Measure)
}

func soaked(f Facts) (Result, string) {
	if f.since(f.Changed) < f.Limits.Soak {
		return Pending, fmt.Sprintf("node %s is watched until %s", f.Node, f.clock(f.Limits.Soak-f.since(f.Changed)))
	}
	return Passed, fmt.Sprintf("node %s has stayed Ready for %s", f.Node, span(f.Limits.Soak))
}
