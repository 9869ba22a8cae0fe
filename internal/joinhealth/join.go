// Package joinhealth decides whether the nodes of an image version join, and what follows for a pool on the version:
// nothing, an automatic rollback, or a stop with an explanation.
//
// The package is pure. Package history finds the version for the rollback. The caller passes in the results of earlier
// looks, so that removed nodes are not forgotten. Without the earlier results the same verdict comes later.
package joinhealth

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Limits define when a join has failed. A zero field has its default. The times follow from Join.
type Limits struct {
	// Join is how long an instance may run before its node is Ready. Default: 14 minutes. The cluster autoscaler
	// removes unregistered instances after 15 minutes, so a look sees the overdue node first.
	Join time.Duration
	// Settle is how long a node must have been Ready to be joined. Default: a third of Join, at most two minutes.
	Settle time.Duration
	// Unready is how long an overdue node, or a node that was Ready, may be unready. Default: a third of Join.
	Unready time.Duration
	// Watch is how long after the start of its instance an unready node speaks against the version. Default: one hour.
	Watch time.Duration
	// Daemons is how long a DaemonSet that is healthy elsewhere may be unready on a new node. Default: two thirds of Join.
	Daemons time.Duration
	// FailsDifferent lets a node fail that differs from its peers. If false, the difference is only reported.
	FailsDifferent bool
}

// Defaulted returns the limits with defaults for zero fields.
func (l Limits) Defaulted() Limits {
	if l.Join <= 0 {
		l.Join = 14 * time.Minute
	}
	for _, limit := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&l.Settle, min(2*time.Minute, l.Join/3)}, {&l.Unready, l.Join / 3}, {&l.Watch, time.Hour}, {&l.Daemons, 2 * l.Join / 3},
	} {
		if *limit.value <= 0 {
			*limit.value = limit.standard
		}
	}
	return l
}

// Node is an instance of a pool with its Node, as seen in one look.
type Node struct {
	Instance cloud.InstanceID
	// Name and UID are those of the Node; empty without a Node.
	Name, UID string
	// Forged is a Node that names the instance but has no kubelet. Another client made the Node.
	Forged string
	// Version is the version that the instance was built from; empty for another image.
	Version string
	// Zone of the instance; empty if unknown.
	Zone string
	// Running is when the instance started to run; zero if the instance is not running, or if unknown.
	Running time.Time
	// ExcludedReason is why the node says nothing about its version, for example "is cordoned"; empty if the node is judged.
	ExcludedReason string
	// Ready is the condition of the Node, and Changed its last change; zero if unknown.
	Ready   bool
	Changed time.Time
	// UnhealthyDaemonSet names a DaemonSet that is Ready on other nodes but not here, since UnhealthySince; empty if there is none.
	UnhealthyDaemonSet string
	UnhealthySince     time.Time
	// Difference is how the node differs from its peers, for example in its allocatable memory; empty for an equal node,
	// or without a comparison.
	Difference string
}

// maxLosses is how often a node may become unhealthy in the watched time.
const maxLosses = 3

// Outcome is the result of a node's join.
type Outcome string

const (
	// Waiting: the outcome is not known yet.
	Waiting Outcome = "Waiting"
	// Joined: the node is Ready. The outcome may change within the first hour.
	Joined Outcome = "Joined"
	// Failed: the node did not join in time, did not stay healthy, or became unhealthy again and again. Failed is final.
	Failed Outcome = "Failed"
	// Uncounted: the node says nothing about its version.
	Uncounted Outcome = "Uncounted"
)

// Join is the state of one node's join.
type Join struct {
	Instance cloud.InstanceID `json:"instance"`
	// Node is the Node's name; empty if there never was a Node. NodeUID is the UID of the first Node.
	Node    string    `json:"node,omitempty"`
	NodeUID string    `json:"nodeUID,omitempty"`
	Version string    `json:"version"`
	Running time.Time `json:"running,omitzero"`
	Outcome Outcome   `json:"outcome"`
	// Why is the reason of Failed or Uncounted, or the difference of a joined node from its peers.
	Why string `json:"message,omitempty"`
	// Took is the time from the start of the instance until the node was Ready; zero if unknown.
	Took time.Duration `json:"joinDuration,omitempty"`
	// OverdueSince is since when the node is overdue. The join fails only if a later look finds the node overdue again, because
	// nodes need time after an outage of the cluster.
	OverdueSince time.Time `json:"overdueSince,omitzero"`
	// Doubted is true after the Node was deleted or created again. The join is uncounted from then on.
	Doubted bool `json:"doubted,omitempty"`
	// Losses is how often a healthy node became unhealthy. WasHealthy and Changed are the state at the last look. A new
	// process counts from zero.
	Losses int `json:"losses,omitempty"`
	// Lacked is true after a look with an unhealthy DaemonSet. Recovered is the first look after that without one.
	Recovered  time.Time `json:"recovered,omitzero"`
	Lacked     bool      `json:"lacked,omitempty"`
	WasHealthy bool      `json:"wasHealthy,omitempty"`
	Changed    time.Time `json:"changed,omitzero"`
}

