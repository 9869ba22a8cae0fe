package trouble

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kamino-dev/kamino/api/v1alpha1"
	"github.com/kamino-dev/kamino/internal/node/nodestate"
	"github.com/kamino-dev/kamino/sandbox/sandboxtest"
)

// ageReservation moves the begin of the donor's reservation to the past, so that a time limit ends now. The Node's
// annotation has precedence over the record, so the annotation is changed last.
func ageReservation(e *sandboxtest.Env, by time.Duration) {
	e.Helper()
	text := func(value any) string {
		raw, err := json.Marshal(value)
		e.Must(err)
		return string(raw)
	}
	e.Eventually("the record can be changed", func() (bool, string) {
		object, err := e.PrototypeClient().Get(e.Context(), e.Prototype().Name, metav1.GetOptions{})
		e.Must(err)
		at, _, err := unstructured.NestedString(object.Object, "status", "record", "reservation", "reservedAt")
		e.Must(err)
		reserved, err := time.Parse(time.RFC3339, at)
		e.Must(err)
		e.Must(unstructured.SetNestedField(object.Object, reserved.Add(-by).Format(time.RFC3339), "status", "record", "reservation", "reservedAt"))
		_, err = e.PrototypeClient().UpdateStatus(e.Context(), object, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsConflict(err) {
			e.Fatal(err)
		}
		return err == nil, "conflict"
	})
	patchNode(e, e.Donor, func(n *corev1.Node) {
		reservation, err := v1alpha1.ReservationOf(n.Annotations)
		if err != nil || reservation == nil {
			e.Fatalf("node %s is not reserved: %v", e.Donor, err)
		}
		reservation.ReservedAt = metav1.NewTime(reservation.ReservedAt.Add(-by))
		n.Annotations[v1alpha1.ReservationAnnotation] = text(reservation)
	})
}

// TestDonorDoesNotReturn: the donor's machine hangs after the restart. The capture releases the donor without
// further changes.
func TestDonorDoesNotReturn(t *testing.T) {
	t.Parallel()
	e := sandbox.NewEnv(t, "name=hung,nodes=2")
	e.Barrier().Before(sandboxtest.CreateSnapshot, func() {
		if err := sandbox.Hang(t.Context(), e.Donor); err != nil {
			t.Error(err)
		}
	})
	capture := e.Capture(e.Donor)
	e.WaitPrototype("it waits for the donor", sandboxtest.InPhase(v1alpha1.PhaseWaitingReady))
	ageReservation(e, time.Hour)
	capture.ExpectExit(exitFailed, "node "+e.Donor+" was started again, but did not become Ready within 15m0s after the deadline",
		"returned as it is, without an image", "Read its boot log")
	e.AssertFailed("DonorNotReady")

	// Only the machine is broken now.
	if nodestate.Ready(e.Node(e.Donor)) {
		t.Error("the donor is Ready")
	}
	e.Must(sandbox.Unhang(t.Context(), e.Donor))
	e.AssertReturned(e.Before, e.Donor, 1)
	if e.CountWrites("version put") > 0 {
		t.Error("an image was made of it")
	}
}

// TestDonorLosesPower: the donor loses power before the proof of its pod, so its disk is not copied.
func TestDonorLosesPower(t *testing.T) {
	t.Parallel()
	e := sandbox.NewEnv(t, "name=crash,nodes=2")
	// The NodeOrder is written before the pod begins. Later the pod could be faster.
	e.Barrier().Before(sandboxtest.Request{Server: sandboxtest.APIServer, Pattern: "^POST .*/namespaces/" + e.PodNamespace + "/nodeorders$"}, func() {
		if err := sandbox.Crash(t.Context(), e.Donor); err != nil {
			t.Error(err)
		}
	})
	e.Capture(e.Donor).ExpectExit(exitFailed, "node "+e.Donor, "was returned to service")
	e.AssertReturned(e.Before, e.Donor, 1)
	if e.CountWrites("snapshot put") > 0 {
		t.Error("a disk that was not proven was copied")
	}
}

// patchNode changes a node as a user would.
func patchNode(e *sandboxtest.Env, name string, change func(*corev1.Node)) {
	e.Helper()
	e.Eventually("node "+name+" can be changed", func() (bool, string) {
		n := e.Node(name)
		change(n)
		_, err := e.Kube().CoreV1().Nodes().Update(e.Context(), n, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsConflict(err) {
			e.Fatal(err)
		}
		return err == nil, fmt.Sprint(err)
	})
}
