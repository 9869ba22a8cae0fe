package cluster

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// reportingClient reports Prototypes and policies with unreadable fields.
type reportingClient struct {
	client.WithWatch
	connection *Connection
	reported   *sync.Map
}

// Get implements client.Reader.
func (r *reportingClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := r.WithWatch.Get(ctx, key, object, options...)
	switch of := object.(type) {
	case *v1alpha1.Prototype:
		r.prototype(of)
	case *v1alpha1.PrototypePolicy:
		r.policy(of)
	}
	return err
}

// List implements client.Reader.
func (r *reportingClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := r.WithWatch.List(ctx, list, options...)
	switch of := list.(type) {
	case *v1alpha1.PrototypeList:
		for i := range of.Items {
			r.prototype(&of.Items[i])
		}
	case *v1alpha1.PrototypePolicyList:
		for i := range of.Items {
			r.policy(&of.Items[i])
		}
	}
	return err
}

func (r *reportingClient) prototype(p *v1alpha1.Prototype) {
	r.report(p.Unreadable.Of("Prototype", p.Name))
}

func (r *reportingClient) policy(p *v1alpha1.PrototypePolicy) {
	r.report(p.Unreadable.Of("PrototypePolicy", p.Name))
}

func (r *reportingClient) report(message string) {
	if message == "" || r.connection.OnUnreadable == nil {
		return
	}
	if _, reported := r.reported.LoadOrStore(message, true); !reported {
		r.connection.OnUnreadable(message)
	}
}
