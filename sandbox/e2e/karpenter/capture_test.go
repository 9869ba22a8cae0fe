package karpenter

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kamino-dev/kamino/api/v1alpha1"
)

// TestCapture captures a node by copy, tries the version, and promotes it under the guard: running nodes drift, and stay. A pending pod
// gets a node of the version. `kamino restore` writes the former terms, which ends the drift.
func TestCapture(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "whole")
	_, former := e.class()
	pod := e.StartStubbornPod(e.Donor)
	since := metav1.Now()
	e.capture().ExpectExit(0, "stays in service", "now builds new nodes from version ", "out of service for 0s", "Provisioned: Passed", "Registered: Passed")

	p := e.AssertSucceeded(e.Donor)
	if method := p.Spec.Settings.Donor.Method; method != v1alpha1.MethodCopy || p.Status.Donor.FrozenFor == nil {
		t.Errorf("the method is %s, and the donor was %+v", method, p.Status.Donor)
	}
	if _, is := e.class(); is != fmt.Sprint([]any{map[string]any{"id": e.CloudPool().Image}}, "AL2023") {
		t.Errorf("the class selects %s", is)
	}
	e.AssertServed(pod)
	e.AssertServes(e.Donor)
	e.waitClaims("Drifted", metav1.ConditionTrue)
	e.waitHeld(since)
	e.assertClaims(0)
	e.assertNothingBeside()

	next := e.Grow()
	if e.VersionOf(next.Image) != p.Spec.Version {
		t.Errorf("node %s was built from %s, want version %s", next.Node, next.Image, p.Spec.Version)
	}
	e.assertClaims(1)

	e.Start("restore", e.Pool, "--yes", "--version", p.Spec.Version).ExpectExit(0)
	if _, is := e.class(); is != former {
		t.Errorf("the class selects %s, want %s as before", is, former)
	}
	e.waitClaims("Drifted", metav1.ConditionFalse)
	if last := e.Grow(); last.Image != e.Machines[0].Image {
		t.Errorf("after the recipe was restored, node %s was built from %s", last.Node, last.Image)
	}
	e.assertClaims(2)
	e.assertNothingBeside()
}
