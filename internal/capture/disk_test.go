package capture

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/capture/admission"
	"github.com/kamino-dev/kamino/internal/capture/plan"
	"github.com/kamino-dev/kamino/internal/cloud"
	"github.com/kamino-dev/kamino/internal/testing/memory"
)

// ended is the status of a look's pod whose container ended with words.
func ended(code int32, words string) *corev1.PodStatus {
	return &corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: words}},
	}}}
}

func hanging(reason, words string) *corev1.PodStatus {
	return &corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: words}},
	}}}
}

// TestRefusedInspectionLeavesNodeUnchanged: no hold, no cordon, no eviction, and no pod is left.
func TestRefusedInspectionLeavesNodeUnchanged(t *testing.T) {
	for name, c := range map[string]struct {
		finds *corev1.PodStatus
		blind bool
		words []string
	}{
		"another profile":     {finds: ended(3, "kamino: refused, nothing was changed: the profile asked for is static"), words: []string{"stayed in service: refused", "profile asked for"}},
		"no image":            {finds: hanging("ErrImagePull", "not found"), words: []string{"ErrImagePull: not found", "kamino:test", "settings.generalize.image"}},
		"too long":            {finds: &corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"}, words: []string{"did not end within 5m0s"}},
		"an ill program":      {finds: ended(2, "unknown flag --roots"), words: []string{"unknown flag"}},
		"no kubelet takes it": {blind: true, words: []string{"did not end within 5m0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t).decide()
			s.finds, s.blind = c.finds, c.blind
			before := s.tracked("nodes", "", donorName).(*corev1.Node)
			s.refused(string(plan.DiskCheckFailed), append(c.words, donorName)...)
			after := s.tracked("nodes", "", donorName).(*corev1.Node)
			if text := s.text(after.Spec) + s.text(after.Annotations); text != s.text(before.Spec)+s.text(before.Annotations) {
				t.Errorf("the node was changed: %s", text)
			}
			if s.generalizePod() != nil || s.order() != nil {
				t.Error("a pod or an order is left")
			}
			p := s.prototype()
			if len(p.Finalizers) > 0 {
				t.Errorf("finalizers are left: %v", p.Finalizers)
			}
			for _, step := range p.Status.Steps {
				if step.Phase != v1alpha1.PhasePreflight {
					t.Errorf("it went into %s, and nothing was taken", step.Phase)
				}
			}
		})
	}
}

// TestRefusedInspectionIsNoVerdict: a full node has room after the drain.
func TestRefusedInspectionIsNoVerdict(t *testing.T) {
	s := newTestEnv(t).decide()
	s.finds = &corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods"}
	s.succeeded(s.play())
}

// TestTheLookCostsTheDonorNothing: it is over before anything is taken, has no credential, and cannot write.
func TestTheLookCostsTheDonorNothing(t *testing.T) {
	s := newTestEnv(t).decide(func(p *v1alpha1.Prototype) { p.Spec.Settings.Generalize.UnknownFiles = v1alpha1.UnknownFilesRefuse })
	var looked []*corev1.Pod
	s.succeeded(s.play(func(int) {
		pod := s.generalizePod()
		if pod == nil || pod.Labels["app.kubernetes.io/component"] != inspectionContainer {
			return
		}
		looked = append(looked, pod)
		n := s.tracked("nodes", "", donorName).(*corev1.Node)
		if n.Spec.Unschedulable {
			t.Error("the node is cordoned while its disk is looked at")
		}
	}))
	if len(looked) == 0 {
		t.Fatal("no look")
	}
	spec := looked[0].Spec
	c := spec.Containers[0]
	if args := strings.Join(c.Args, " "); args != "inspect --root /host --profile static --unknown-files Refuse" {
		t.Errorf("it runs %s", args)
	}
	loud := false
	for _, c := range []struct {
		pioneer *v1alpha1.PioneerSettings
		want    string
	}{
		{&v1alpha1.PioneerSettings{}, " --patched-by-kamino Refuse --quiet-nodes"},
		{&v1alpha1.PioneerSettings{OtherRebooters: v1alpha1.OtherRebootersAllow}, " --patched-by-kamino Allow --quiet-nodes"},
		{&v1alpha1.PioneerSettings{QuietNodes: &loud}, " --patched-by-kamino Refuse"},
		{nil, ""},
	} {
		p := s.prototype()
		p.Spec.Pioneer = c.pioneer
		if args := strings.Join(inspectionPod(p, podspace, "kamino:test").Spec.Containers[0].Args, " "); !strings.HasSuffix(args,
			"--unknown-files Refuse"+c.want) {
			t.Errorf("the inspection of the pioneer %+v runs %s", c.pioneer, args)
		}
	}
	copied := s.prototype()
	copied.Spec.Settings.Donor.Method = v1alpha1.MethodCopy
	if args := inspectionPod(copied, podspace, "kamino:test").Spec.Containers[0].Args; !slices.Contains(args, "--copied") {
		t.Errorf("the inspection of a donor whose disk is copied runs %v", args)
	}
	for want, pioneer := range map[bool]*v1alpha1.PioneerSettings{true: {}, false: {QuietNodes: &loud}} {
		p := s.prototype()
		p.Spec.Pioneer = pioneer
		if args := generalizePod(p, v1alpha1.Record{}, podspace, "kamino:test").Spec.Containers[0].Args; slices.Contains(args, "--quiet-nodes") != want {
			t.Errorf("a pioneer with %+v runs %v", pioneer, args)
		}
	}
	if args := generalizePod(s.prototype(), v1alpha1.Record{}, podspace, "kamino:test").Spec.Containers[0].Args; slices.Contains(args, "--quiet-nodes") {
		t.Errorf("a capture without a pioneer runs %v", args)
	}
	for _, m := range c.VolumeMounts {
		if !m.ReadOnly {
			t.Errorf("it may write to %s", m.MountPath)
		}
	}
	if len(spec.Volumes) != 1 || spec.Volumes[0].HostPath == nil || *spec.AutomountServiceAccountToken || spec.HostPID || spec.PriorityClassName != "" {
		t.Errorf("it is more than a look: %+v", spec)
	}
	if c.SecurityContext.Privileged != nil || *c.SecurityContext.AllowPrivilegeEscalation {
		t.Errorf("it is privileged: %+v", c.SecurityContext)
	}
	whole := inspectionPod(s.prototype(), podspace, "kamino:test")
	generalize := generalizePod(s.prototype(), v1alpha1.Record{}, podspace, "kamino:test")
	if whole.Spec.Containers[0].Image != generalize.Spec.Containers[0].Image || whole.Spec.ServiceAccountName != generalize.Spec.ServiceAccountName ||
		whole.Spec.NodeName != generalize.Spec.NodeName {
		t.Error("it is not of the image, the account and the node of the generalize pod")
	}
}

func comparing(p *v1alpha1.Prototype) {
	p.Spec.Settings.Generalize.UnknownFiles = v1alpha1.UnknownFilesRefuseDifferent
}

// TestProgressOfInspections: the inspection of another node, which comes first, is not said to be the donor's.
func TestProgressOfInspections(t *testing.T) {
	w := &pass{p: &v1alpha1.Prototype{Spec: v1alpha1.PrototypeSpec{Donor: v1alpha1.Donor{NodeName: "donor"}}}}
	for _, of := range []struct{ node, want string }{
		{"", "inspecting the node's disk"}, {"donor", "inspecting the node's disk"},
		{"peer", "reading the files of node peer, to compare the donor's with them"},
	} {
		if w.disk.pod = nil; of.node != "" {
			w.disk.pod = &corev1.Pod{Spec: corev1.PodSpec{NodeName: of.node}}
		}
		if got := progress(w, plan.Decision{Do: plan.Wait, Why: plan.ForLook}); got != of.want {
			t.Errorf("pod on %q: %q, want %q", of.node, got, of.want)
		}
	}
}

// TestFilesAreComparedWithAnotherNode: a pod on another node of the pool ends first, and its result goes to the pod on the
// donor. Afterwards no pod is left.
func TestFilesAreComparedWithAnotherNode(t *testing.T) {
	for name, c := range map[string]struct {
		deleted bool
		want    []string
	}{
		"another node": {want: []string{
			"peer: inspect --root /host --profile static --unknown-files RefuseDifferent --summarize /dev/termination-log --summary-key-file /var/run/kamino/key",
			"donor: inspect --root /host --profile static --unknown-files RefuseDifferent --compare-with peer=FILES --summary-key-file /var/run/kamino/key",
		}},
		"no other node": {true, []string{"donor: inspect --root /host --profile static --unknown-files RefuseDifferent"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t).decide(comparing)
			s.summary = succeededWith("FILES")
			if c.deleted {
				peer := s.tracked("nodes", "", "peer").(*corev1.Node)
				peer.DeletionTimestamp = &metav1.Time{Time: s.clock.Now()}
				s.must(s.objects.Update(corev1.SchemeGroupVersion.WithResource("nodes"), peer, ""))
			}
			var ran []string
			keys := map[string]bool{}
			s.succeeded(s.play(func(int) {
				pod := s.generalizePod()
				if pod == nil || pod.Labels["app.kubernetes.io/component"] != inspectionContainer {
					return
				}
				if secret := s.summaryKey(); secret != nil {
					keys[string(secret.Data["key"])] = true
				} else if !c.deleted {
					t.Errorf("the pod on node %s has no key", pod.Spec.NodeName)
				}
				if line := pod.Spec.NodeName + ": " + strings.Join(pod.Spec.Containers[0].Args, " "); !slices.Contains(ran, line) {
					ran = append(ran, line)
				}
			}))
			if diff := cmp.Diff(c.want, ran); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
			if want := len(c.want) - 1; len(keys) != want {
				t.Errorf("%d keys, want %d for both pods", len(keys), want)
			}
			for key := range keys {
				if len(key) != summaryKeyBytes || strings.Contains(strings.Join(ran, "\n"), key) {
					t.Errorf("a key of %d bytes, in the arguments of a pod or too short", len(key))
				}
			}
			if s.summaryKey() != nil {
				t.Error("the key is left")
			}
		})
	}
}

