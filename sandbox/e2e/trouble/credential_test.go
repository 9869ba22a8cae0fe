package trouble

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/fault"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// TestTokenExpiresWhileTheImageIsMade: the capture waits until the token is renewed, and says so.
func TestTokenExpiresWhileTheImageIsMade(t *testing.T) {
	t.Parallel()
	e := sandbox.NewEnv(t, "name=expires,nodes=2")
	publishing := e.Barrier().Hold(sandboxtest.CreateVersion)
	capture := e.Capture(e.Donor)
	publishing.Wait()
	renew := e.Fault(fault.Fault{Resource: "version", Path: e.Group, Status: http.StatusUnauthorized, Code: "ExpiredAuthenticationToken",
		Message: "The access token has expired."})
	publishing.Release()
	p := e.WaitPrototype("its Prototype is stalled", func(p *v1alpha1.Prototype) bool {
		return meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionStalled)
	})
	stalled := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled)
	if stalled.Reason != "Unauthenticated" || p.Status.Failure != nil {
		t.Errorf("it is stalled with %s, failure %+v", stalled.Reason, p.Status.Failure)
	}
	for _, text := range []string{"Azure did not accept the token", "continues automatically"} {
		if !strings.Contains(stalled.Message, text) {
			t.Errorf("%q does not say %q", stalled.Message, text)
		}
	}
	renew()
	capture.ExpectExit(0)
	e.AssertCaptured(e.Before, e.Donor)
}
