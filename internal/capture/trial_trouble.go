package capture

import (
	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// The cloud's message about a missing instance is recorded at once, because the cloud may forget it. The judgement and
// the failure's message use the record.

// withRecordedTrouble is the trial in the cloud, with the recorded message.
func withRecordedTrouble(seen cloud.Trial, r *v1alpha1.TrialRecord) cloud.Trial {
	if r.CloudError == nil || r.CloudError.Attempt != r.Attempt || len(seen.Instances) > 0 || seen.State == cloud.Deleting {
		return seen
	}
	seen.State, seen.Trouble, seen.LacksCapacity, seen.BlamesImage = cloud.Failed, r.CloudError.Message, r.CloudError.LacksCapacity, r.CloudError.BlamesImage
	return seen
}

// troubleOf is the message to record: the new message, or the recorded message. An instance that is gone has no
// message. A cloud that still tries has its latest error.
func troubleOf(w *pass) *v1alpha1.TrialCloudError {
	seen, r := w.trial.cloud, w.record.Trial
	waits := seen.State == cloud.Pending && len(seen.Instances) == 0
	if seen.State != cloud.Failed && !waits || seen.Trouble == "" || r.CloudError != nil && r.CloudError.Attempt == r.Attempt {
		return r.CloudError
	}
	return &v1alpha1.TrialCloudError{Attempt: r.Attempt, Message: seen.Trouble, LacksCapacity: seen.LacksCapacity, BlamesImage: seen.BlamesImage}
}

// isRefused reports whether the cloud refused the trial's instance for another reason than missing room. The pool's next node
// would be refused, too.
func isRefused(r *v1alpha1.TrialRecord) bool {
	return r != nil && r.CloudError != nil && !r.CloudError.LacksCapacity
}

// cloudMessage is the cloud's message about the trial; empty without a message.
func cloudMessage(r *v1alpha1.TrialRecord) string {
	if r != nil && r.CloudError != nil {
		return r.CloudError.Message
	}
	return ""
}
