// Package probation decides whether the nodes of an image version join, and what follows for the pool whose recipe names it:
// nothing, going back to the version before, or leaving all as it is and saying why.
//
// It is pure. It acts on nothing, knows no cloud's words, and does not say what to go back to: package history does. What it
// was told before is given to it again, so that a node which is gone is not forgotten; without that it comes to the same
// verdict later.
package probation

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// Limits are what is taken for a failure to join. A field that is zero has its default.
type Limits struct {
	// Join is how long an instance may run before its node is Ready: 14 minutes. The cluster autoscaler removes what has
	// not registered behind 15, so that a look finds the node late before it is gone.
	Join time.Duration
	// Settle is how long a node must have been Ready to count as joined: two minutes.
	Settle time.Duration
	// Unready is how long a node that is late, or was Ready, may be seen not Ready: five minutes.
	Unready time.Duration
	// Watch is for how long after the begin of its instance a node that becomes not Ready speaks against its version: an
	// hour. Later it speaks of something else.
	Watch time.Duration
	// Daemons is how long a DaemonSet that is healthy on other nodes may be not Ready on this one: ten minutes.
	Daemons time.Duration
}

// Defaulted limits.
func (l Limits) Defaulted() Limits {
	for _, limit := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&l.Join, 14 * time.Minute}, {&l.Settle, 2 * time.Minute}, {&l.Unready, 5 * time.Minute},
		{&l.Watch, time.Hour}, {&l.Daemons, 10 * time.Minute},
	} {
		if *limit.value <= 0 {
			*limit.value = limit.standard
		}
	}
	return l
}

// Node is an instance of a pool, with what the cluster knows of it, as one look saw it.
type Node struct {
	Instance cloud.InstanceID
	// Name of the Node and its UID; empty if there is none.
	Name, UID string
	// Forged is a Node that names the instance, and that no kubelet runs for. It is none of the instance's.
	Forged string
	// Version that the instance was built from; empty if it was another image.
	Version string
	// Running is when the instance began to run; zero if it does not, or nobody knows.
	Running time.Time
	// Aside says why the node tells nothing of its version, such as "is cordoned"; empty if it does.
	Aside string
	// Ready is what the kubelet says, and Changed since when; zero if nobody knows.
	Ready   bool
	Changed time.Time
	// Lacks names a DaemonSet that is Ready on other nodes and not on this one, and LacksSince is since when; empty if none.
	Lacks      string
	LacksSince time.Time
}

// Outcome of a node's joining.
type Outcome string

const (
	// Waiting: nobody can say yet.
	Waiting Outcome = "Waiting"
	// Joined: it is Ready. Within the first hour that may change.
	Joined Outcome = "Joined"
	// Failed: it did not join in time, or did not stay. That is final: a node that is late is not what the pool was promised.
	Failed Outcome = "Failed"
	// Uncounted: it tells nothing of its version.
	Uncounted Outcome = "Uncounted"
)

// Join is what became of one node.
type Join struct {
	Instance cloud.InstanceID `json:"instance"`
	// Node is the Node's name; empty if there never was one. NodeUID is the UID of the Node that was seen first.
	Node    string    `json:"node,omitempty"`
	NodeUID string    `json:"nodeUID,omitempty"`
	Version string    `json:"version"`
	Running time.Time `json:"running,omitzero"`
	Outcome Outcome   `json:"outcome"`
	// Why it failed, or is not counted.
	Why string `json:"why,omitempty"`
	// Took is how long the instance ran before its node was Ready; zero while nobody knows.
	Took time.Duration `json:"took,omitempty"`
	// Late is since when looks have found it late. It fails only if a later look finds it so again: a cluster that has just
	// come back gets time for its nodes to do the same.
	Late time.Time `json:"late,omitzero"`
	// Doubted: its Node was deleted, or is another one than before, so that it is not counted from then on.
	Doubted bool `json:"doubted,omitempty"`
}

// name is how sentences call it.
func (j Join) name() string {
	return cmp.Or(j.Node, string(j.Instance))
}

// Judge says of each node what became of it, in the order in which they began to run. before is what it said last: a join
// that failed has failed, one whose instance is gone stays as it was. calm is since when nodes have been read without a
// break, and the cluster has been well; zero if it always was. Time before it is held against nobody.
func Judge(now, calm time.Time, nodes []Node, before []Join, limits Limits) []Join {
	limits = limits.Defaulted()
	known := map[cloud.InstanceID]Join{}
	for _, join := range before {
		known[join.Instance] = join
	}
	var joins []Join
	for _, n := range nodes {
		was, found := known[n.Instance]
		if found && !was.of(n) { // the instance was rebuilt
			was = Join{}
		}
		joins = append(joins, judge(now, calm, n, was, limits))
		delete(known, n.Instance)
	}
	for _, gone := range known {
		joins = append(joins, gone.left(now, calm, limits))
	}
	slices.SortFunc(joins, func(a, b Join) int {
		return cmp.Or(a.Running.Compare(b.Running), cmp.Compare(a.Instance, b.Instance))
	})
	return joins
}

