package host

import (
	"errors"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/agent/generalize"
	"github.com/kamino-dev/kamino/internal/agent/patch/disk"
	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// Facts are what a report says about a disk besides its proof.
type Facts struct{ contents, level string }

// FactsOf reads the facts of a generalized disk. What cannot be read is only logged.
func FactsOf(r *generalize.Runner, t *tree.Tree, m *generalize.Manifest, logf func(format string, args ...any)) Facts {
	contents, err := r.Contents(t, m).Encode()
	if err != nil {
		logf("the list of the disk's contents is not reported: %v", err)
	}
	level, err := disk.Level(t)
	if err != nil {
		logf("the patch level of the disk is not known: %v", err)
	}
	return Facts{contents, level}
}

// Report returns the report with the proof of a run for an order.
func (f Facts) Report(m *generalize.Manifest, order types.UID, at time.Time) (*v1alpha1.Report, error) {
	proof, err := m.Proof(at)
	if err != nil {
		return nil, err
	}
	proof.Order, proof.PatchLevel = order, f.level
	if f.contents != "" {
		proof.ContentsDigest = v1alpha1.ContentsDigest(f.contents)
	}
	return &v1alpha1.Report{Proof: proof, Contents: f.contents}, nil
}

// Failure returns the report that there is no proof. An error with a name of its reason passes the name on.
func Failure(s generalize.RunSubject, order types.UID, why error, at time.Time) *v1alpha1.Report {
	u := &v1alpha1.Unproven{
		UID: s.UID, Order: order, BootID: s.BootID, Copy: s.Copy, Message: shortened(generalize.Printable(why.Error())),
		At: metav1.NewTime(at.UTC().Truncate(time.Second)),
	}
	var named interface{ ReasonName() string }
	if errors.As(why, &named) {
		u.Reason = named.ReasonName()
	}
	return &v1alpha1.Report{Unproven: u}
}

// maxWhy is the number of bytes for a reason in an annotation and a status.
const maxWhy = 2 << 10

func shortened(text string) string {
	if len(text) <= maxWhy {
		return text
	}
	return strings.ToValidUTF8(text[:maxWhy], "") + " ..."
}