// summaryKey is the Secret with the key of the summary; nil if there is none.
func (s *testEnv) summaryKey() *corev1.Secret {
	secret, _ := s.tracked("secrets", podspace, summaryKeyName(s.prototype())).(*corev1.Secret)
	return secret
}

// TestReportedComparison: the result is in the status, and a node that cannot be compared does not refuse the capture.
func TestReportedComparison(t *testing.T) {
	for name, c := range map[string]struct {
		summary *corev1.PodStatus
		arg     string
	}{
		"another node":        {succeededWith("FILES"), "peer=FILES"},
		"a failed inspection": {ended(3, "kamino: refused, nothing was changed: the profile asked for is static"), "peer="},
		"no image":            {hanging("ErrImagePull", "not found"), "peer="},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestEnv(t).decide(func(p *v1alpha1.Prototype) {
				p.Spec.Settings.Generalize.UnknownFiles = v1alpha1.UnknownFilesReportDifferent
			})
			s.summary, s.finds = c.summary, succeededWith("unknown files: the result")
			arg := ""
			p := s.play(func(int) {
				if pod := s.generalizePod(); pod != nil && pod.Spec.NodeName == donorName {
					args := pod.Spec.Containers[0].Args
					if i := slices.Index(args, "--compare-with"); i >= 0 {
						arg = args[i+1]
					}
				}
			})
			s.succeeded(p)
			if arg != c.arg || p.Status.UnknownFiles != "unknown files: the result" {
				t.Errorf("compared with %q, and the status is %q", arg, p.Status.UnknownFiles)
			}
			if s.summaryKey() != nil {
				t.Error("the key is left")
			}
		})
	}
}

