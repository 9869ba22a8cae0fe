package print

import (
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/attention"
	"github.com/kamino-dev/kamino/internal/cli/output"
	"github.com/kamino-dev/kamino/internal/wording"
)

// Prototype writes one Prototype in a form other than Text. The table has the columns of `kubectl get prototypes`.
func Prototype(w io.Writer, format output.Format, p *v1alpha1.Prototype, now time.Time) error {
	switch format {
	case output.JSON, output.YAML:
		return output.Value(w, format, Presentable(p))
	case output.Name:
		_, err := fmt.Fprintf(w, "prototype.%s/%s\n", v1alpha1.GroupVersion.Group, p.Name)
		return err
	default:
		return tables(w, layout{}, prototypeTable([]v1alpha1.Prototype{*p}, nil, format, now))
	}
}

// Presentable is a copy with the kind, and without fields for the API server only.
func Presentable(p *v1alpha1.Prototype) *v1alpha1.Prototype {
	shown := p.DeepCopy()
	shown.APIVersion = v1alpha1.GroupVersion.String()
	shown.Kind = "Prototype"
	shown.ManagedFields = nil
	shown.Status.Contents = "" // compressed: `kamino diff` and `kamino sbom` read the list
	return shown
}

func prototypeTable(prototypes []v1alpha1.Prototype, items []attention.Item, format output.Format, now time.Time) grid {
	heading := []string{"NAME", "POOL", "VERSION", "DONOR", "PHASE", "PROGRESS", "READY", "REASON", "AGE"}
	if format == output.Wide {
		heading = append(heading, "OUT OF SERVICE", "MESSAGE", "IMAGE")
	}
	rows := make([][]string, 0, len(prototypes))
	for i := range prototypes {
		rows = append(rows, prototypeRow(&prototypes[i], items, format == output.Wide, now))
	}
	return newGrid(heading, rows)
}

func prototypeRow(p *v1alpha1.Prototype, items []attention.Item, wide bool, now time.Time) []string {
	ready := None
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		ready = string(c.Status)
	}
	row := []string{
		p.Name, p.Spec.Pool, p.Spec.Version, p.Spec.Donor.NodeName, orNone(string(p.Status.Phase)),
		orNone(attention.Progress(p, items)), ready, orNone(reason(p)), Age(p.CreationTimestamp.Time, now),
	}
	if wide {
		image := ""
		if p.Status.Image != nil {
			image = p.Status.Image.ID
		}
		away, _ := OutOfService(p, now)
		row = append(row, orNone(away), orNone(Message(p)), orNone(image))
	}
	return row
}

// reason is the reason of the failure, or else of the Ready condition.
func reason(p *v1alpha1.Prototype) string {
	if f := p.Status.Failure; f != nil {
		return f.Reason
	}
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}

// Message is the Prototype's message: of the failure, or else of the Ready condition.
func Message(p *v1alpha1.Prototype) string {
	if f := p.Status.Failure; f != nil {
		return f.Message
	}
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c.Message
	}
	return ""
}

// OutOfService is the time of the donor out of service, and whether the donor is still away; empty if the donor was never
// reserved. A donor whose disk was copied in use was reserved, and never away: 0s.
func OutOfService(p *v1alpha1.Prototype, now time.Time) (duration string, still bool) {
	d := p.Status.Donor
	switch {
	case d == nil || d.ReservedAt == nil:
		return "", false
	case p.Spec.Settings.CopiesDonor():
		return "0s", false
	case d.ReleasedAt == nil:
		return wording.Duration(now.Sub(d.ReservedAt.Time)), true
	default:
		return wording.Duration(d.ReleasedAt.Sub(d.ReservedAt.Time)), false
	}
}

// Frozen is how long writers to the donor's disk stood still at the most, to a hundredth of a second; empty without a copy of a disk
// in use.
func Frozen(p *v1alpha1.Prototype) string {
	if p.Status.Donor == nil || p.Status.Donor.FrozenFor == nil {
		return ""
	}
	return fmt.Sprintf("%.2fs", p.Status.Donor.FrozenFor.Seconds())
}
