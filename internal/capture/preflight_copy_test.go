package capture

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/node/kured"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// staysInService makes the capture a capture by copy.
func staysInService(p *v1alpha1.Prototype) { p.Spec.Settings.Donor.Method = v1alpha1.MethodCopy }

// observed has an observer of the Nodes beside the pool, which a preflight does not ask.
func observed(s *testEnv) { s.tryout = struct{ TrialObserver }{} }

// reboots lets kured hold its lock for a node.
func (s *testEnv) reboots(name string) {
	s.engine.Kured = kured.Default
	s.must(s.objects.Create(appsv1.SchemeGroupVersion.WithResource("daemonsets"), &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: "kured",
		Annotations: map[string]string{
			"weave.works/kured-node-lock": fmt.Sprintf(`{"nodeID":%q,"created":%q,"TTL":0}`, name, noon.Format(time.RFC3339)),
		},
	}}, "kube-system"))
}

// TestACopyAsksNothingOfPodsAndPeers: the only Ready node of a pool can be copied, with pods that must stay, while kured reboots
// another node. No pod is listed, and nothing of an eviction is asked. The same node is refused in place.
func TestACopyAsksNothingOfPodsAndPeers(t *testing.T) {
	lonelyAndBusy := func(method func(*v1alpha1.Prototype)) *testEnv {
		s := newTestEnv(t, observed)
		s.change("peer", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse })
		s.change(donorName, func(n *corev1.Node) { n.Annotations[v1alpha1.DoNotDisruptAnnotation] = "true" })
		s.annotatePod("app-1", v1alpha1.SafeToEvictAnnotation, "false")
		s.decide(method)
		s.reboots("peer")
		return s
	}
	s := lonelyAndBusy(func(*v1alpha1.Prototype) {})
	if reasons, err := s.confirmationReasons(); err != nil || len(reasons) < 3 {
		t.Fatalf("in place: %v, %v", reasons, err)
	}
	s = lonelyAndBusy(staysInService)
	found, err := s.engine.Case(t.Context(), s.prototype(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := found.Judge(); !v.Admitted() {
		t.Errorf("by copy: %+v", v)
	}
	if queued, err := found.Queued.Get(); err != nil || queued {
		t.Errorf("it waits for kured on another node: %v", err)
	}
	preview, err := s.engine.Preview(t.Context(), s.prototype(), nil)
	if err != nil || preview.Copy == nil || len(preview.Evicts) > 0 || len(preview.Refusals) > 0 {
		t.Errorf("%+v, %v", preview, err)
	}
	for _, call := range s.calls() {
		if strings.Contains(call, "pods/") && strings.HasPrefix(call, "list") || strings.Contains(call, "eviction") {
			t.Errorf("a copy asks %q", call)
		}
	}
}

// TestACopyWaitsForKuredOnItsDonor: a node that reboots has no moment for a copy.
func TestACopyWaitsForKuredOnItsDonor(t *testing.T) {
	s := newTestEnv(t, observed).decide(staysInService)
	s.reboots(donorName)
	found, err := s.engine.Case(t.Context(), s.prototype(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if queued, err := found.Queued.Get(); err != nil || !queued {
		t.Errorf("it does not wait: %v", err)
	}
}

// TestWhatAWorkshopNeeds refuses a capture by copy in advance, and no capture in place.
func TestWhatAWorkshopNeeds(t *testing.T) {
	for name, test := range map[string]struct {
		build  option
		spoil  func(*testEnv)
		reason string
	}{
		"customData that the cloud keeps secret": {func(s *testEnv) { s.unreadable = []string{"customData"} }, nil, cloud.PoolNotCopyable},
		"the permission for a workshop":          {nil, func(s *testEnv) { s.cloud.Forbid("EnsureWorkshop") }, cloud.PermissionMissing},
		"the permission for a copy":              {nil, func(s *testEnv) { s.cloud.Forbid("EnsureAttached") }, cloud.PermissionMissing},
		"room for an instance":                   {nil, func(s *testEnv) { s.cloud.SetQuota(memory.Quota{Instances: 2}) }, memory.ReasonQuotaExceeded},
		"a bootstrap token": {nil, func(s *testEnv) {
			info := &corev1.ConfigMap{Data: map[string]string{"kubeconfig": "x"}}
			info.Namespace, info.Name = metav1.NamespacePublic, clusterInfo
			s.must(s.objects.Add(info))
		}, admission.BootstrapTokenExpired},
		"a word to the pod":       {nil, func(s *testEnv) { s.lacks = []string{"patch nodeorders"} }, admission.NotInstalled},
		"evictions":               {nil, func(s *testEnv) { s.lacks = []string{"create pods/eviction"} }, admission.NotInstalled},
		"an observer of its Node": {func(s *testEnv) { s.tryout = nil }, nil, admission.SettingUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			for _, method := range []v1alpha1.CaptureMethod{v1alpha1.MethodCopy, v1alpha1.MethodInPlace} {
				options := []option{observed}
				if test.build != nil {
					options = append(options, test.build)
				}
				s := newTestEnv(t, options...).decide(func(p *v1alpha1.Prototype) { p.Spec.Settings.Donor.Method = method })
				if test.spoil != nil {
					test.spoil(s)
				}
				want := []string{test.reason}
				if method == v1alpha1.MethodInPlace {
					want = nil
				}
				if reasons, err := s.confirmationReasons(); err != nil || !slices.Equal(reasons, want) {
					t.Errorf("%s: %v, %v; want %v", method, reasons, err, want)
				}
			}
		})
	}
}

// TestWhatOnlyAnAbsentDonorNeeds: the credential for a copy need not stop, start or protect the donor.
func TestWhatOnlyAnAbsentDonorNeeds(t *testing.T) {
	s := newTestEnv(t, observed).decide(staysInService)
	s.cloud.Forbid("EnsureStopped", "EnsureStarted", "ProtectFromScaleIn", "Unprotect")
	if reasons, err := s.confirmationReasons(); err != nil || len(reasons) > 0 {
		t.Errorf("%v, %v", reasons, err)
	}
}