func succeededWith(message string) *corev1.PodStatus {
	status := ended(0, message)
	status.Phase = corev1.PodSucceeded
	return status
}

// TestLostCallsOfAComparison: whichever call of the inspections is lost, the capture succeeds, and no key is left.
func TestLostCallsOfAComparison(t *testing.T) {
	memory.Courses{Losses: losses, Least: 20, Choose: until("ProtectFromScaleIn "), Sparse: true,
		Play: func(t *testing.T, schedule *memory.Schedule) {
			s := newTestEnv(t).decide(comparing)
			s.summary, s.schedule = succeededWith("FILES"), schedule
			s.succeeded(s.play())
			if s.summaryKey() != nil {
				t.Error("the key is left")
			}
		}}.LoseEach(t)
}

// TestAnotherNodeThatCannotBeCompared refuses the capture, and names that node.
func TestAnotherNodeThatCannotBeCompared(t *testing.T) {
	s := newTestEnv(t).decide(comparing)
	s.summary = ended(3, "kamino: refused, nothing was changed: the profile asked for is static")
	s.refused(string(plan.DiskCheckFailed), "the files of node peer cannot be compared with node donor, which stayed in service", "profile asked for",
		"unknownFiles")
	if s.generalizePod() != nil || s.summaryKey() != nil {
		t.Error("a pod or its key is left")
	}
}

