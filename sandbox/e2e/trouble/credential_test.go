package trouble

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/sandbox/authority"
	"github.com/kamino-dev/kamino/sandbox/fault"
)

// rejects demands that a capture ends with exit code 5 and the sentences, and that nothing is changed.
func (g *ground) rejects(says ...string) {
	g.Helper()
	before := g.look()
	for _, c := range []*child{g.capture(g.nodes[0], "--dry-run"), g.capture(g.nodes[0])} {
		c.ends(g.T, 5, says...)
		if secret := sandbox.Facts().ClientSecret; strings.Contains(c.stderr.String(), secret) {
			g.Error("it says the secret")
		}
	}
	g.untouched(before)
}

func TestWrongSecret(t *testing.T) {
	g := newGround(t, "name=badsecret,nodes=2")
	g.env = append(g.env, "AZURE_CLIENT_SECRET=not-"+sandbox.Facts().ClientSecret)
	g.rejects("the client secret is wrong", "give the secret's value, not its ID")
}

func TestUnknownApplication(t *testing.T) {
	g := newGround(t, "name=badclient,nodes=2")
	g.env = append(g.env, "AZURE_CLIENT_ID=00000000-0000-0000-0000-000000000000")
	g.rejects("the application is not known in this tenant", "check client ID and tenant")
}

func TestExpiredToken(t *testing.T) {
	g := newGround(t, "name=expired,nodes=2")
	g.cloudGate().refuse(g.pool.ScaleSet(), http.StatusUnauthorized, "ExpiredAuthenticationToken",
		"The access token expiry UTC time '11/20/2026 11:59:00 PM' is earlier than current UTC time.")
	g.rejects("Azure did not accept the token", g.pool.ScaleSet(), "Log in again")
}

func TestTokenExpiresWhileTheImageIsMade(t *testing.T) {
	g := newGround(t, "name=expires,nodes=2")
	before := g.look()
	gate := g.cloudGate()
	gate.before(http.MethodPut, "/versions/", func() {
		gate.refuse("", http.StatusUnauthorized, "ExpiredAuthenticationToken", "The access token expiry UTC time is earlier than current UTC time.")
	})
	capture := g.capture(g.nodes[0])
	g.stalls("Unauthenticated", "Azure did not accept the token", "goes on by itself")
	gate.accept()
	capture.ends(t, 0)
	g.captured(before, g.nodes[0])
}

// stalls waits until the Prototype says that somebody must mend something, and demands the sentences.
func (g *ground) stalls(reason string, says ...string) {
	g.Helper()
	var message string
	g.reaches("the prototype is stalled", func(p *v1alpha1.Prototype) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled)
		if c == nil || c.Status != metav1.ConditionTrue {
			return false
		}
		if c.Reason != reason || p.Status.Failure != nil {
			g.Errorf("prototype %s is stalled by %s, %+v", p.Name, c.Reason, p.Status.Failure)
		}
		message = c.Message
		return true
	})
	for _, text := range says {
		if !strings.Contains(message, text) {
			g.Errorf("%q does not say %q", message, text)
		}
	}
}

// TestPermissionIsMissing takes a permission away from everybody.
func TestPermissionIsMissing(t *testing.T) {
	g := ownGround(t, "name=denied,nodes=2")
	group := "/subscriptions/" + sandbox.Facts().SubscriptionID + "/resourceGroups/" + sandbox.Facts().ResourceGroup
	for _, action := range []string{
		"Microsoft.Compute/disks/beginGetAccess/action", "Microsoft.Compute/snapshots/write", "Microsoft.Compute/galleries/images/versions/write",
	} {
		sandbox.Fault(t, fault.Fault{Name: "denied", Deny: action})
		g.rejects(action, group)
	}
}

// TestPermissionIsLostWhileTheImageIsMade takes a permission away from everybody.
func TestPermissionIsLostWhileTheImageIsMade(t *testing.T) {
	const action = "Microsoft.Compute/galleries/images/versions/write"
	g := ownGround(t, "name=lost,nodes=2")
	before := g.look()
	publishing := g.hold(g.cloudGate(), http.MethodPut, "/versions/")
	capture := g.capture(g.nodes[0])
	publishing.await(g)
	sandbox.Fault(t, fault.Fault{Name: "lost", Deny: action})
	publishing.letGo()
	g.stalls("Denied", action, g.versionsPath(), "give it a role", "goes on by itself")
	if now := g.look(); len(now.Ready) != len(g.nodes) || now.Nodes[g.nodes[0]] != before.Nodes[g.nodes[0]] {
		t.Errorf("the donor waits for somebody to mend what only the image needs: %+v", now)
	}
	g.must(sandbox.Cloud().ClearFaults("lost"))
	capture.ends(t, 0)
	capture.said(t, action)
	g.captured(before, g.nodes[0])
}

// TestPermissionIsLostWhileTheDonorWaits: what needs the donor cannot wait for somebody to mend it.
func TestPermissionIsLostWhileTheDonorWaits(t *testing.T) {
	const action = "Microsoft.Compute/snapshots/write"
	g := ownGround(t, "name=lostdonor,nodes=2")
	before := g.look()
	snapshot := g.hold(g.cloudGate(), http.MethodPut, "/snapshots/")
	capture := g.capture(g.nodes[0])
	snapshot.await(g)
	sandbox.Fault(t, fault.Fault{Deny: action})
	snapshot.letGo()
	capture.ends(t, 4, action, "give it a role", "the capture of node "+g.nodes[0]+" has failed; it was given back")
	g.givenBack(before, g.nodes[0], 1)
	g.failed("CloudRefused")
}

func TestCredentialThatTheClusterDoesNotKnow(t *testing.T) {
	g := newGround(t, "name=stale,nodes=2")
	g.kubeconfig(func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
		*user = clientcmdapi.AuthInfo{Token: "expired"}
	})
	g.rejects("the API server does not accept your credential (wrong or expired)", "renew")
}

func TestUserWithoutRightsInTheCluster(t *testing.T) {
	g := newGround(t, "name=guest,nodes=2")
	ca, err := authority.Open(filepath.Join(sandbox.Dir(), "pki"))
	g.must(err)
	pair, err := ca.Issue("guest", authority.Subject{Name: "guest"})
	g.must(err)
	g.kubeconfig(func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
		*user = clientcmdapi.AuthInfo{ClientCertificate: pair.CertFile, ClientKey: pair.KeyFile}
	})
	g.rejects("your credential may not do this in the cluster", `User "guest" cannot list resource "nodes"`)
}
