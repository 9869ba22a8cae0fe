// Package trial decides whether a node that was built from a version for this alone shows the version to be good: by named
// checks, in one order, each from what was seen of the node.
//
// It is pure. It builds no node, asks none, and knows no cloud: who does gives it what was seen.
package trial

import (
	"fmt"
	"strings"
	"time"
)

// Result of a check, and of a trial.
type Result string

const (
	// Pending: nobody can say yet.
	Pending Result = "Pending"
	Passed  Result = "Passed"
	Failed  Result = "Failed"
	// Inconclusive: nobody will be able to say this time, and the version is not to blame. It is never taken for a failure.
	Inconclusive Result = "Inconclusive"
	// Skipped: there was nothing to check, or nobody asked for it.
	Skipped Result = "Skipped"
)

// Name of a check. The order of the constants is the order in which the checks stand.
type Name string

const (
	// Provisioned: the cloud has made the instance, and it runs.
	Provisioned Name = "Provisioned"
	// Registered: it has a Node.
	Registered Name = "Registered"
	// Ready: the Node has been Ready for two minutes.
	Ready Name = "Ready"
	// Daemons: every DaemonSet that is healthy on the other nodes is Ready on this one, and has hardly been restarted.
	Daemons Name = "DaemonSets"
	// Identity: no other node has its machine ID or its system UUID.
	Identity Name = "Identity"
	// Disk: the manifest on its disk is the one that the proof speaks of.
	Disk Name = "Disk"
	// Network: pods on it reach other nodes, Services and names, and are reached.
	Network Name = "Network"
	// Images: a container image that is on its disk starts without a pull, and one that is not can be pulled.
	Images Name = "Images"
	// Job of the user's own.
	Job Name = "Job"
	// Soaked: it has stayed Ready for as long as was asked for.
	Soaked Name = "Soaked"
)

// Limits are the times that a trial takes. A field that is zero has its default.
type Limits struct {
	// Provision is how long the cloud may take to make the instance: ten minutes.
	Provision time.Duration
	// Register is how long a running instance may take until it has a Node: ten minutes.
	Register time.Duration
	// Ready is how long the Node may take to be Ready, and Daemons how long the DaemonSets may: ten minutes each.
	Ready, Daemons time.Duration
	// Settle is how long the Node must have been Ready: two minutes.
	Settle time.Duration
	// Soak is how long it must stay Ready: ten minutes.
	Soak time.Duration
	// Measure is how long what a pod measures may take: five minutes.
	Measure time.Duration
	// Job is how long the user's own may take: ten minutes.
	Job time.Duration
}

// Defaulted limits.
func (l Limits) Defaulted() Limits {
	for _, limit := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&l.Provision, 10 * time.Minute}, {&l.Register, 10 * time.Minute}, {&l.Ready, 10 * time.Minute}, {&l.Daemons, 10 * time.Minute},
		{&l.Settle, 2 * time.Minute}, {&l.Soak, 10 * time.Minute}, {&l.Measure, 5 * time.Minute}, {&l.Job, 10 * time.Minute},
	} {
		if *limit.value <= 0 {
			*limit.value = limit.standard
		}
	}
	return l
}

// Within are the limits of a trial that may take so long with every attempt, whose node must stay Ready for the time of the
// soak: no single check takes more than half of the timeout, lest a trial end without the verdict that it could have had, and
// nothing is waited for longer than for the soak before a node counts as Ready.
func Within(timeout, soak time.Duration) Limits {
	l := Limits{Soak: max(soak, 1)}.Defaulted() // no soak at all is not the default
	for _, limit := range []*time.Duration{&l.Provision, &l.Register, &l.Ready, &l.Daemons, &l.Measure, &l.Job} {
		*limit = min(*limit, timeout/2)
	}
	l.Settle = min(l.Settle, l.Soak)
	return l
}

const (
	// mostRestarts of a DaemonSet's pod on the node.
	mostRestarts = 2
	// mostUnread looks in a row may fail before a trial is given up as one that nobody could watch.
	mostUnread = 4
	// tries is how often the soak fits into the time that a node gets to stay Ready, which it may lose for a moment.
	tries = 3
)

// Instance that the node runs on.
type Instance struct {
	// Running is since when it does; zero if it does not yet.
	Running time.Time
	// Refused: the cloud has no room or quota for it, in its words. Nothing is known of the version then.
	Refused string
	// Broken: the cloud could not make it from the image, in its words. Unclear: it could not make it, and does not say that the
	// image is at fault.
	Broken, Unclear string
	// Gone: it was there, and somebody has removed it since.
	Gone bool
}

// Daemon is a DaemonSet that is healthy on the other nodes, as it is on this one.
type Daemon struct {
	Name     string
	Ready    bool
	Restarts int32
	// Why it is not Ready, if its pod says.
	Why string
}

