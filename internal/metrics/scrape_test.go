package metrics

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// scrape returns the samples of a registry with the metrics by `name{label="value"}`, of histograms the count and sum. A
// registry refuses metrics without a matching description, and duplicates.
func scrape(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(m); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	samples := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, l := range metric.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			key := func(suffix string) string {
				if len(labels) == 0 {
					return family.GetName() + suffix
				}
				return family.GetName() + suffix + "{" + strings.Join(labels, ",") + "}"
			}
			switch {
			case metric.GetHistogram() != nil:
				samples[key("_count")] = float64(metric.GetHistogram().GetSampleCount())
				samples[key("_sum")] = metric.GetHistogram().GetSampleSum()
			case metric.GetGauge() != nil:
				samples[key("")] = metric.GetGauge().GetValue()
			default:
				samples[key("")] = metric.GetCounter().GetValue()
			}
		}
	}
	return samples
}

// reported are the samples with this prefix that are not zero.
func reported(t *testing.T, m *Metrics, prefix string) map[string]float64 {
	t.Helper()
	all := scrape(t, m)
	for key, value := range all {
		if value == 0 || !strings.HasPrefix(key, prefix) {
			delete(all, key)
		}
	}
	return all
}

func at(d time.Duration) metav1.MicroTime { return metav1.NewMicroTime(noon.Add(d)) }

func step(phase v1alpha1.Phase, from, to time.Duration) v1alpha1.Step {
	s := v1alpha1.Step{Phase: phase, StartedAt: at(from)}
	if to > 0 {
		end := at(to)
		s.FinishedAt = &end
	}
	return s
}

func donor(from, to time.Duration) *v1alpha1.DonorStatus {
	start := at(from)
	d := &v1alpha1.DonorStatus{ReservedAt: &start}
	if to > 0 {
		end := at(to)
		d.ReleasedAt = &end
	}
	return d
}

// prototype in the given status.
func prototype(name string, status v1alpha1.PrototypeStatus) *v1alpha1.Prototype {
	p := &v1alpha1.Prototype{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)}, Status: status}
	p.Spec = v1alpha1.PrototypeSpec{Pool: "pool1", Version: "2026.03.14", Donor: v1alpha1.Donor{NodeName: "n", ProviderID: "nothing:///x"}}
	return p
}

// life is every status of a successful capture, in order.
func life() []v1alpha1.PrototypeStatus {
	phases := []v1alpha1.Phase{
		v1alpha1.PhaseReserving, v1alpha1.PhaseDraining, v1alpha1.PhaseSnapshotting, v1alpha1.PhaseReleasing,
		v1alpha1.PhasePublishing, v1alpha1.PhasePromoting, v1alpha1.PhaseSucceeded,
	}
	lives := []v1alpha1.PrototypeStatus{{}}
	for i, phase := range phases {
		next := *lives[i].DeepCopy()
		next.Phase = phase
		now := time.Duration(i) * time.Minute
		if n := len(next.Steps); n > 0 {
			end := at(now)
			next.Steps[n-1].FinishedAt = &end
		}
		switch phase {
		case v1alpha1.PhaseDraining:
			next.Donor = donor(0, 0)
		case v1alpha1.PhasePublishing:
			next.Donor = donor(0, now)
		}
		if phase != v1alpha1.PhaseSucceeded {
			next.Steps = append(next.Steps, step(phase, now, 0))
		}
		lives = append(lives, next)
	}
	return lives
}
