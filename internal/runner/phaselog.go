package runner

import (
	"context"
	"log/slog"
	"time"

	"github.com/go-logr/logr"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
)

// logChanges logs a line for each new phase of a capture, and what needs a person.
func logChanges(log logr.Logger, now func() time.Time) func(context.Context, *v1alpha1.Prototype, *v1alpha1.Prototype) {
	return func(_ context.Context, before, after *v1alpha1.Prototype) {
		log := log.WithValues("prototype", after.Name, "pool", after.Spec.Pool, "version", after.Spec.Version, "donor", after.Spec.Donor.NodeName)
		if after.Status.Phase != before.Status.Phase {
			log.Info("capture phase", "phase", after.Status.Phase, "from", before.Status.Phase, "sinceCreation", sinceCreation(after))
		}
		items := func(p *v1alpha1.Prototype) []attention.Item {
			return attention.List(attention.Facts{Now: now(), Prototypes: []v1alpha1.Prototype{*p}})
		}
		logNews(log, attention.New(items(before), items(after)))
	}
}

// logNews logs what newly needs a person: an error if critical, else a warning, and information for a decision.
func logNews(log logr.Logger, news []attention.Item) {
	to := slog.New(logr.ToSlogHandler(log))
	levels := map[attention.Severity]slog.Level{attention.Critical: slog.LevelError, attention.Warning: slog.LevelWarn, attention.Info: slog.LevelInfo}
	for _, i := range news {
		to.Log(context.Background(), levels[i.Severity], i.Title,
			"subject", i.Subject, "reason", i.Reason, "cause", i.Cause, "next", i.Next, "command", i.Command)
	}
}

// sinceCreation is the time from the creation of the Prototype to the last change of its steps; empty if unknown.
func sinceCreation(p *v1alpha1.Prototype) string {
	if len(p.Status.Steps) == 0 || p.CreationTimestamp.IsZero() {
		return ""
	}
	last := p.Status.Steps[len(p.Status.Steps)-1]
	at := last.StartedAt
	if last.FinishedAt != nil {
		at = *last.FinishedAt
	}
	return at.Sub(p.CreationTimestamp.Time).Round(time.Second).String()
}