// Measure is what pods on the node have measured of one thing.
type Measure struct {
	// Result is Pending while they do, and Skipped if there is nothing to measure with, such as a second node.
	Result Result
	// Says what did not work, or why there is nothing to say.
	Says string
}

// Facts are what was seen of a trial.
type Facts struct {
	// Now is when this was seen.
	Now time.Time
	// Begun is when the cloud was asked for the instance.
	Begun  time.Time
	Limits Limits

	// Unread is how many looks in a row have failed since, and Blind for how long nobody could look since the trial began,
	// which is held against nobody.
	Unread   int
	Blind    time.Duration
	Instance Instance

	// Node is the Node's name and NodeUID its UID; empty if there is none. Registered is when it came to be.
	Node, NodeUID string
	Registered    time.Time
	// Doubt is why no Node can be taken for the instance's own: two Nodes name the instance, or one did that is gone. Empty if
	// nothing is doubtful.
	Doubt string
	// Unproven is why the Node is not known to be the instance's, or not known to be missing: any client may have made it, or deleted it.
	// Empty if the kubelet's Lease says so, or if the cluster does not say.
	Unproven string
	// Ready is what the kubelet says, and Changed since when; WasReady: it was before.
	Ready, WasReady bool
	Changed         time.Time

	Daemons []Daemon
	// IdentityKnown tells whether the node's IDs could be compared. Twins are the nodes that have one of them, too. DoubtfulTwins
	// claim one and are not proven to have had it first, each with the reason.
	IdentityKnown        bool
	Twins, DoubtfulTwins []string
	// Digest of the manifest on its disk, and what the proof says. Empty where nobody has read it.
	Digest, Proven string

	Network, Images, Job Measure
}

// since is how long ago it was, without the time in which nobody looked.
func (f Facts) since(t time.Time) time.Duration { return f.Now.Sub(t) - f.Blind }

// Check is one of them, with what it found.
type Check struct {
	Name    Name   `json:"name"`
	Result  Result `json:"result"`
	Message string `json:"message"`
}

// checks in their order. Each says what it found, or why it has not yet. Behind a gate that has not passed there is nothing
// to look at.
var checks = []struct {
	name Name
	gate bool
	look func(Facts) (Result, string)
}{
	{Provisioned, true, provisioned},
	{Registered, true, registered},
	{Ready, true, ready},
	{Daemons, false, daemons},
	{Identity, false, identity},
	{Disk, false, disk},
	{Network, false, func(f Facts) (Result, string) { return f.measured(f.Network, f.Limits.Measure) }},
	{Images, false, func(f Facts) (Result, string) { return f.measured(f.Images, f.Limits.Measure) }},
	{Job, false, func(f Facts) (Result, string) { return f.measured(f.Job, f.Limits.Job) }},
	{Soaked, false, soaked},
}

// Names of the checks, in their order.
func Names() []Name {
	names := make([]Name, len(checks))
	for i, check := range checks {
		names[i] = check.name
	}
	return names
}

func provisioned(f Facts) (Result, string) {
	switch {
	case f.Instance.Gone:
		return Inconclusive, "the instance is gone, removed by somebody else"
	case !f.Instance.Running.IsZero():
		return Passed, fmt.Sprintf("the instance ran %s after it was asked for", span(f.Instance.Running.Sub(f.Begun)))
	case f.Instance.Broken != "":
		return Failed, "the cloud could not make an instance from the version: " + f.Instance.Broken
	case f.Instance.Refused != "":
		return Inconclusive, "the cloud has no instance to spare: " + f.Instance.Refused
	case f.Instance.Unclear != "":
		return Inconclusive, "the cloud could not make an instance, and does not say that the version is at fault: " + f.Instance.Unclear
	case f.since(f.Begun) > f.Limits.Provision:
		return Inconclusive, fmt.Sprintf("the cloud has not made an instance within %s", span(f.Limits.Provision))
	default:
		return Pending, "the cloud makes the instance"
	}
}

func registered(f Facts) (Result, string) {
	switch {
	case f.Doubt != "":
		return Inconclusive, f.Doubt
	case f.Unproven != "" && f.since(f.Instance.Running) > f.Limits.Register:
		return Inconclusive, f.Unproven
	case f.Unproven != "":
		return Pending, f.Unproven
	case f.Node != "":
		return Passed, fmt.Sprintf("node %s was there %s after its instance ran", f.Node, span(f.Registered.Sub(f.Instance.Running)))
	case f.since(f.Instance.Running) > f.Limits.Register:
		return Failed, fmt.Sprintf("the instance has run for %s, and there is no Node", span(f.Limits.Register))
	default:
		return Pending, "the instance has no Node yet"
	}
}

