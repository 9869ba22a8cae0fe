package conformance

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/sandbox/fault"
)

const (
	galleryWords    = "gallery SIG_My_Group"
	definitionWords = "image definition kamino-" + poolName + "-prototype"
	versionWords    = "version " + version + " of pool " + poolName

	policyText = "Resource was disallowed by policy 'only-tagged'."
	quotaText  = "The number of galleries has reached the limit of 100"
	// mostPasses is more than a capture takes from here on.
	mostPasses = 300

	brokenText = "The replica in westus2 could not be written"
)

// TestErrorOfFailedCreation: Azure refuses a part of an image version, or accepts the part and fails later. Azure's
// code and message and the object must be in the failure of the capture, or in the condition of a waiting capture.
func TestErrorOfFailedCreation(t *testing.T) {
	for name, test := range map[string]struct {
		fault fault.Fault
		// waits: the capture is stalled until an operator removes the cause. Else the capture fails for the reason.
		waits  bool
		reason string
		says   []string
	}{
		"gallery refused by a policy": {
			fault: fault.Fault{Resource: "gallery", Status: http.StatusForbidden, Code: "RequestDisallowedByPolicy", Message: policyText},
			waits: true, says: []string{"make " + galleryWords, "RequestDisallowedByPolicy", policyText, "ask the policy's owner for an exemption"},
		},
		"gallery refused for a quota": {
			fault:  fault.Fault{Resource: "gallery", Status: http.StatusConflict, Code: "QuotaExceeded", Message: quotaText},
			reason: "CloudRefused", says: []string{"make " + galleryWords, "QuotaExceeded", quotaText},
		},
		"gallery failed": {
			fault:  fault.Fault{Resource: "gallery", Long: true, Code: "GalleryCreationFailed", Message: brokenText},
			reason: "CloudRefused", says: []string{"make " + galleryWords, "GalleryCreationFailed", brokenText},
		},
		"definition refused": {
			fault: fault.Fault{Resource: "definition", Status: http.StatusBadRequest, Code: "InvalidParameter",
				Message: "The value of parameter features is invalid."},
			reason: "CloudRefused", says: []string{"make " + definitionWords, "InvalidParameter", "parameter features is invalid"},
		},
		"definition failed": {
			fault:  fault.Fault{Resource: "definition", Long: true, Code: "OperationNotAllowed", Message: brokenText},
			reason: "CloudRefused", says: []string{"make " + definitionWords, "OperationNotAllowed", brokenText},
		},
		"definition failed for a policy": { // Azure accepted the request, so waiting changes nothing
			fault:  fault.Fault{Resource: "definition", Long: true, Code: "RequestDisallowedByPolicy", Message: policyText},
			reason: "CloudRefused", says: []string{"make " + definitionWords, "RequestDisallowedByPolicy", policyText},
		},
		"version refused by a policy": {
			fault: fault.Fault{Resource: "version", Status: http.StatusForbidden, Code: "RequestDisallowedByPolicy", Message: policyText},
			waits: true, says: []string{"make image version " + version, poolName, "RequestDisallowedByPolicy", policyText},
		},
		"version refused for a quota": {
			fault: fault.Fault{Resource: "version", Status: http.StatusConflict, Code: "OperationNotAllowed",
				Message: "Exceeding the approved quota of replicas."},
			reason: "CloudRefused", says: []string{"make image version " + version, "OperationNotAllowed", "quota of replicas"},
		},
		"version failed": {
			fault:  fault.Fault{Resource: "version", Long: true, Code: "ReplicationJobsNotCompleted", Message: brokenText},
			reason: "ImageFailed", says: []string{versionWords, "ReplicationJobsNotCompleted", brokenText},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := newPublishing(t)
				test.fault.Name, test.fault.Operation = "ordered", "put"
				c.fault(test.fault)
				printed := c.carryOut(p, test.reason)
				for _, text := range test.says {
					if !strings.Contains(strings.ToLower(printed), strings.ToLower(text)) {
						t.Errorf("%q does not say %q", printed, text)
					}
				}
				if !test.waits {
					return
				}
				c.must(c.cloud.ClearFaults("ordered"))
				c.carryOut(p, "")
				if p.Status.Phase != v1alpha1.PhaseSucceeded {
					t.Errorf("after the repair, the capture did not go on: %+v", p.Status)
				}
			})
		})
	}
}