// name is the node's name in messages; without a node, the last word of the instance's ID. The joins have the whole ID.
func (j Join) name() string {
	id := string(j.Instance)
	return cmp.Or(j.Node, "instance "+id[strings.LastIndex(id, "/")+1:])
}

// Judge returns the joins of all nodes, ordered by start. before is the previous result: failed joins and joins of removed
// instances stay. Time before observedSince, the begin of uninterrupted looks, is held against no node.
func Judge(now, observedSince time.Time, nodes []Node, before []Join, limits Limits) []Join {
	limits = limits.Defaulted()
	known := map[cloud.InstanceID]Join{}
	for _, join := range before {
		known[join.Instance] = join
	}
	var joins []Join
	for _, n := range nodes {
		was, found := known[n.Instance]
		if found && !was.isOf(n) { // the instance was rebuilt
			was = Join{}
		}
		joins = append(joins, updateJoin(now, observedSince, n, was, limits))
		delete(known, n.Instance)
	}
	for _, gone := range known {
		joins = append(joins, gone.afterRemoval(now, observedSince, limits))
	}
	slices.SortFunc(joins, func(a, b Join) int {
		return cmp.Or(a.Running.Compare(b.Running), cmp.Compare(a.Instance, b.Instance))
	})
	return joins
}

// isOf reports whether the join belongs to the same life of the instance.
func (j Join) isOf(n Node) bool {
	return j.Version == n.Version && (j.Running.IsZero() || j.Running.Equal(n.Running))
}

// afterRemoval returns the join of a removed instance. A node that had all its time and was never Ready has failed, no matter
// who removed the instance: the cluster autoscaler removes such instances.
func (j Join) afterRemoval(now, observedSince time.Time, limits Limits) Join {
	if j.Outcome != Waiting {
		return j
	}
	began := j.Running
	if began.Before(observedSince) {
		began = observedSince
	}
	if j.Took == 0 && !j.Running.IsZero() && now.Sub(began) > limits.Join {
		j.Outcome, j.Why = Failed, "the instance was removed, and the node was never Ready"
		if j.OverdueSince.IsZero() {
			j.OverdueSince = began.Add(limits.Join)
		}
		return j
	}
	j.Outcome, j.Why = Uncounted, "is gone, and the result of the join is unknown"
	return j
}

// updateJoin returns the join of one node. was is the zero Join for a new node.
func updateJoin(now, observedSince time.Time, n Node, was Join, limits Limits) Join {
	doubt := doubtOf(n, was)
	final := was.Outcome == Joined && (n.ExcludedReason != "" || doubt != "" || now.Sub(n.Running) > limits.Watch)
	if was.Outcome == Failed || final {
		return was
	}
	j := Join{Instance: n.Instance, Node: cmp.Or(n.Name, was.Node), NodeUID: cmp.Or(was.NodeUID, n.UID), Version: n.Version, Running: n.Running, Took: was.Took}
	switch {
	case doubt != "":
		j.Outcome, j.Why, j.Doubted, j.Node = Uncounted, doubt, true, was.Node
	case n.ExcludedReason != "":
		j.Outcome, j.Why = Uncounted, n.ExcludedReason
	case n.Running.IsZero():
		j.Outcome = Waiting // an instance that the cloud could not provide says nothing about the image
	case !n.Ready && later(n, n.Changed, limits):
		j.Outcome, j.Why = Uncounted, "became not Ready long after the join"
	default:
		j.countLosses(observedSince, n, was, limits)
		j.noteRecovery(now, n, was)
		j.setOutcome(now, observedSince, n, was.OverdueSince, limits)
	}
	return j
}

// doubtOf returns why the Node says nothing about the instance: the first Node was deleted, and perhaps another was
// created. A node that was already overdue is judged all the same.
func doubtOf(n Node, was Join) string {
	switch {
	case was.NodeUID != "" && n.UID != "" && was.NodeUID != n.UID:
		return fmt.Sprintf("Node %s was deleted, and Node %s has the same instance", was.Node, n.Name)
	case was.Node != "" && n.Name == "" && was.OverdueSince.IsZero():
		return fmt.Sprintf("Node %s was deleted", was.Node)
	}
	return ""
}

