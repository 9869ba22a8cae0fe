package pool

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/kamino-dev/kamino/internal/history"
	"github.com/kamino-dev/kamino/internal/history/timeline"
)

// Timeline returns all facts about the pool in the order of time. If the cloud does not answer, Uncounted receives the
// error, and the list has no versions.
func (f *Finder) Timeline(ctx context.Context, p *Pool) ([]timeline.Entry, error) {
	h, err := f.History(ctx, p, 0)
	if err != nil {
		if f.Uncounted != nil {
			f.Uncounted(err)
		}
		h = history.History{Pool: f.Cloud.PoolName(p.ID), PoolID: p.ID}
	}
	facts := timeline.Facts{Prototypes: p.Prototypes, History: h}
	if facts.Policies, err = f.Cluster.Policies(ctx); err != nil {
		return nil, err
	}
	if facts.Events, err = f.Events(ctx); err != nil {
		return nil, err
	}
	return timeline.Of(facts), nil
}

// Events lists the events of Kamino. Events about objects without a namespace are in the namespace "default".
func (f *Finder) Events(ctx context.Context) ([]corev1.Event, error) {
	list, err := f.Cluster.Kube.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("reportingComponent", timeline.Reporter).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	return list.Items, nil
}
