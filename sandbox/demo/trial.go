package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/trial"
	"github.com/kamino-dev/kamino/sandbox/pool"
)

// soak of the demo's trial and of the pioneer: a longer one would show nothing more.
const soak = "3s"

// order is the command line of the capture. On Azure, kubeadm nodes next to the pool join by its customData, which Azure never returns.
func (s *scenario) order() ([]string, error) {
	settings := filepath.Join(s.dir, "settings.yaml")
	content := "settings: {trial: {mode: " + string(v1alpha1.TrialApart) + ", soak: " + soak + "}}\n"
	order := []string{"capture", s.donor, "-f", settings}
	if s.Pioneer {
		content += "pioneer: {soak: " + soak + "}\n"
		order = append(order, "--pioneer")
	}
	if s.Kubeadm && s.Cloud == pool.Azure {
		spec, err := s.specOf(s.before[s.donor].ID)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(s.dir, "cloud-init.yaml")
		if err := os.WriteFile(file, spec.CustomData, 0o600); err != nil {
			return nil, err
		}
		order = append(order, "--method", string(v1alpha1.MethodCopy), "--custom-data", file)
	}
	return order, os.WriteFile(settings, []byte(content), 0o600)
}

// trialPassed requires that the trial passed, with all checks, and that the version has the tag of a passed trial.
func (s *scenario) trialPassed(ctx context.Context) error {
	p := s.capture.prototype
	t := p.Status.Trial
	if t == nil || t.Result != v1alpha1.TrialPassed || t.FinishedAt == nil {
		return fmt.Errorf("the trial is %+v", t)
	}
	if len(t.Checks) != len(trial.Names()) {
		return fmt.Errorf("%d checks were made, want %d", len(t.Checks), len(trial.Names()))
	}
	for _, c := range t.Checks {
		if c.Result != v1alpha1.TrialPassed && c.Result != v1alpha1.TrialSkipped {
			return fmt.Errorf("check %s is %s: %s", c.Name, c.Result, c.Message)
		}
	}
	tags, err := s.tagsOf(ctx, p.Spec.Version)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(tags[cloud.TagTrial], string(v1alpha1.TrialPassed)) {
		return fmt.Errorf("version %s has the tag %s=%q", p.Spec.Version, cloud.TagTrial, tags[cloud.TagTrial])
	}
	return nil
}

// trialNodeIsGone requires that every machine belongs to the pool, and every Node to a machine.
func (s *scenario) trialNodeIsGone(ctx context.Context) error {
	machines := map[string]bool{}
	for _, m := range s.world.Fleet().Machines() {
		machines[m.Node] = true
		if of := (pool.Spec{Name: s.pool}); !of.Is(path.Base(m.Pool)) {
			return fmt.Errorf("machine %s is not part of the pool", m.ID)
		}
	}
	nodes, err := s.world.Kube().CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, node := range nodes.Items {
		if !machines[node.Name] {
			return fmt.Errorf("the Node %s is left", node.Name)
		}
	}
	if t := s.capture.prototype.Status.Trial; t == nil || t.Node == "" {
		return errors.New("the trial had no node")
	}
	return nil
}
