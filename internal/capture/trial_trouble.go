package capture

import (
	"context"
	"errors"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// The cloud's message about a missing instance is recorded at once, because the cloud may forget it. The judgement and
// the failure's message use the record.

// withRecordedTrouble is the trial in the cloud, with the recorded message.
func withRecordedTrouble(seen cloud.Trial, r *v1alpha1.TrialRecord) cloud.Trial {
	if r.Trouble == nil || r.Trouble.Attempt != r.Attempt || len(seen.Instances) > 0 || seen.State == cloud.Deleting {
		return seen
	}
	seen.State, seen.Trouble, seen.NoRoom, seen.Blames = cloud.Failed, r.Trouble.Text, r.Trouble.NoRoom, r.Trouble.Blames
	return seen
}

// troubleOf is the message to record: the new message, or the recorded message. An instance that is gone has no
// message. A cloud that still tries has its latest error.
func troubleOf(w *observed) *v1alpha1.TrialTrouble {
	seen, r := w.trial.cloud, w.record.Trial
	waits := seen.State == cloud.Pending && len(seen.Instances) == 0
	if seen.State != cloud.Failed && !waits || seen.Trouble == "" || r.Trouble != nil && r.Trouble.Attempt == r.Attempt {
		return r.Trouble
	}
	return &v1alpha1.TrialTrouble{Attempt: r.Attempt, Text: seen.Trouble, NoRoom: seen.NoRoom, Blames: seen.Blames}
}

// noteRefused records the cloud's message about missing room, which ends the attempt.
func (t trials) noteRefused(ctx context.Context, w *observed, err error) error {
	text := err.Error()
	if c := (*cloud.Error)(nil); errors.As(err, &c) && c.Message != "" {
		if text = c.Message; c.Code != "" && !strings.Contains(text, c.Code) {
			text = c.Code + ": " + text
		}
	}
	return t.note(ctx, w, func(r *v1alpha1.TrialRecord) {
		r.Trouble = &v1alpha1.TrialTrouble{Attempt: r.Attempt, Text: text, NoRoom: true}
	})
}

// isRefused reports whether the cloud refused the trial's instance for another reason than missing room. The pool's next node
// would be refused, too.
func isRefused(r *v1alpha1.TrialRecord) bool {
	return r != nil && r.Trouble != nil && !r.Trouble.NoRoom
}

// cloudMessage is the cloud's message about the trial; empty without a message.
func cloudMessage(r *v1alpha1.TrialRecord) string {
	if r != nil && r.Trouble != nil {
		return r.Trouble.Text
	}
	return ""
}