// countLosses counts the losses of health that the look shows. A later change of Ready between two looks that both find the
// node healthy is a loss, too. A loss before observedSince, or after the watched time, is ignored.
func (j *Join) countLosses(observedSince time.Time, n Node, was Join, limits Limits) {
	j.Losses, j.WasHealthy, j.Changed = was.Losses, n.Ready && n.UnhealthyDaemonSet == "", n.Changed
	at := n.Changed
	if n.Ready && n.UnhealthyDaemonSet != "" {
		at = n.UnhealthySince
	}
	isLoss := was.WasHealthy && (!j.WasHealthy || n.Changed.After(was.Changed))
	if isLoss && !at.Before(observedSince) && !later(n, at, limits) {
		j.Losses++
	}
}

// noteRecovery records the first recovery of the node's DaemonSets.
func (j *Join) noteRecovery(now time.Time, n Node, was Join) {
	j.Lacked, j.Recovered = was.Lacked || n.UnhealthyDaemonSet != "", was.Recovered
	if j.Lacked && j.Recovered.IsZero() && n.UnhealthyDaemonSet == "" {
		j.Recovered = now
	}
}

// healthyAt returns when the node was first Ready with its DaemonSets.
func (j Join) healthyAt() time.Time {
	if ready := j.Running.Add(j.Took); j.Recovered.Before(ready) {
		return ready
	}
	return j.Recovered
}

// setOutcome sets the outcome of a watched node. late is since when the node is overdue; zero if the last look found no
// fault.
func (j *Join) setOutcome(now, observedSince time.Time, n Node, late time.Time, limits Limits) {
	if n.Ready && !n.Changed.IsZero() && j.Took == 0 {
		j.Took = max(n.Changed.Sub(n.Running), 0)
	}
	why := fault(now, observedSince, n, limits)
	switch {
	case j.Losses >= maxLosses:
		j.Outcome, j.OverdueSince = Failed, now
		j.Why = fmt.Sprintf("the node became unhealthy %d times within %s", j.Losses, minutes(now.Sub(n.Running)))
	case why == "" && n.Ready && settled(now, n, limits):
		j.Outcome, j.Why = Joined, difference(n)
	case why == "":
		j.Outcome = Waiting
	case late.IsZero() || late.Before(observedSince):
		j.Outcome, j.OverdueSince = Waiting, now
	case now.Sub(late) < limits.Unready:
		j.Outcome, j.OverdueSince = Waiting, late
	default:
		j.Outcome, j.Why, j.OverdueSince = Failed, why, late
	}
}

func settled(now time.Time, n Node, limits Limits) bool {
	return (n.UnhealthyDaemonSet == "" || later(n, n.UnhealthySince, limits)) && !n.Changed.IsZero() && now.Sub(n.Changed) >= limits.Settle
}

// fault returns the current fault of the node; empty without a fault.
func fault(now, observedSince time.Time, n Node, limits Limits) string {
	since := func(t time.Time) time.Duration {
		if t.Before(observedSince) {
			t = observedSince
		}
		return now.Sub(t)
	}
	switch {
	case !n.Ready && n.Forged != "" && since(n.Running) > limits.Join:
		return fmt.Sprintf("the instance has run for %s without a Node, except %s, whose lease no kubelet renews", minutes(now.Sub(n.Running)), n.Forged)
	case !n.Ready && n.Name == "" && since(n.Running) > limits.Join:
		return fmt.Sprintf("the instance has run for %s without a Node", minutes(now.Sub(n.Running)))
	case !n.Ready && since(n.Running) > limits.Join:
		return fmt.Sprintf("the instance has run for %s, and the Node is not Ready", minutes(now.Sub(n.Running)))
	case n.Ready && n.UnhealthyDaemonSet != "" && since(n.UnhealthySince) > limits.Daemons && !later(n, n.UnhealthySince, limits):
		return fmt.Sprintf("DaemonSet %s has not been Ready on the node for %s, but is Ready on other nodes",
			n.UnhealthyDaemonSet, minutes(now.Sub(n.UnhealthySince)))
	case n.Ready && limits.FailsDifferent:
		return difference(n)
	default:
		return ""
	}
}

// difference describes how the node differs from its peers; empty if it does not.
func difference(n Node) string {
	if n.Difference == "" {
		return ""
	}
	return "the node differs from its peers: " + n.Difference
}

// later reports whether a change came so long after the start that the version is not the cause.
func later(n Node, change time.Time, limits Limits) bool {
	return !change.IsZero() && change.Sub(n.Running) > limits.Watch
}

func minutes(d time.Duration) string {
	return fmt.Sprintf("%d min", int(d.Minutes()))
}