// TestTransientFault costs a capture nothing but time.
func TestTransientFault(t *testing.T) {
	for name, fault := range map[string]fault.Fault{
		"gallery in conflict":       {Resource: "gallery", Operation: "put", Status: http.StatusConflict, Count: 1},
		"definition in conflict":    {Resource: "definition", Operation: "put", Status: http.StatusConflict, Count: 1},
		"version in conflict":       {Resource: "version", Operation: "put", Status: http.StatusConflict, Count: 1},
		"operation not to be asked": {Resource: "operation", Status: http.StatusServiceUnavailable, Count: 8},
		"operation forgotten":       {Resource: "operation", Status: http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, p := newPublishing(t)
				c.fault(fault)
				for range 3 { // meanwhile the condition may name an obstacle
					c.carryOut(p, "")
				}
				if p.Status.Phase != v1alpha1.PhaseSucceeded {
					t.Errorf("the capture did not get through: %+v", p.Status)
				}
			})
		})
	}
}

// newPublishing returns a capture whose donor is back in service and whose snapshot is complete. Publication and
// promotion are left. Call newPublishing in a synctest bubble.
func newPublishing(t *testing.T) (*controller, *v1alpha1.Prototype) {
	t.Helper()
	time.Sleep(time.Until(day))
	w := newCloudEnv(t, options{wire: newWire()})
	nodes := w.nodesOf(poolName, time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour))
	for _, n := range nodes {
		n.Status.NodeInfo.BootID = "after"
	}
	p := prototypeOf(poolName, version, nodes[0])
	p.Status = v1alpha1.PrototypeStatus{Phase: v1alpha1.PhasePublishing}
	proof := v1alpha1.Proof{
		UID: p.UID, BootID: "before", Profile: v1alpha1.ProfileStatic, ProfileVersion: "1", Rules: 1, Met: 1, ManifestDigest: "sha256:0",
	}
	p.Status.Record, p.Status.Proof = &v1alpha1.Record{UID: p.UID, GeneralizeBootID: proof.BootID, Returning: true}, &proof
	w.until("stopped", func() bool {
		power, err := w.p.EnsureStopped(t.Context(), w.a)
		w.must(err)
		return power == cloud.PowerStopped
	})
	tags := map[string]string{cloud.TagUID: string(p.UID), cloud.TagProof: proof.Tag(), cloud.TagPrototype: p.Name}
	w.until("copied", func() bool {
		have, err := w.p.EnsureSnapshot(t.Context(), cloud.SnapshotSpec{Name: p.Name, Instance: w.a, Tags: tags})
		w.must(err)
		return have.State == cloud.Complete
	})
	w.until("started", func() bool {
		power, err := w.p.EnsureStarted(t.Context(), w.a)
		w.must(err)
		return power == cloud.PowerRunning
	})
	return newController(t.Context(), w, w.p, []*corev1.Node{nodes[0]}, p), p
}

func (w *cloudEnv) encode(value any) string {
	w.t.Helper()
	data, err := json.Marshal(value)
	w.must(err)
	return string(data)
}

// carryOut makes the engine's passes until the capture ends or waits, and returns the message. reason is the
// expected reason of the failure; empty for none.
func (c *controller) carryOut(p *v1alpha1.Prototype, reason string) string {
	c.t.Helper()
	for range mostPasses {
		result, err := c.engine.Pass(c.ctx, p.Name)
		c.must(c.api.Get(c.ctx, kube.ObjectKeyFromObject(p), p))
		if result.Done {
			break
		}
		stalled := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled)
		if err != nil && reason == "" && stalled != nil && p.Status.Failure == nil {
			return stalled.Message
		}
		time.Sleep(result.After)
	}
	failure := p.Status.Failure
	switch {
	case failure == nil && reason == "":
		return ""
	case failure == nil || failure.Reason != reason || failure.CloudError == "" || p.Status.Phase != v1alpha1.PhaseFailed:
		c.t.Fatalf("phase %s, failure %+v, want %s: %+v", p.Status.Phase, failure, reason, p.Status.Conditions)
	}
	return failure.Message
}
