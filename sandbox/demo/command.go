package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/child"
)

// programs run with the environment of the sandbox.
func (s *scenario) programs() child.Programs {
	return child.Programs{Kamino: s.Kamino, Sandbox: s.Sandbox, Env: child.With(s.world.Environment())}
}

// run runs kamino with the output of the demo. If the output is a terminal, kamino has a terminal.
func (s *scenario) run(ctx context.Context, args ...string) error {
	command := s.programs().Command(ctx, s.Kamino, args...)
	command.Stdout, command.Stderr = s.Out, s.Out
	return command.Run()
}

// output runs kamino and returns the standard output.
func (s *scenario) output(ctx context.Context, args ...string) ([]byte, error) {
	return s.programs().Output(ctx, nil, s.Kamino, args...)
}

func (s *scenario) install(ctx context.Context) error {
	applied, err := s.programs().Install(ctx)
	if err == nil {
		s.print.line("%d objects created", len(applied))
	}
	return err
}

// outcome is the result of the capture in the cluster.
type outcome struct {
	prototype v1alpha1.Prototype
	// away is how long the donor was out of service.
	away time.Duration
}

var prototypes = schema.GroupVersionResource{Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Resource: "prototypes"}

func (s *scenario) outcome(ctx context.Context) (outcome, error) {
	client, err := dynamic.NewForConfig(s.world.Config())
	if err != nil {
		return outcome{}, err
	}
	list, err := client.Resource(prototypes).List(ctx, metav1.ListOptions{})
	if err != nil {
		return outcome{}, err
	}
	if len(list.Items) != 1 {
		return outcome{}, fmt.Errorf("found %d Prototypes, want the captured one", len(list.Items))
	}
	var out outcome
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[0].Object, &out.prototype); err != nil {
		return outcome{}, err
	}
	donor := out.prototype.Status.Donor
	if donor == nil || donor.ReservedAt == nil || donor.ReleasedAt == nil {
		return outcome{}, errors.New("the Prototype has no time at which the donor was returned")
	}
	out.away = donor.ReleasedAt.Sub(donor.ReservedAt.Time)
	return out, nil
}
