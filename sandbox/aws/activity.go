package aws

import (
	"slices"
	"time"

	"github.com/kamino-dev/kamino/sandbox/query"
)

// keptActivities is the number of activities that a group keeps.
const keptActivities = 200

// activity is a scaling activity of a group.
type activity struct {
	ID, Description, Cause, Status, Message string
	Start, End                              time.Time
	Progress                                int
}

// activities are the scaling activities of groups.
type activities struct{ *backend }

func (s activities) actions() []*action {
	return []*action{{name: "DescribeScalingActivities", noun: "group", reads: true, handle: s.describe}}
}

// begin records the start of an activity.
func (w *backend) begin(g *group, description, cause string) *activity {
	now := w.stamp()
	a := &activity{ID: newUUID(), Description: description, Cause: "At " + now.Format("2006-01-02T15:04:05Z") + " " + cause + ".",
		Status: "InProgress", Start: now, Progress: 30}
	g.Activities = append(g.Activities, a)
	if n := len(g.Activities); n > keptActivities {
		g.Activities = slices.Delete(g.Activities, 0, n-keptActivities)
	}
	return a
}

// succeed records the end of an activity.
func (w *backend) succeed(g *group, id string) {
	for _, a := range g.Activities {
		if a.ID == id && a.End.IsZero() {
			a.Status, a.Progress, a.End = "Successful", 100, w.stamp()
		}
	}
}

func (s activities) describe(c *call, st *state) (query.Element, error) {
	type one struct {
		group string
		a     *activity
	}
	wanted, ids := c.in.Get("AutoScalingGroupName"), c.in.Texts("ActivityIds")
	if wanted != "" && st.Groups[wanted] == nil {
		return query.Element{}, invalid("AutoScalingGroup name not found - AutoScalingGroup %s not found", wanted)
	}
	var all []one
	for _, g := range sortedGroups(st) {
		if wanted != "" && g.Name != wanted {
			continue
		}
		for _, a := range slices.Backward(g.Activities) { // the youngest first
			if len(ids) == 0 || slices.Contains(ids, a.ID) {
				all = append(all, one{g.Name, a})
			}
		}
	}
	return listed(s.backend, c, "Activities", all, 0, 100, func(o one) query.Element { return o.a.element(o.group) })
}

func (a *activity) element(group string) query.Element {
	return query.Of("", query.Text("ActivityId", a.ID), query.Text("AutoScalingGroupName", group), query.Text("Description", a.Description),
		query.Text("Cause", a.Cause),
		query.Date("StartTime", a.Start), query.Date("EndTime", a.End), query.Text("StatusCode", a.Status), query.Text("StatusMessage", a.Message),
		query.Int("Progress", a.Progress), query.Text("Details", "{}"))
}

func activitiesElement(g *group, all []*activity) query.Element {
	return query.Of("", query.List("Activities", "member", all, func(a *activity) query.Element { return a.element(g.Name) }))
}
