package trial

import (
	"cmp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

const (
	// firstPause is the pause after the first inconclusive attempt. Each further pause is twice as long, up to the
	// trial's timeout divided by pauseShare.
	firstPause, pauseShare = 5 * time.Minute, 8
	// ObservationInterval is the interval of records of a successful observation. A gap longer than ObservationGap
	// counts as time without observation.
	ObservationInterval, ObservationGap = 2 * time.Minute, 3 * time.Minute
)

// PauseAfter is the pause after the given number of attempts at a trial with the timeout.
func PauseAfter(attempts int32, timeout time.Duration) time.Duration {
	return min(firstPause<<min(max(attempts-1, 0), 8), timeout/pauseShare)
}

// UnobservedTime is the time without observation since the attempt began.
func UnobservedTime(r *v1alpha1.TrialRecord, now time.Time) time.Duration {
	if r.ObservedAt == nil || r.Name == "" {
		return 0
	}
	if gap := now.Sub(r.ObservedAt.Time); gap > ObservationGap {
		return r.Unobserved.Duration + gap
	}
	return r.Unobserved.Duration
}

// InstanceOf returns the facts of the attempt's instance.
func InstanceOf(r *v1alpha1.TrialRecord, seen cloud.Trial, now time.Time) (i Instance) {
	none, trouble := len(seen.Instances) == 0, cmp.Or(seen.Trouble, "no reason given")
	switch failed := seen.State == cloud.Failed; {
	case seen.LacksCapacity:
		i.Refused = trouble
	case none && failed && seen.Trouble != "": // without an instance, a message that blames the image is not trusted
		i.Unclear = seen.Trouble
	case none && (failed || seen.State == cloud.Absent && r.RunningSince != nil), seen.State == cloud.Deleting:
		i.Gone = true
	case failed && seen.BlamesImage:
		i.Broken = trouble
	case failed:
		i.Unclear = trouble
	case none && seen.State == cloud.Pending:
		i.Error = seen.Trouble
	case r.RunningSince != nil:
		i.Running = r.RunningSince.Time
	case seen.State == cloud.Complete:
		i.Running = now
	}
	return i
}

// The cloud's message about a missing instance is recorded at once, because the cloud may forget it. The judgement and
// the failure's message use the record.

// WithRecordedTrouble is the trial in the cloud, with the recorded message.
func WithRecordedTrouble(seen cloud.Trial, r *v1alpha1.TrialRecord) cloud.Trial {
	if r.CloudError == nil || r.CloudError.Attempt != r.Attempt || len(seen.Instances) > 0 || seen.State == cloud.Deleting {
		return seen
	}
	seen.State, seen.Trouble, seen.LacksCapacity, seen.BlamesImage = cloud.Failed, r.CloudError.Message, r.CloudError.LacksCapacity, r.CloudError.BlamesImage
	return seen
}

// TroubleOf is the message to record: the new message, or the recorded message. An instance that is gone has no
// message. A cloud that still tries has its latest error.
func TroubleOf(seen cloud.Trial, r *v1alpha1.TrialRecord) *v1alpha1.TrialCloudError {
	waits := seen.State == cloud.Pending && len(seen.Instances) == 0
	if seen.State != cloud.Failed && !waits || seen.Trouble == "" || r.CloudError != nil && r.CloudError.Attempt == r.Attempt {
		return r.CloudError
	}
	return &v1alpha1.TrialCloudError{Attempt: r.Attempt, Message: seen.Trouble, LacksCapacity: seen.LacksCapacity, BlamesImage: seen.BlamesImage}
}

// IsRefused reports whether the cloud refused the trial's instance for another reason than missing room. The pool's next node
// would be refused, too. r may be nil.
func IsRefused(r *v1alpha1.TrialRecord) bool {
	return r != nil && r.CloudError != nil && !r.CloudError.LacksCapacity
}

// LacksRoom reports whether the cloud had no instance to spare for the trial. r may be nil.
func LacksRoom(r *v1alpha1.TrialRecord) bool {
	return r != nil && r.CloudError != nil && r.CloudError.LacksCapacity
}

// CloudMessage is the cloud's message about the trial; empty without a message. r may be nil.
func CloudMessage(r *v1alpha1.TrialRecord) string {
	if r != nil && r.CloudError != nil {
		return r.CloudError.Message
	}
	return ""
}

// WithInstances adds the instances without a Node.
func WithInstances(nodes []v1alpha1.TrialNodeRecord, instances []cloud.Instance) []v1alpha1.TrialNodeRecord {
	known := map[string]bool{}
	for _, n := range nodes {
		known[strings.ToLower(n.Instance)] = true
	}
	for _, i := range instances {
		if !known[strings.ToLower(string(i.ID))] {
			nodes = append(nodes, v1alpha1.TrialNodeRecord{Instance: string(i.ID)})
		}
	}
	return nodes
}

// ChecksSince returns the checks, each with the begin of its current result.
func ChecksSince(before []v1alpha1.TrialCheck, checks []Check, now time.Time) []v1alpha1.TrialCheck {
	since := map[string]v1alpha1.TrialCheck{}
	for _, check := range before {
		since[check.Name] = check
	}
	next := make([]v1alpha1.TrialCheck, len(checks))
	for i, check := range checks {
		at := metav1.NewMicroTime(now)
		next[i] = v1alpha1.TrialCheck{Name: string(check.Name), Result: v1alpha1.TrialResult(check.Result), Message: check.Message, At: &at}
		if was, known := since[string(check.Name)]; known && was.Result == next[i].Result {
			next[i].At = was.At
		}
	}
	return next
}
