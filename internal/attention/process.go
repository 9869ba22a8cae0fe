package attention

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/node/reservations"
	"github.com/kamino-dev/kamino/internal/wording"
)

// controllerPods lists the pods of the controller, also in a namespace of another name.
const controllerPods = "kubectl get pods -A -l app.kubernetes.io/name=kamino"

// process says that no process works. Without work, a released Lease is no news: commands and CronJobs release the Lease.
func (l *list) process() {
	lease := l.facts.Lease
	if !lease.gone(l.facts.Now) {
		return
	}
	item := Item{Kind: ControllerAbsent, Subject: "controller", Since: lease.Over, Command: controllerPods,
		Next: "nothing, until a controller or a command takes over"}
	var waiting, held []string
	for i := range l.facts.Prototypes {
		p := &l.facts.Prototypes[i]
		if !isActive(p) {
			continue
		}
		waiting = append(waiting, p.Name)
		if isHeld(p) {
			held = append(held, p.Spec.Donor.NodeName)
		}
		if command := continues(p); len(waiting) == 1 || isHeld(p) && len(held) == 1 {
			item.Command = command
		}
	}
	if len(waiting) == 0 && (lease.Lost == "" || !decides(l.facts.Policies)) {
		return
	}
	cause := []string{"No process holds the Lease"}
	if lease.Lost != "" {
		cause[0] = fmt.Sprintf("%s stopped without a release of the Lease", lease.Lost)
	}
	if len(waiting) > 0 {
		cause = append(cause, wording.Are(len(waiting), "capture")+" waiting: "+wording.Names(waiting))
	}
	if len(held) > 0 {
		item.Severity = Critical
		cause = append(cause, wording.Are(len(held), "node")+" out of service: "+wording.Names(held))
	}
	item.Cause = strings.Join(cause, "; ")
	l.add(item)
}

// isActive reports whether a process has something to do for a capture, now or soon.
func isActive(p *v1alpha1.Prototype) bool {
	return !p.Status.Terminal() && p.Status.Phase != v1alpha1.PhaseAwaitingPromotion
}

// Progress is what a capture does by its last pass. If the items say that no process works, that is long ago.
func Progress(p *v1alpha1.Prototype, items []Item) string {
	at := slices.IndexFunc(items, func(i Item) bool { return i.Kind == ControllerAbsent })
	if at < 0 || !isActive(p) {
		return p.Status.Progress
	}
	said := "no process works on the capture"
	if p.Status.Progress != "" {
		said += "; the last one said: " + p.Status.Progress
	}
	return said
}

// continues is the command that does the work of the controller for a capture.
func continues(p *v1alpha1.Prototype) string {
	if p.DeletionTimestamp != nil || p.Status.Failure != nil {
		return "kamino cancel " + p.Name
	}
	return "kamino capture " + p.Spec.Donor.NodeName
}

// decides reports whether a policy would decide something.
func decides(policies []v1alpha1.PrototypePolicy) bool {
	for i := range policies {
		if p := &policies[i]; !p.Spec.Suspend && p.DeletionTimestamp == nil {
			return true
		}
	}
	return false
}

// reserved says which nodes no running capture releases, and what lost captures left.
func (l *list) reserved() {
	for _, n := range l.facts.Reserved {
		if !n.Left() {
			continue
		}
		item := Item{Kind: NodeLeft, Subject: "node " + n.Name, Since: n.Since, Cause: whoHolds(n), Next: "nothing, until you act",
			Command: "kamino return-node " + n.Name}
		if !n.Believed() {
			item.Command += " --node-only"
		}
		switch {
		case n.State == reservations.ByUnknown:
			item.Next, item.Command = "the Kamino version that reserved the node releases it", "kamino version"
		case n.State == reservations.Orphaned && !n.InService && l.facts.Lease.Sweeps:
			item.Next = "the controller returns the node within minutes"
		}
		l.add(item, n.Name)
	}
	for _, left := range l.facts.Leftovers {
		item := Item{Kind: Leftover, Subject: left.Kind + " " + left.Name, Cause: fmt.Sprintf("prototype %s is deleted", left.Prototype),
			Next: "nothing, until you act", Command: left.Command()}
		if left.Kind == reservations.TrialNode {
			item.Cause = fmt.Sprintf("the trial or workshop of prototype %s has ended, and neither the cloud's controller nor Kamino deleted "+
				"the Node (rbac.deleteTrialNodes)", left.Prototype)
		} else if l.facts.Lease.Sweeps {
			item.Next = "the controller deletes leftovers within minutes"
		}
		if left.HeldBy != "" {
			item.Cause += fmt.Sprintf(", and the cloud keeps its copy of a running node's disk, with its secrets, as long as %s uses it: find who made that, "+
				"and remove the nodes made from it", left.HeldBy)
			item.Next, item.Command = "nothing, until you release it", left.Release
			if l.facts.Lease.Sweeps {
				item.Next = "the controller deletes it within minutes of its release"
			}
		}
		l.add(item, left.Kind+" "+left.Name)
	}
}

// whoHolds names the holder of a node that no running capture releases.
func whoHolds(n reservations.Node) string {
	switch n.State {
	case reservations.ByReplacement:
		return fmt.Sprintf("%s is running or was interrupted; to continue, run the same command again", n.Holder)
	case reservations.ByUnknown:
		return "the holder is " + n.Holder.String()
	case reservations.Unreadable:
		return "the reservation is unreadable"
	case reservations.Stripped:
		return "the node is cordoned and scale-in protected, but has no reservation: a client deleted it, or you cordoned the node"
	case reservations.Unconfirmed:
		return fmt.Sprintf("no Lease of Kamino confirms the reservation by %s: any user who may annotate Nodes can write it, so check annotation %s first",
			n.Holder.Brief(), v1alpha1.ReservationAnnotation)
	case reservations.Orphaned, reservations.ByCapture:
	}
	return n.Holder.String() + " is deleted or has ended"
}

// ReleasedBy says who releases a reserved node.
func ReleasedBy(n reservations.Node, f Facts) string {
	back := "kamino return-node"
	switch {
	case n.InService:
		return back + " (the node accepts pods)"
	case n.State == reservations.ByCapture && f.Lease.gone(f.Now):
		for i := range f.Prototypes {
			if p := &f.Prototypes[i]; p.UID == n.Holder.UID {
				return continues(p) + " (no process works)"
			}
		}
		return "a controller (no process works)"
	}
	return map[reservations.State]string{
		reservations.ByCapture:     "automatically",
		reservations.ByReplacement: "run the rollback again, or " + back,
		reservations.ByUnknown:     "another version of Kamino",
		reservations.Orphaned:      back + ", or a controller",
		reservations.Unreadable:    back,
		reservations.Stripped:      back + ", unless you cordoned the node",
		reservations.Unconfirmed:   back + ", after you checked the annotation",
	}[n.State]
}
