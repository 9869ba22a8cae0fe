package nodejoin

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/joinhealth"
)

// Limits returns the limits of a policy.
func Limits(s v1alpha1.RollbackSettings) joinhealth.Limits {
	return joinhealth.Limits{Join: s.JoinTimeout.Duration, FailsDifferent: s.FailOnDifference}.Defaulted()
}

// Status returns the report on a pool's version, including the memory for the next look.
func Status(version string, verdict joinhealth.Verdict, joins []joinhealth.Join, cohorts string, went *history.AutoRollback) *v1alpha1.JoinHealthStatus {
	if version == "" {
		return nil
	}
	t := joinhealth.Count(joins, version)
	s := &v1alpha1.JoinHealthStatus{
		Version: version, State: string(verdict.State), Message: verdict.Message,
		Joined: int32(t.Joined), Failed: int32(t.Failed), Waiting: int32(t.Waiting), Cohorts: cohorts,
	}
	if went != nil {
		s.Suspect, s.RolledBackAt = went.Version, stamp(went.At)
	}
	for _, join := range Memory(joins, version) {
		s.Joins = append(s.Joins, v1alpha1.JoinStatus{
			Instance: string(join.Instance), Node: join.Node, RunningSince: metav1.NewTime(join.Running.UTC()), Outcome: string(join.Outcome),
			NodeUID: types.UID(join.NodeUID), Message: join.Why, ReadyAfter: span(join.Took), OverdueSince: stamp(join.OverdueSince),
		})
	}
	return s
}

// Before returns the joins from a report.
func Before(s *v1alpha1.JoinHealthStatus) []joinhealth.Join {
	if s == nil {
		return nil
	}
	var joins []joinhealth.Join
	for _, join := range s.Joins {
		j := joinhealth.Join{
			Instance: cloud.InstanceID(join.Instance), Node: join.Node, Version: s.Version, Running: join.RunningSince.UTC(),
			Outcome: joinhealth.Outcome(join.Outcome), Why: join.Message, NodeUID: string(join.NodeUID), Doubted: join.Outcome == string(joinhealth.Uncounted),
		}
		if join.ReadyAfter != nil {
			j.Took = join.ReadyAfter.Duration
		}
		if join.OverdueSince != nil {
			j.OverdueSince = join.OverdueSince.UTC()
		}
		joins = append(joins, j)
	}
	return joins
}

// stamp returns a time in the API server's precision; nil for zero.
func stamp(at time.Time) *metav1.Time {
	if at.IsZero() {
		return nil
	}
	t := metav1.NewTime(at.UTC().Truncate(time.Second))
	return &t
}

func span(d time.Duration) *metav1.Duration {
	if d == 0 {
		return nil
	}
	return &metav1.Duration{Duration: d.Round(time.Second)}
}