// of tells whether it is about the same life of the instance.
func (j Join) of(n Node) bool {
	return j.Version == n.Version && (j.Running.IsZero() || j.Running.Equal(n.Running))
}

// left is what remains of a node whose instance is gone. One that had all its time and was never Ready did not join, whoever
// removed it: the cluster autoscaler does so.
func (j Join) left(now, calm time.Time, limits Limits) Join {
	if j.Outcome != Waiting {
		return j
	}
	began := j.Running
	if began.Before(calm) {
		began = calm
	}
	if j.Took == 0 && !j.Running.IsZero() && now.Sub(began) > limits.Join {
		j.Outcome, j.Why = Failed, "its instance was removed, and its node was never Ready"
		if j.Late.IsZero() {
			j.Late = began.Add(limits.Join)
		}
		return j
	}
	j.Outcome, j.Why = Uncounted, "is gone, and nobody saw whether it would join"
	return j
}

// judge says what became of one node. was is the zero Join of a node that was not seen before.
func judge(now, calm time.Time, n Node, was Join, limits Limits) Join {
	doubt := doubtOf(n, was)
	final := was.Outcome == Joined && (n.Aside != "" || doubt != "" || now.Sub(n.Running) > limits.Watch)
	if was.Outcome == Failed || final {
		return was
	}
	j := Join{Instance: n.Instance, Node: cmp.Or(n.Name, was.Node), NodeUID: cmp.Or(was.NodeUID, n.UID), Version: n.Version, Running: n.Running, Took: was.Took}
	switch {
	case doubt != "":
		j.Outcome, j.Why, j.Doubted, j.Node = Uncounted, doubt, true, was.Node
	case n.Aside != "":
		j.Outcome, j.Why = Uncounted, n.Aside
	case n.Running.IsZero():
		j.Outcome = Waiting // what the cloud could not provide says nothing of the image
	case !n.Ready && later(n, n.Changed, limits):
		j.Outcome, j.Why = Uncounted, "became not Ready long after it had joined"
	default:
		j.tell(now, calm, n, was.Late, limits)
	}
	return j
}

// doubtOf is why the Node says nothing of the instance, by what was seen before: a client has deleted the instance's Node, and may have
// made another one. One that was late by then is judged all the same.
func doubtOf(n Node, was Join) string {
	switch {
	case was.NodeUID != "" && n.UID != "" && was.NodeUID != n.UID:
		return fmt.Sprintf("its Node %s was deleted, and Node %s is another one", was.Node, n.Name)
	case was.Node != "" && n.Name == "" && was.Late.IsZero():
		return fmt.Sprintf("its Node %s was deleted", was.Node)
	}
	return ""
}

// tell says how a node stands that is watched. late is since when looks have found it late; zero if the last one did not.
func (j *Join) tell(now, calm time.Time, n Node, late time.Time, limits Limits) {
	if n.Ready && !n.Changed.IsZero() && j.Took == 0 {
		j.Took = max(n.Changed.Sub(n.Running), 0)
	}
	why := fault(now, calm, n, limits)
	switch {
	case why == "" && n.Ready && settled(now, n, limits):
		j.Outcome = Joined
	case why == "":
		j.Outcome = Waiting
	case late.IsZero() || late.Before(calm):
		j.Outcome, j.Late = Waiting, now
	case now.Sub(late) < limits.Unready:
		j.Outcome, j.Late = Waiting, late
	default:
		j.Outcome, j.Why, j.Late = Failed, why, late
	}
}

func settled(now time.Time, n Node, limits Limits) bool {
	return (n.Lacks == "" || later(n, n.LacksSince, limits)) && !n.Changed.IsZero() && now.Sub(n.Changed) >= limits.Settle
}

// fault is what speaks against the node now; empty if nothing does.
func fault(now, calm time.Time, n Node, limits Limits) string {
	since := func(t time.Time) time.Duration {
		if t.Before(calm) {
			t = calm
		}
		return now.Sub(t)
	}
	switch {
	case !n.Ready && n.Forged != "" && since(n.Running) > limits.Join:
		return fmt.Sprintf("its instance runs for %s, and there is no Node but %s, whose lease no kubelet renews", minutes(now.Sub(n.Running)), n.Forged)
	case !n.Ready && n.Name == "" && since(n.Running) > limits.Join:
		return fmt.Sprintf("its instance runs for %s, and there is no Node", minutes(now.Sub(n.Running)))
	case !n.Ready && since(n.Running) > limits.Join:
		return fmt.Sprintf("its instance runs for %s, and the Node is not Ready", minutes(now.Sub(n.Running)))
	case n.Ready && n.Lacks != "" && since(n.LacksSince) > limits.Daemons && !later(n, n.LacksSince, limits):
		return fmt.Sprintf("DaemonSet %s is not Ready on it for %s, and is on others", n.Lacks, minutes(now.Sub(n.LacksSince)))
	default:
		return ""
	}
}

// later tells that a change came when the node had been there for so long that its version is not to blame.
func later(n Node, change time.Time, limits Limits) bool {
	return !change.IsZero() && change.Sub(n.Running) > limits.Watch
}

func minutes(d time.Duration) string {
	return fmt.Sprintf("%d min", int(d.Minutes()))
}