// TestTheCloudIsAskedOnce: the preflight's requests before the inspection are not repeated afterwards.
func TestTheCloudIsAskedOnce(t *testing.T) {
	s := newTestEnv(t).decide()
	s.succeeded(s.play())
	asked := 0
	for _, call := range s.calls()[:firstCall(s.calls(), "ProtectFromScaleIn ")] {
		if strings.HasPrefix(call, "Preflight") {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("the cloud's preflight was made %d times", asked)
	}
}

// TestACaptureThatWaitsLooksAgain: a look that is not used at once is thrown away.
func TestACaptureThatWaitsLooksAgain(t *testing.T) {
	s := newTestEnv(t).decide()
	other := &v1alpha1.Prototype{}
	other.Name, other.UID = "other-2026.03.14", "other"
	other.Spec = s.prototype().Spec
	other.Spec.Pool, other.Spec.PoolID = "other", "memory:///pools/other"
	other.Spec.Donor.ProviderID = "memory:///elsewhere"
	waited := false
	p := s.play(func(pass int) {
		switch {
		case pass == 0: // it looks: now another capture takes the only place
			s.must(s.clean.Create(t.Context(), other))
			other.Status.Record = &v1alpha1.Record{UID: other.UID, Reservation: &v1alpha1.Reservation{}}
			s.must(s.clean.Status().Update(t.Context(), other))
		case s.prototype().Status.Phase == v1alpha1.PhasePending:
			waited = true
			if s.generalizePod() != nil {
				t.Error("the old look is kept")
			}
			_ = s.clean.Delete(t.Context(), other)
		}
	})
	s.succeeded(p)
	if !waited {
		t.Error("it did not wait")
	}
}

// TestDeletedDuringInspection leaves no pod and no hold.
func TestDeletedDuringInspection(t *testing.T) {
	s := newTestEnv(t).decide()
	s.blind = true
	p := s.play(func(pass int) {
		if pass == 2 {
			s.must(s.clean.Delete(t.Context(), s.prototype()))
		}
	})
	if p != nil || s.generalizePod() != nil {
		t.Errorf("left: %v, %v", p, s.generalizePod())
	}
	s.gaveBack()
}

// TestRightsThatAreMissing are refused before the node is touched.
func TestRightsThatAreMissing(t *testing.T) {
	for _, right := range []string{"get nodeorders", "patch nodeorders/status"} {
		s := newTestEnv(t).decide()
		s.lacks = []string{right}
		s.refused(admission.NotInstalled, podspace+"/"+v1alpha1.GeneralizeServiceAccount, right, "kamino manifests")
	}
	force := func(p *v1alpha1.Prototype) { p.Spec.Settings.Drain.Force = true }
	s := newTestEnv(t).decide(force)
	s.lacks = []string{"delete pods"}
	s.refused(admission.NotAllowed, "rbac.force=true", "--force")

	s = newTestEnv(t).decide()
	s.lacks = []string{"delete pods"}
	s.succeeded(s.play())

	// Before the reservation only this process is checked.
	s = newTestEnv(t).decide(force)
	s.lacks = []string{"delete pods"}
	thought := s.prototype().DeepCopy()
	thought.UID = ""
	for _, drives := range []bool{false, true} {
		s.engine.Drives = drives
		refusals, err := s.engine.Refusals(t.Context(), thought)
		if err != nil || (len(refusals) > 0) != drives {
			t.Errorf("drives %v: %v, %v", drives, refusals, err)
		}
	}
}

// TestInspectionHasItsOwnTimeout: the deadline of a hold does not run while nothing is held. The inspections of another node and
// of the donor have the timeout each.
func TestInspectionHasItsOwnTimeout(t *testing.T) {
	s := newTestEnv(t).decide()
	s.blind = true
	at := s.clock.Now()
	s.play()
	if took := s.clock.Now().Sub(at); took < 2*inspectionTimeout || took > 2*inspectionTimeout+time.Minute {
		t.Errorf("it gave up after %s", took)
	}
}

// TestRootDisksOfTrials: the initramfs must also have the drivers of the machine types of further trials.
func TestRootDisksOfTrials(t *testing.T) {
	for name, c := range map[string]struct{ pool, types, want []string }{
		"the pool's":       {[]string{"nvme"}, nil, []string{"nvme"}},
		"of Xen":           {[]string{"nvme"}, []string{"m4.large", "m7i.large"}, []string{"nvme", "xen_blkfront"}},
		"of unknown types": {[]string{"nvme"}, []string{"a"}, []string{"nvme"}},
		"an unknown pool":  {nil, []string{"m4.large"}, nil},
	} {
		if got := rootDisksOf(cloud.Pool{RootDisks: c.pool}, c.types); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