func ready(f Facts) (Result, string) {
	switch {
	case f.Ready && f.since(f.Changed) >= f.Limits.Settle:
		return Passed, fmt.Sprintf("node %s was Ready %s after its instance ran", f.Node, span(f.Changed.Sub(f.Instance.Running)))
	case f.WasReady && f.since(f.Registered) > f.Limits.Ready+tries*f.Limits.Soak:
		return Failed, fmt.Sprintf("node %s does not stay Ready", f.Node)
	case f.Ready:
		return Pending, fmt.Sprintf("node %s has just become Ready, and is watched until %s", f.Node, f.clock(max(f.Limits.Settle, f.Limits.Soak)-f.since(f.Changed)))
	case f.WasReady && f.since(f.Changed) > f.Limits.Settle:
		return Failed, fmt.Sprintf("node %s was Ready, and is not any more", f.Node)
	case f.WasReady:
		return Pending, fmt.Sprintf("node %s was Ready, and is not at the moment", f.Node)
	case f.since(f.Registered) > f.Limits.Ready:
		return Failed, fmt.Sprintf("node %s is not Ready, %s after it came to be", f.Node, span(f.Limits.Ready))
	default:
		return Pending, fmt.Sprintf("node %s is not Ready yet", f.Node)
	}
}

func daemons(f Facts) (Result, string) {
	var waiting []string
	for _, d := range f.Daemons {
		switch {
		case d.Restarts > mostRestarts:
			return Failed, fmt.Sprintf("DaemonSet %s was restarted %d times on node %s%s", d.Name, d.Restarts, f.Node, because(d.Why))
		case !d.Ready:
			waiting = append(waiting, d.Name+because(d.Why))
		}
	}
	switch {
	case len(f.Daemons) == 0:
		return Skipped, "no DaemonSet is healthy on the other nodes"
	case len(waiting) == 0 && len(f.Daemons) == 1:
		return Passed, fmt.Sprintf("the one DaemonSet that is healthy on the other nodes is so on node %s", f.Node)
	case len(waiting) == 0:
		return Passed, fmt.Sprintf("of %d DaemonSets that are healthy on the other nodes, each is so on node %s", len(f.Daemons), f.Node)
	case f.since(f.Changed) > f.Limits.Daemons:
		return Failed, fmt.Sprintf("not Ready on node %s, and on the others: %s", f.Node, strings.Join(waiting, "; "))
	default:
		return Pending, fmt.Sprintf("awaited on node %s: %s", f.Node, strings.Join(waiting, "; "))
	}
}

func identity(f Facts) (Result, string) {
	switch {
	case len(f.Twins) > 0:
		return Failed, fmt.Sprintf("node %s has the machine ID or the system UUID of %s", f.Node, strings.Join(f.Twins, ", "))
	case len(f.DoubtfulTwins) > 0:
		return Inconclusive, fmt.Sprintf("node %s has the machine ID or the system UUID of %s; see which client writes the status of that Node", f.Node, strings.Join(f.DoubtfulTwins, ", "))
	case f.IdentityKnown:
		return Passed, fmt.Sprintf("no other node has the machine ID or the system UUID of node %s", f.Node)
	default:
		return Inconclusive, fmt.Sprintf("node %s does not tell its machine ID and its system UUID", f.Node)
	}
}

func disk(f Facts) (Result, string) {
	switch {
	case f.Digest == "" && f.since(f.Changed) > f.Limits.Measure:
		return Inconclusive, fmt.Sprintf("nobody could read the manifest on the disk of node %s", f.Node)
	case f.Digest == "":
		return Pending, fmt.Sprintf("the manifest on the disk of node %s is read", f.Node)
	case f.Digest != f.Proven:
		return Failed, fmt.Sprintf("the manifest on the disk of node %s is %s, and the version was proven with %s", f.Node, f.Digest, f.Proven)
	default:
		return Passed, fmt.Sprintf("the manifest on the disk of node %s is the proof's", f.Node)
	}
}

// measured is what pods say. Ones that do not end measure nothing, which is nobody's fault.
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

func soaked(f Facts) (Result, string) {
	if f.since(f.Changed) < f.Limits.Soak {
		return Pending, fmt.Sprintf("node %s is watched until %s", f.Node, f.clock(f.Limits.Soak-f.since(f.Changed)))
	}
	return Passed, fmt.Sprintf("node %s has stayed Ready for %s", f.Node, span(f.Limits.Soak))
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

// clock is the time after so long, rounded up to the minute: each look says the same, so that the status is written once.
func (f Facts) clock(left time.Duration) string {
	return f.Now.Add(left+time.Minute-1).UTC().Format("15:04") + " UTC"
}

// span is a time as sentences have it.
func span(d time.Duration) string { return max(d, 0).Round(time.Second).String() }
