package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// command is a child process that uses the sandbox as a person in a shell would. When the demo is
// interrupted, the child is asked to end first, and made to after a while.
func (s *scenario) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, args...)
	command.Env = os.Environ()
	for _, v := range s.world.Environment() {
		command.Env = append(command.Env, v.Name+"="+v.Value)
	}
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 5 * time.Second
	return command
}

// run runs a child with the given output. If out is a terminal, the child has a terminal.
func (s *scenario) run(ctx context.Context, out *os.File, name string, args ...string) error {
	command := s.command(ctx, name, args...)
	command.Stdout, command.Stderr = out, out
	return command.Run()
}

// install pipes the output of `kamino manifests` into the sandbox's kubectl.
func (s *scenario) install(ctx context.Context) error {
	manifests, err := s.output(ctx, nil, s.Kamino, "manifests")
	if err != nil {
		return err
	}
	applied, err := s.output(ctx, bytes.NewReader(manifests), s.Sandbox, "--dir", s.world.Dir(), "kubectl", "apply", "-f", "-")
	if err != nil {
		return err
	}
	s.print.line("%d objects created", len(strings.Split(strings.TrimSpace(string(applied)), "\n")))
	return nil
}

func (s *scenario) output(ctx context.Context, in io.Reader, name string, args ...string) ([]byte, error) {
	command := s.command(ctx, name, args...)
	var stderr bytes.Buffer
	command.Stdin, command.Stderr = in, &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
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
