package capture

import (
	"context"
	"errors"
	"strings"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
)

// What the cloud said of an instance that it did not make is written down before the cloud forgets it: the judgement of the attempt and
// the sentence of the end are made from that.

// recalled is what the cloud shows of the attempt, with what it said before. A pool whose recipe was given back is whole again, and says
// nothing any more of the node that it could not grow by.
func recalled(seen cloud.Trial, r *v1alpha1.TrialRecord) cloud.Trial {
	if r.Trouble == nil || r.Trouble.Attempt != r.Attempt || len(seen.Instances) > 0 || seen.State == cloud.Deleting {
		return seen
	}
	seen.State, seen.Trouble, seen.NoRoom, seen.Blames = cloud.Failed, r.Trouble.Text, r.Trouble.NoRoom, r.Trouble.Blames
	return seen
}

// troubleOf is what the record is to keep: what the cloud says now, or what it said before. That of an instance which
// is gone is none.
func troubleOf(w *observed) *v1alpha1.TrialTrouble {
	seen, r := w.trial.cloud, w.record.Trial
	if seen.State != cloud.Failed || seen.Trouble == "" || r.Trouble != nil && r.Trouble.Attempt == r.Attempt {
		return r.Trouble
	}
	return &v1alpha1.TrialTrouble{Attempt: r.Attempt, Text: seen.Trouble, NoRoom: seen.NoRoom, Blames: seen.Blames}
}

// noteTrouble writes it down, if it is not.
func (t trials) noteTrouble(ctx context.Context, w *observed) error {
	if trouble := troubleOf(w); trouble != w.record.Trial.Trouble {
		return t.note(ctx, w, func(r *v1alpha1.TrialRecord) { r.Trouble = trouble })
	}
	return nil
}

// noteRefused writes down that the cloud has no room, in its own words. The attempt is over with that.
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

// toldOf is the cloud's own text for the end of a trial that it had a part in; empty if it had none.
func toldOf(r *v1alpha1.TrialRecord) string {
	if r != nil && r.Trouble != nil {
		return r.Trouble.Text
	}
	return ""
}
