package doctor

import (
	"context"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// TestPermissionsOfMethods: permissions for copies count if a capture of the pool would copy a disk in use, permissions to stop and
// hold a donor if a capture would stop it, and those of rebuilds if a policy rebuilds. The credential needs no others.
func TestPermissionsOfMethods(t *testing.T) {
	inPlace := policyOfPool(func(p *v1alpha1.PrototypePolicySpec) {
		p.Settings.Donor = v1alpha1.DonorSettings{Method: v1alpha1.MethodInPlace}
	})
	for name, test := range map[string]struct {
		noCopy, onRequest, bootstraps bool
		policy                        *v1alpha1.PrototypePolicy
		copies                        bool
	}{
		"without a policy":          {copies: true},
		"a cloud without copies":    {noCopy: true},
		"a policy in place":         {policy: &inPlace},
		"a policy for another pool": {policy: new(policyOfPool(func(p *v1alpha1.PrototypePolicySpec) { p.Pools.Names = []string{"other"} })), copies: true},
		"a policy that rebuilds":    {policy: new(policyOfPool(func(p *v1alpha1.PrototypePolicySpec) { p.Rebuild = &v1alpha1.RebuildSettings{} })), copies: true},
		// A pool of the cloud is captured in place unless its nodes join with their own credential.
		"copies on request":                       {onRequest: true},
		"copies on request, with own credentials": {onRequest: true, bootstraps: true, copies: true},
		"a policy without a method":               {policy: new(policyOfPool(func(p *v1alpha1.PrototypePolicySpec) { p.Settings = v1alpha1.Settings{} })), copies: true},
	} {
		t.Run(name, func(t *testing.T) {
			d, memoryCloud, _ := newDoctorOf(t, memory.PoolSpec{}, memory.Config{Now: func() time.Time { return now }, NoCopy: test.noCopy})
			if test.policy != nil {
				d.Policies = func(context.Context) ([]v1alpha1.PrototypePolicy, error) {
					return []v1alpha1.PrototypePolicy{*test.policy}, nil
				}
			}
			if test.onRequest {
				d.Cloud = onRequest{d.Cloud}
			}
			if test.bootstraps {
				for _, name := range []string{"a", "b"} {
					n, err := d.Kube.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
					if err != nil {
						t.Fatal(err)
					}
					delete(n.Labels, "kubernetes.azure.com/role")
					n.Annotations["kubeadm.alpha.kubernetes.io/cri-socket"] = "unix:///run/containerd/containerd.sock"
					if _, err := d.Kube.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
			}
			says := ""
			for _, f := range examine(t, d).Findings {
				says += f.Message + "\n"
			}
			if got := strings.Contains(says, "can be captured now, while the node stays in service"); got != test.copies {
				t.Errorf("a capture: %s", says)
			}
			memoryCloud.Forbid("EnsureWorkshop", "EnsureStopped", "ProtectFromScaleIn", "EnsureRebuilt")
			said := strings.Join(findings(examine(t, d), CheckPermissions), "\n")
			for action, needed := range map[string]bool{"EnsureWorkshop": test.copies, "EnsureStopped": !test.copies, "ProtectFromScaleIn": !test.copies,
				"EnsureRebuilt": test.policy != nil && test.policy.Spec.Rebuild != nil} {
				if got := strings.Contains(said, "fail PermissionMissing: the credential lacks "+action+" on "); got != needed {
					t.Errorf("%s is reported: %t, want %t: %s", action, got, needed, said)
				}
			}
			if !strings.Contains(said, "needed for "+map[bool]string{true: cloud.ForCopy, false: cloud.ForInPlace}[test.copies]) {
				t.Errorf("it does not say what for: %s", said)
			}
		})
	}
}

// onRequest is a cloud where captures by copy are unverified.
type onRequest struct{ Cloud }

func (onRequest) CopiesOnRequest() bool { return true }

// TestWordToAPodIsAsked: a capture by copy patches NodeOrders.
func TestWordToAPodIsAsked(t *testing.T) {
	d, _, _ := newDoctor(t, memory.PoolSpec{})
	deny(d, "patch", "nodeorders")
	if level, says := worst(examine(t, d), CheckRBAC); level != Fail || !strings.Contains(says, "patch nodeorders") {
		t.Errorf("%s: %s", level, says)
	}
}

// policyOfPool is a policy for the pools of the change.
func policyOfPool(change func(*v1alpha1.PrototypePolicySpec)) v1alpha1.PrototypePolicy {
	p := v1alpha1.PrototypePolicy{}
	p.Name = "swap"
	change(&p.Spec)
	return p
}

// deny lets the API server deny one request.
func deny(d *Doctor, verb, resource string) {
	d.Kube.(*fake.Clientset).PrependReactor("create", "selfsubjectaccessreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		review := a.(kubetesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		if at := review.Spec.ResourceAttributes; at.Verb != verb || at.Resource != resource {
			return false, nil, nil
		}
		return true, review, nil
	})
}
